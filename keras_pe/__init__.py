"""Position encodings for Keras 3 that mean the same number everywhere."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_pe.positions import positions_from_mask as positions_from_mask
from keras_pe.registration import register_with_keras
from keras_pe.shifts import shift_matrix as shift_matrix
from keras_pe.timescales import timing_signal as timing_signal

if TYPE_CHECKING:
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding as SinusoidalPositionEncoding

__version__ = "0.1.0"

# Public names that need Keras, and the module each comes from: imported when first asked for.
_LAZY = {
    "SinusoidalPositionEncoding": "keras_pe.layers.sinusoidal_position_encoding",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


register_with_keras()
