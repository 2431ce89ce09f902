"""Which function replaces which TensorFlow operator, from which opset to which."""

from collections.abc import Callable
from typing import Any

from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.handlers.replacement import Replacement

HANDLERS: dict[tuple[str, int], Callable[..., None]] = {}  # by operator and opset, as `tf2onnx_door` takes them


def handler(
    *operators: str, since: int = opsets.WRITTEN[0], until: int = opsets.WRITTEN[-1]
) -> Callable[[Callable[[Replacement], None]], Any]:
    """Registers a function as the handler of TensorFlow operators, from one opset up to another, both included.

    It is registered at each by itself, because tf2onnx lets its own handler of a higher opset win otherwise.
    """

    def register(function: Callable[[Replacement], None]) -> Callable[[Replacement], None]:
        def convert(graph: Any, node: Any, **_: Any) -> None:
            function(Replacement(graph, node))

        HANDLERS.update({(operator, opset): convert for operator in operators for opset in range(since, until + 1)})
        return function

    return register
