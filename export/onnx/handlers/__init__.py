"""Handlers for the operators that tf2onnx lacks or gets wrong, one family a module.

They are valid from opset 15, the lowest exported to, unless they say otherwise.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping


def all_handlers(opset: int) -> Mapping[tuple[str, int], Callable[..., None]]:
    """Returns the handlers of every module here, by operator and the opset that tf2onnx writes.

    Args:
        opset: The one that is exported to.
    """
    from keras_pe.export.onnx.handlers.replacement import HANDLERS

    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {key: function for key, (function, least) in HANDLERS.items() if opset >= least}
