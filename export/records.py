"""The records that exports and checks return, and the parts of a returned report."""

from keras_pe.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
