"""Texts that are compared, prepared and taken apart: lower case, characters removed, words, rows of unlike lengths."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import TensorProto

from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.handlers.replacement import Replacement, handler

_SPACES = "\t\n\v\f\r"  # what parts words besides a space
_LITERAL = re.compile(r"(?:\\[^a-zA-Z0-9]|[^\\^$.|?*+(){}\[\]])+")
_CLASS = re.compile(r"\[(?!\^)(?:\\[^a-zA-Z0-9]|[^\\\[\]])+\]")  # of characters by themselves and of ranges
_ROWS = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]  # how TensorFlow tells which row a word is of


def text_handlers(opset: int) -> Mapping[tuple[str, int], Callable[..., None]]:
    """Returns the handlers of the operators that take texts apart; none below the opset that has a form for them."""
    if opset < opsets.TEXTS_VERSION:
        return {}

    def handled(function: Callable[[Any], None]) -> Callable[..., None]:
        return lambda graph, node, **_: function(Replacement(graph, node))

    functions = {
        "StringLower": _lower,
        "StaticRegexReplace": _replace,
        "StringSplitV2": _split,
        "RaggedTensorToTensor": _as_rows,
        "RaggedBincount": _count_in_rows,
    }
    return {(operator, at): handled(each) for operator, each in functions.items() for at in opsets.WRITTEN}


def _lower(ctx: Any) -> None:
    """Lowers ASCII letters, as the locale "C" has it; ONNX's operator takes a vector that is not empty."""
    if ctx.attribute("encoding", ""):
        raise ValueError("Only ASCII letters can be lowered alike everywhere: leave `encoding` out.")
    (texts,) = ctx.inputs
    flat = ctx.emit("Concat", ctx.constant([""], object), ctx.emit("Reshape", texts, ctx.integers(-1)), axis=0)
    lowered = ctx.emit("StringNormalizer", flat, case_change_action="LOWER", is_case_sensitive=1, locale="C")
    lowered = ctx.emit("Slice", lowered, ctx.integers(1), ctx.integers(2**31 - 1), ctx.integers(0))
    ctx.finish(ctx.emit("Reshape", lowered, ctx.emit("Shape", texts)))


def _replace(ctx: Any) -> None:
    """Replaces one text, or each of some characters: ONNX splits at them and joins again."""
    pattern, rewrite = ctx.attribute("pattern"), ctx.attribute("rewrite")
    if not ctx.attribute("replace_global", True) or "\\" in rewrite:
        raise ValueError("Only a replacement everywhere, by a plain text, has an ONNX form.")
    (texts,) = ctx.inputs
    for delimiter in _alternatives(pattern):
        texts = _replaced(ctx, texts, delimiter, rewrite, ctx.rank(ctx.inputs[0]))
    ctx.finish(texts)


def _alternatives(pattern: str) -> list[str]:
    """Returns the texts that a regular expression matches, which is plain or a set of ASCII characters.

    A character that was put in by the replacement of another is replaced in its turn: the sets of one text only, or
    of characters that are removed, are all that can be meant.
    """
    if _LITERAL.fullmatch(pattern):
        return [re.sub(r"\\(.)", r"\1", pattern)]
    if _CLASS.fullmatch(pattern) and pattern.isascii():
        return [character for character in map(chr, range(1, 128)) if re.fullmatch(pattern, character)]
    raise ValueError(f"Only a plain text or a set of ASCII characters has an ONNX form, not {pattern!r}.")


def _replaced(ctx: Any, texts: str, delimiter: str, rewrite: str, rank: int) -> str:
    parts, counts = ctx.emit_later("StringSplit", texts, outputs=2, delimiter=delimiter)
    if rewrite:
        width = ctx.emit("Gather", ctx.emit("Shape", parts), ctx.constant(-1, "int64"))
        places = ctx.emit("Range", ctx.constant(0, "int64"), width, ctx.constant(1, "int64"))
        is_part = ctx.emit("Less", places, ctx.emit("Unsqueeze", counts, ctx.integers(-1)))
        is_later = ctx.emit("And", is_part, ctx.emit("Greater", places, ctx.constant(0, "int64")))
        between = ctx.emit("Where", is_later, ctx.constant(rewrite, object), ctx.constant("", object))
        (parts,) = ctx.emit_later("StringConcat", between, parts)
    start = ctx.emit("Expand", ctx.constant("", object), ctx.emit("Shape", texts))
    return str(ctx.emit_joined(start, parts, rank))


def _split(ctx: Any) -> None:
    """Splits at white space; returns row and place of each word, the words, and how many rows and places there are."""
    texts, separator = ctx.inputs
    if str(ctx.constant_value(separator).item() or "") not in ("", "b''") or ctx.attribute("maxsplit", -1) != -1:
        raise ValueError("Only the splitting at white space has an ONNX form.")
    for space in _SPACES:
        texts = _replaced(ctx, texts, space, " ", 1)
    # Explicitly at a space: at white space without a name, each runtime has its own notion of it.
    parts, _ = ctx.emit_later("StringSplit", texts, outputs=2, delimiter=" ")
    is_word = ctx.emit("Not", ctx.emit_later("Equal", parts, ctx.constant("", object))[0])
    found = ctx.emit("Transpose", ctx.emit("NonZero", is_word), perm=[1, 0])
    words = ctx.emit("GatherND", parts, found)
    ones = ctx.cast(is_word, "int64")
    place = ctx.emit("GatherND", ctx.emit("CumSum", ones, ctx.constant(1, "int64"), exclusive=1), found)
    row = ctx.emit("Gather", found, ctx.constant(0, "int64"), axis=1)
    indices = ctx.emit("Concat", *(ctx.emit("Unsqueeze", x, ctx.integers(1)) for x in (row, place)), axis=1)
    lengths = ctx.emit("Concat", ctx.integers(0), ctx.emit("ReduceSum", ones, ctx.integers(1), keepdims=0), axis=0)
    sizes = ctx.emit("Shape", texts), ctx.emit("ReduceMax", lengths, keepdims=1)
    ctx.finish(indices, words, ctx.emit("Concat", *sizes, axis=0))


def _as_rows(ctx: Any) -> None:
    """Puts the values of each row side by side, and a default where a row is shorter than the others."""
    kinds = [kind.decode() if isinstance(kind, bytes) else kind for kind in ctx.attribute("row_partition_types")]
    if kinds != _ROWS:
        raise ValueError("Only rows of single words have an ONNX form.")
    shape, values, default, count, rows = ctx.inputs
    sizes = ctx.constant_value(shape).reshape(-1).tolist()
    if len(sizes) != 2 or sizes[0] != -1:
        raise ValueError("Only rows of single words have an ONNX form.")
    count, rows = (ctx.cast(x, "int64") for x in (ctx.emit("Reshape", count, ctx.integers(1)), rows))
    zeros = ctx.emit("Expand", ctx.constant(0, "int64"), count)
    index = ctx.emit("Unsqueeze", rows, ctx.integers(1))
    ones = ctx.emit("Expand", ctx.constant(1, "int64"), ctx.emit("Shape", rows))
    lengths = ctx.emit("ScatterND", zeros, index, ones, reduction="add")
    starts = ctx.emit("CumSum", lengths, ctx.constant(0, "int64"), exclusive=1)
    places = ctx.emit("CumSum", ones, ctx.constant(0, "int64"), exclusive=1)
    places = ctx.emit("Sub", places, ctx.emit("Gather", starts, rows))
    if sizes[1] == -1:
        width = ctx.emit("ReduceMax", ctx.emit("Concat", ctx.integers(0), lengths, axis=0), keepdims=1)
    else:
        width = ctx.integers(sizes[1])
        is_kept = ctx.emit("Less", places, width)
        rows, places, values = (ctx.emit("Compress", x, is_kept, axis=0) for x in (rows, places, values))
    indices = ctx.emit("Concat", *(ctx.emit("Unsqueeze", x, ctx.integers(1)) for x in (rows, places)), axis=1)
    empty = ctx.emit("Expand", default, ctx.emit("Concat", count, width, axis=0))
    ctx.finish(ctx.emit("ScatterND", empty, indices, values))


def _count_in_rows(ctx: Any) -> None:
    """Counts each value in each row, or adds its weight; a value beyond the last is left out."""
    splits, values, size, weights = ctx.inputs
    dtype = ctx.numpy_dtype(ctx.outputs[0])
    size = ctx.emit("Reshape", ctx.cast(size, "int64"), ctx.integers(1))
    splits, values = ctx.cast(splits, "int64"), ctx.cast(values, "int64")
    one = ctx.integers(1)
    ends = ctx.emit("Slice", splits, one, ctx.integers(2**31 - 1), ctx.integers(0))
    number = ctx.emit("Shape", values)
    zeros = ctx.emit("Expand", ctx.constant(0, "int64"), ctx.emit("Add", number, one))
    ones = ctx.emit("Expand", ctx.constant(1, "int64"), ctx.emit("Shape", ends))
    ended = ctx.emit("ScatterND", zeros, ctx.emit("Unsqueeze", ends, ctx.integers(1)), ones, reduction="add")
    rows = ctx.emit("CumSum", ended, ctx.constant(0, "int64"))  # rows that have ended at each value
    rows = ctx.emit("Slice", rows, ctx.integers(0), number, ctx.integers(0))
    values = ctx.emit("Where", ctx.emit("Less", values, size), values, size)
    indices = ctx.emit("Concat", *(ctx.emit("Unsqueeze", x, ctx.integers(1)) for x in (rows, values)), axis=1)
    updates = weights if 0 not in (ctx.shape(weights) or ()) else ctx.emit("Expand", ctx.constant(1, dtype), number)
    shape = ctx.emit("Concat", ctx.emit("Shape", ends), ctx.emit("Add", size, one), axis=0)
    reduction = "none" if ctx.attribute("binary_output", False) else "add"
    counts = ctx.emit(
        "ScatterND", ctx.emit("Expand", ctx.constant(0, dtype), shape), indices, updates, reduction=reduction
    )
    ctx.finish(ctx.emit("Slice", counts, ctx.integers(0), size, ctx.integers(1)))


_OF_TEXTS = " of texts"  # ends the type of such a comparison, which no handler of numbers may meet


def mark_texts(operator: str, inputs: Sequence[int], outputs: Sequence[int]) -> str:
    """Returns another type for comparisons of texts: tf2onnx reads a number in every text before it compares."""
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
