"""The command line: the only package that prints or exits."""

from keras_pe.lazy import attach_stub

# `standard_streams` has to handle Ctrl-C before click is imported.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
