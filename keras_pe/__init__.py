"""Position encodings for Keras 3 that mean the same number everywhere."""

from typing import TYPE_CHECKING

from keras_pe.lazy import lazy_names
from keras_pe.registration import register_with_keras
from keras_pe.version import __version__

if TYPE_CHECKING:
    from keras_pe import conventions, export, plots, tensor2tensor
    from keras_pe.conventions.catalogue import from_convention
    from keras_pe.conventions.identification.identify import identify
    from keras_pe.layers.alibi_bias import AlibiBias
    from keras_pe.layers.continuous_position_bias import ContinuousPositionBias
    from keras_pe.layers.fourier_features import FourierFeatures
    from keras_pe.layers.grid_position_bias import GridPositionBias
    from keras_pe.layers.grid_position_embedding import GridPositionEmbedding
    from keras_pe.layers.learned_position_embedding import LearnedPositionEmbedding
    from keras_pe.layers.relative_position_bias import RelativePositionBias
    from keras_pe.layers.relative_position_embedding import RelativePositionEmbedding
    from keras_pe.layers.rotary_position_encoding import RotaryPositionEncoding
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding
    from keras_pe.layers.timestep_embedding import TimestepEmbedding
    from keras_pe.shifts import shift_matrix
    from keras_pe.signal.coordinates import Coordinates
    from keras_pe.signal.formula import timing_signal
    from keras_pe.signal.resizing import resize_position_table
    from keras_pe.signal.rope_scalings import rope_timescales
    from keras_pe.token_positions import positions_from_mask

__all__ = [
    "AlibiBias",
    "ContinuousPositionBias",
    "Coordinates",
    "FourierFeatures",
    "GridPositionBias",
    "GridPositionEmbedding",
    "LearnedPositionEmbedding",
    "RelativePositionBias",
    "RelativePositionEmbedding",
    "RotaryPositionEncoding",
    "SinusoidalPositionEncoding",
    "TimestepEmbedding",
    "__version__",
    "conventions",
    "export",
    "from_convention",
    "identify",
    "plots",
    "positions_from_mask",
    "resize_position_table",
    "rope_timescales",
    "shift_matrix",
    "tensor2tensor",
    "timing_signal",
]

# The module that each name comes from, or is. Each is imported when it is first used: NumPy takes longer than the rest.
_LAZY = {
    "AlibiBias": "keras_pe.layers.alibi_bias",
    "ContinuousPositionBias": "keras_pe.layers.continuous_position_bias",
    "Coordinates": "keras_pe.signal.coordinates",
    "FourierFeatures": "keras_pe.layers.fourier_features",
    "GridPositionBias": "keras_pe.layers.grid_position_bias",
    "GridPositionEmbedding": "keras_pe.layers.grid_position_embedding",
    "LearnedPositionEmbedding": "keras_pe.layers.learned_position_embedding",
    "RelativePositionBias": "keras_pe.layers.relative_position_bias",
    "RelativePositionEmbedding": "keras_pe.layers.relative_position_embedding",
    "RotaryPositionEncoding": "keras_pe.layers.rotary_position_encoding",
    "SinusoidalPositionEncoding": "keras_pe.layers.sinusoidal_position_encoding",
    "TimestepEmbedding": "keras_pe.layers.timestep_embedding",
    "conventions": "keras_pe.conventions",
    "export": "keras_pe.export",
    "from_convention": "keras_pe.conventions.catalogue",
    "identify": "keras_pe.conventions.identification.identify",
    "plots": "keras_pe.plots",
    "positions_from_mask": "keras_pe.token_positions",
    "resize_position_table": "keras_pe.signal.resizing",
    "rope_timescales": "keras_pe.signal.rope_scalings",
    "shift_matrix": "keras_pe.shifts",
    "tensor2tensor": "keras_pe.tensor2tensor",
    "timing_signal": "keras_pe.signal.formula",
}

__getattr__, __dir__ = lazy_names(__name__, __all__, _LAZY)

register_with_keras()
