"""Handlers for the operators that tf2onnx lacks or converts wrongly, with one family of operators in each module.

A handler is valid from opset 15, the lowest for exports, unless it declares another.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping


def all_handlers(opset: int) -> Mapping[tuple[str, int], Callable[..., None]]:
    """Returns the handlers of all modules of this package, by operator and by the opset that tf2onnx writes.

    Args:
        opset: The opset of the export.
    """
    from keras_pe.export.onnx.handlers.handler_registry import HANDLERS

    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {key: function for key, (function, least) in HANDLERS.items() if opset >= least}
