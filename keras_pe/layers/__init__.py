"""Layers, one a file."""

from keras_pe.layers.learned_position_embedding import LearnedPositionEmbedding as LearnedPositionEmbedding
from keras_pe.layers.rotary_position_encoding import RotaryPositionEncoding as RotaryPositionEncoding
from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding as SinusoidalPositionEncoding
