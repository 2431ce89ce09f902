"""Position encodings for Keras 3 that mean the same number everywhere."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_pe.positions import positions_from_mask as positions_from_mask
from keras_pe.registration import register_with_keras
from keras_pe.shifts import shift_matrix as shift_matrix
from keras_pe.timescales import timing_signal as timing_signal

if TYPE_CHECKING:
    from keras_pe.layers.learned_position_embedding import LearnedPositionEmbedding as LearnedPositionEmbedding
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding as SinusoidalPositionEncoding

__version__ = "0.1.0"

# Public names that need Keras, and the module each comes from, or is: imported when first asked for.
_LAZY = {
    "export": "keras_pe.export",
    "tensor2tensor": "keras_pe.tensor2tensor",
    "LearnedPositionEmbedding": "keras_pe.layers.learned_position_embedding",
    "SinusoidalPositionEncoding": "keras_pe.layers.sinusoidal_position_encoding",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_LAZY[name])
    return module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


register_with_keras()
