"""The export of a Keras model, and the check that a file returns what the model returns.

The public names are those of this package, of `records` and of `runtimes`, as their type stubs list them. Other modules
may change from one version to the next.
"""

from keras_pe.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
