"""A layer that pads by itself, given what is padded already, as other frameworks do."""

from dataclasses import replace
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import as_tensor, with_attributes
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause

_MODES = ("reflect", "symmetric", "edge", "wrap")  # NumPy's names
_Widths = list[tuple[int, int]]


def other_paddings(fault: LayerFault) -> Edits:
    """Yields the layer with other pixels on other sides of its images."""
    if not hasattr(fault.call.layer, "get_config"):
        return
    config, image = fault.call.layer.get_config(), fault.call.inputs[0] if fault.call.inputs else np.zeros(())
    sizes = config.get("kernel_size") or config.get("pool_size")
    if config.get("padding") != "same" or not isinstance(sizes, list | tuple) or image.ndim != len(sizes) + 2:
        return
    dilations = config.get("dilation_rate") or (1,) * len(sizes)
    reach = [(size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
    sides: dict[str, _Widths] = {
        "as much before as after": [(r // 2, r // 2) for r in reach],
        "all of it before": [(r, 0) for r in reach],
        "all of it after": [(0, r) for r in reach],
    }
    for where, widths in sides.items():
        padded = partial(_padded, widths=widths, mode="constant")
        yield Edit(Cause.OTHER_PADDING, f"padded with zeros, {where},", padded)
    for mode in _MODES:
        padded = partial(_padded, widths=[(r // 2, r - r // 2) for r in reach], mode=mode)
        yield Edit(Cause.OTHER_PADDING, f"padded by {mode!r}", padded)


def _padded(fault: LayerFault, widths: _Widths, mode: str) -> Array:
    padded = np.pad(fault.call.inputs[0], [(0, 0), *widths, (0, 0)], mode)  # type: ignore[call-overload]
    call = replace(fault.call, arguments=(as_tensor(padded), *fault.call.arguments[1:]))
    return with_attributes(replace(fault, call=call), {"padding": "valid"})
