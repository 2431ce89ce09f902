"""From a converted graph to the model that is written: weights, names, order, checks."""

import contextlib

from keras_pe.export.dependencies import deferred_import

# sympy takes 31 MiB, for arithmetic with symbolic sizes, which no pass uses. If a later onnx_ir fails here, the modules
# of this folder import it in the usual way.
with deferred_import("sympy"), contextlib.suppress(Exception):
    import onnx_ir  # noqa: F401
