"""A layer that resizes images, with the new pixels in other places between the old ones, or rounded to others."""

from collections.abc import Callable
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Array, Cause

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
