"""Equal and NotEqual of a text and a constant one: tf2onnx reads a number in every text before it compares."""

from collections.abc import Sequence

from onnx import TensorProto

from keras_pe.export.onnx.handlers.replacement import Replacement, handler

_OF_TEXTS = " of texts"  # ends the type of such a comparison, which no handler of numbers may meet


def mark_texts(operator: str, inputs: Sequence[int], outputs: Sequence[int]) -> str:
    """Returns another type for comparisons of texts."""
    is_one = operator in ("Equal", "NotEqual") and inputs[0] == TensorProto.STRING
    return operator + _OF_TEXTS if is_one else operator


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
