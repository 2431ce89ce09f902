"""The records of exports and checks: what they return, and what a returned report holds."""

from keras_pe.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
