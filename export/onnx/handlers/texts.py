"""Equal and NotEqual of a text and a constant one: tf2onnx reads a number in every text before it compares."""

from typing import Any

from onnx import TensorProto

from keras_pe.export.onnx.handlers.registry import handler
from keras_pe.export.onnx.handlers.replacement import Replacement

_OF_TEXTS = " of texts"  # ends the type of such a comparison, which no handler of numbers may meet


def mark_texts(graph: Any, nodes: list[Any]) -> list[Any]:
    """Renames the comparisons of texts; tf2onnx calls it before the handlers, for each graph."""
    for node in nodes:
        if node.type in ("Equal", "NotEqual") and graph.get_dtype(node.input[0]) == TensorProto.STRING:
            node.type += _OF_TEXTS
    return nodes


@handler(f"Equal{_OF_TEXTS}", f"NotEqual{_OF_TEXTS}")
def compare(ctx: Replacement) -> None:
    """A LabelEncoder that knows one text."""
    values = [ctx.value(name) for name in ctx.inputs]
    constants = [value is not None and value.ndim == 0 for value in values]
    if sum(constants) != 1:
        raise ValueError("Only the comparison with a constant text has an ONNX form.")
    place = constants.index(True)
    text = ctx.constant_value(ctx.inputs[place]).item()
    found = ctx.emit_ml(
        "LabelEncoder",
        ctx.inputs[1 - place],
        keys_strings=[text.decode() if isinstance(text, bytes) else str(text)],
        values_int64s=[1],
        default_int64=0,
    )
    is_equal = ctx.cast(found, "bool")
    ctx.finish(ctx.emit("Not", is_equal) if ctx.operator.startswith("Not") else is_equal)
