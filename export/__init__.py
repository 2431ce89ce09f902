"""Exports of Keras models, and the check that an exported file matches its model.

The public names are those in the type stubs of this package, of `records` and of `runtimes`. Other modules may change
in any version.
"""

from keras_pe.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
