"""A layer that pads by itself, given what is padded already, or cut by hand, as other frameworks do."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Compute, Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import as_tensor, with_attributes
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause

_MODES = ("reflect", "symmetric", "edge", "wrap")  # NumPy's names
_Widths = list[tuple[int, int]]


def other_paddings(fault: LayerFault) -> Edits:
    """Yields the layer with other pixels on other sides of its images, or other sides cut off what it returns."""
    if not hasattr(fault.call.layer, "get_config"):
        return
    config, image = fault.call.layer.get_config(), fault.call.inputs[0] if fault.call.inputs else np.zeros(())
    sizes = config.get("kernel_size") or config.get("pool_size")
    if config.get("padding") != "same" or not isinstance(sizes, list | tuple) or image.ndim != len(sizes) + 2:
        return
    dilations = config.get("dilation_rate") or (1,) * len(sizes)
    reach = [(size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
    if "output_padding" in config:  # a transposed convolution
        too_many = [max(r + 1 - stride, 0) for r, stride in zip(reach, config["strides"], strict=True)]
        for where, widths in _sides(too_many).items():
            yield Edit(Cause.OTHER_PADDING, f"with what its output has too much cut off, {where},", _cut(widths))
        return
    for where, widths in _sides(reach).items():
        padded = partial(_padded, widths=widths, mode="constant")
        yield Edit(Cause.OTHER_PADDING, f"padded with zeros, {where},", padded)
    for mode in _MODES:
        padded = partial(_padded, widths=[(r // 2, r - r // 2) for r in reach], mode=mode)
        yield Edit(Cause.OTHER_PADDING, f"padded by {mode!r}", padded)


def _sides(amounts: Sequence[int]) -> dict[str, _Widths]:
    """Returns how an amount along each axis may be divided between before and after."""
    return {
        "as much before as after": [(n // 2, n // 2) for n in amounts],
        "the larger half before": [(n - n // 2, n // 2) for n in amounts],
        "all of it before": [(n, 0) for n in amounts],
        "all of it after": [(0, n) for n in amounts],
    }


def _padded(fault: LayerFault, widths: _Widths, mode: str) -> Array:
    padded = np.pad(fault.call.inputs[0], [(0, 0), *widths, (0, 0)], mode)  # type: ignore[call-overload]
    call = replace(fault.call, arguments=(as_tensor(padded), *fault.call.arguments[1:]))
    return with_attributes(replace(fault, call=call), {"padding": "valid"})


def _cut(widths: _Widths) -> Compute:
    def compute(fault: LayerFault) -> Array:
        whole = with_attributes(fault, {"padding": "valid"})
        inner = (
            slice(before, before + size) for (before, _), size in zip(widths, fault.expected.shape[1:-1], strict=True)
        )
        return whole[:, *inner]

    return compute
