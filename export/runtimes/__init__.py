"""The runtimes, one a file: each loads an artifact and runs it.

The public names, which the type stub lists, are for authors of runtimes. Other modules may change from one version to
the next.
"""

from keras_pe.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
