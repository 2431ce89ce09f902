"""A layer of images that pads otherwise, given what is padded already, or that reads other places between pixels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_tensor, with_attributes
from keras_pe.export.results import Array, Cause

_MODES = ("reflect", "symmetric", "edge", "wrap")  # NumPy's names
_Widths = list[tuple[int, int]]

_AXES = (-3, -2)  # the height and width of an image
_Places = Callable[[Array, int, int], Array]

_PLACES: dict[str, _Places] = {  # the names are those of ONNX's Resize
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
            said = f"with what its output has too much cut off, {where},"
            yield Edit(Cause.OTHER_PADDING, said, partial(_cut, widths=widths))
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


def _cut(fault: LayerFault, widths: _Widths) -> Array:
    whole, sizes = with_attributes(fault, {"padding": "valid"}), fault.expected.shape[1:-1]
    return whole[:, *(slice(before, before + size) for (before, _), size in zip(widths, sizes, strict=True))]


def other_places(fault: LayerFault) -> Edits:
    """Yields the layer as it would resize with each convention of places, linearly and to the nearest pixel."""
    layer = fault.call.layer
    images, shape = fault.call.inputs[0] if fault.call.inputs else np.zeros(()), fault.expected.shape
    resizes = hasattr(layer, "interpolation") and getattr(layer, "data_format", None) != "channels_first"
    if not resizes or images.ndim < 3 or images.ndim != len(shape):
        return
    for name, places in _PLACES.items():
        linear = partial(_resized, places=places)
        yield Edit(Cause.OTHER_PLACES, f"with places by {name!r} and linear weights", linear)
        for rounding, rounded in _ROUNDED.items():
            nearest = partial(_resized, places=places, rounded=rounded)
            yield Edit(Cause.OTHER_PLACES, f"with places by {name!r}, each {rounding!r} to a pixel,", nearest)


def _resized(fault: LayerFault, places: _Places, rounded: Callable[[Array], Array] | None = None) -> Array:
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
