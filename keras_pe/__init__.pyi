"""The public names of the package, each with its module."""

from keras_pe import conventions as conventions
from keras_pe import export as export
from keras_pe import plots as plots
from keras_pe import tensor2tensor as tensor2tensor
from keras_pe.conventions.catalogue import from_convention as from_convention
from keras_pe.conventions.identification.identify import identify as identify
from keras_pe.layers.alibi_bias import AlibiBias as AlibiBias
from keras_pe.layers.continuous_position_bias import ContinuousPositionBias as ContinuousPositionBias
from keras_pe.layers.fourier_features import FourierFeatures as FourierFeatures
from keras_pe.layers.grid_position_bias import GridPositionBias as GridPositionBias
from keras_pe.layers.grid_position_embedding import GridPositionEmbedding as GridPositionEmbedding
from keras_pe.layers.learned_position_embedding import LearnedPositionEmbedding as LearnedPositionEmbedding
from keras_pe.layers.relative_position_bias import RelativePositionBias as RelativePositionBias
from keras_pe.layers.relative_position_embedding import RelativePositionEmbedding as RelativePositionEmbedding
from keras_pe.layers.rotary_position_encoding import RotaryPositionEncoding as RotaryPositionEncoding
from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding as SinusoidalPositionEncoding
from keras_pe.layers.timestep_embedding import TimestepEmbedding as TimestepEmbedding
from keras_pe.shifts import shift_matrix as shift_matrix
from keras_pe.signal.coordinates import Coordinates as Coordinates
from keras_pe.signal.formula import timing_signal as timing_signal
from keras_pe.signal.resizing import resize_position_table as resize_position_table
from keras_pe.signal.rope_scalings import rope_timescales as rope_timescales
from keras_pe.token_positions import positions_from_mask as positions_from_mask
from keras_pe.version import __version__ as __version__
