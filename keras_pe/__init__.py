"""Position encodings for Keras 3, with equal numbers in every backend and runtime."""

from keras_pe.lazy import attach_stub
from keras_pe.registration import register_with_keras

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)

register_with_keras()
