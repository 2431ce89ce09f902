"""Position encodings for Keras 3 that mean the same number everywhere."""

from typing import TYPE_CHECKING

from keras_pe.conventions import from_convention as from_convention
from keras_pe.conventions import identify as identify
from keras_pe.lazy import lazy_names
from keras_pe.masks import positions_from_mask as positions_from_mask
from keras_pe.registration import register_with_keras
from keras_pe.shifts import shift_matrix as shift_matrix
from keras_pe.timescales import timing_signal as timing_signal
from keras_pe.version import __version__ as __version__

if TYPE_CHECKING:
    from keras_pe.layers.learned_position_embedding import LearnedPositionEmbedding as LearnedPositionEmbedding
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding as SinusoidalPositionEncoding

# Public names that need Keras, and the module each comes from, or is: imported when first asked for.
_LAZY = {
    "export": "keras_pe.export",
    "tensor2tensor": "keras_pe.tensor2tensor",
    "LearnedPositionEmbedding": "keras_pe.layers.learned_position_embedding",
    "SinusoidalPositionEncoding": "keras_pe.layers.sinusoidal_position_encoding",
}


__getattr__ = lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


register_with_keras()
