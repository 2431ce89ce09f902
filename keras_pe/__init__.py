"""Position encodings for Keras 3 that mean the same number everywhere."""

from keras_pe.timescales import timing_signal as timing_signal

__version__ = "0.1.0"
