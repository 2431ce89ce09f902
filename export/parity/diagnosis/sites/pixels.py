"""Edits of image layers: other padding, padding of padded inputs, and other sampling positions between pixels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_tensor, with_attributes
from keras_pe.export.results import Array, Cause

_MODES = ("reflect", "symmetric", "edge", "wrap")  # NumPy's names
_DILATIONS = (1, 2, 3)
_SIDES: dict[str, Callable[[int], int]] = {  # the part of an amount that is before
    "as much before as after": lambda amount: amount // 2,
    "the larger half before": lambda amount: amount - amount // 2,
    "all of it before": lambda amount: amount,
    "all of it after": lambda amount: 0,
}

_AXES = (-3, -2)  # the height and width of an image
_Places = Callable[[Array, int, int], Array]

_PLACES: dict[str, _Places] = {  # with the names of ONNX's Resize
    "half_pixel": lambda pixel, old, new: (pixel + 0.5) * old / new - 0.5,
    "align_corners": lambda pixel, old, new: pixel * (old - 1) / max(new - 1, 1),
    "asymmetric": lambda pixel, old, new: pixel * old / new,
}
_ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda place: np.ceil(place - 0.5),
    "round_prefer_ceil": lambda place: np.floor(place + 0.5),
}


def other_paddings(fault: LayerFault) -> Edits:
    """Yields the layer with other padding of its images, or of its output."""
    if not hasattr(fault.call.layer, "get_config"):
        return
    config, image = fault.call.layer.get_config(), fault.call.inputs[0] if fault.call.inputs else np.zeros(())
    sizes = config.get("kernel_size") or config.get("pool_size")
    if not isinstance(sizes, list | tuple) or image.ndim != len(sizes) + 2:
        return
    is_padded, is_transposed = config.get("padding") == "same", "output_padding" in config
    dilations = config.get("dilation_rate") or (1,) * len(sizes)
    reach = [(size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
    for where, before in _SIDES.items():
        if is_padded and not is_transposed:
            padded = partial(_pad, widths=[(before(r), r - before(r)) for r in reach], mode="constant")
            yield Edit(Cause.OTHER_PADDING, f"padded with zeros, {where}", padded)
        if is_padded:
            fitted = partial(_fit_size, change={"padding": "valid"}, before=before)
            how = "with its output cropped" if is_transposed else "with zeros around its output"
            yield Edit(Cause.OTHER_PADDING, f"{how}, {where}", fitted)
        for rate in _DILATIONS if max(dilations) > 1 else ():
            fitted = partial(_fit_size, change={"dilation_rate": (rate,) * len(sizes)}, before=before)
            description = f"with dilation_rate={rate} and its output cropped to size, {where}"
            yield Edit(Cause.attribute("dilation_rate"), description, fitted)
    for mode in _MODES if is_padded and not is_transposed else ():
        padded = partial(_pad, widths=[(r // 2, r - r // 2) for r in reach], mode=mode)
        yield Edit(Cause.OTHER_PADDING, f"padded by {mode!r}", padded)


def _pad(fault: LayerFault, widths: Sequence[tuple[int, int]], mode: str) -> Array:
    padded = np.pad(fault.call.inputs[0], [(0, 0), *widths, (0, 0)], mode)  # type: ignore[call-overload]
    call = replace(fault.call, arguments=(as_tensor(padded), *fault.call.arguments[1:]))
    return with_attributes(replace(fault, call=call), {"padding": "valid"})


def _fit_size(fault: LayerFault, change: Mapping[str, Any], before: Callable[[int], int]) -> Array:
    """Returns the layer's output with other attributes, cropped or zero-padded to the expected size.

    Args:
        fault: The call.
        change: The attributes by name.
        before: Returns the part of an amount that is cropped or padded before the first pixel of an axis.
    """
    output = with_attributes(fault, change)
    for axis, size in enumerate(fault.expected.shape[1:-1], start=1):
        more = output.shape[axis] - size
        if more > 0:
            output = output.take(range(before(more), before(more) + size), axis)
        widths = [
            (before(-more), -more - before(-more)) if each == axis and more < 0 else (0, 0)
            for each in range(output.ndim)
        ]
        output = np.pad(output, widths)
    return output


def other_places(fault: LayerFault) -> Edits:
    """Yields a resizing layer with each convention of coordinates, with linear and nearest interpolation."""
    layer = fault.call.layer
    images, shape = fault.call.inputs[0] if fault.call.inputs else np.zeros(()), fault.expected.shape
    resizes = hasattr(layer, "interpolation") and getattr(layer, "data_format", None) != "channels_first"
    if not resizes or images.ndim < 3 or images.ndim != len(shape):
        return
    for name, places in _PLACES.items():
        linear = partial(_resize, places=places)
        yield Edit(Cause.OTHER_PLACES, f"with places by {name!r} and linear weights", linear)
        for rounding, rounded in _ROUNDED.items():
            nearest = partial(_resize, places=places, rounded=rounded)
            yield Edit(Cause.OTHER_PLACES, f"with places by {name!r}, each {rounding!r} to a pixel", nearest)


def _resize(fault: LayerFault, places: _Places, rounded: Callable[[Array], Array] | None = None) -> Array:
    """Returns images resized along one axis after the other."""
    images = fault.call.inputs[0]
    resized = images.astype(np.float64)
    for axis in _AXES:
        old, new = images.shape[axis], fault.expected.shape[axis]
        at = places(np.arange(new, dtype=np.float64), old, new)
        at = np.clip(at if rounded is None else rounded(at), 0, old - 1)
        below = np.floor(at).astype(int)
        weights = (at - below).reshape(-1, *[1] * (-1 - axis))
        low, high = (resized.take(which, axis) for which in (below, np.minimum(below + 1, old - 1)))
        resized = low + (high - low) * weights
    return resized.astype(images.dtype)
