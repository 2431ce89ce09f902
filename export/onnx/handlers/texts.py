"""Comparison and preparation of texts: lower case, replacements, splitting into words, rows of unequal lengths."""

import re
from functools import partial

from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler
from keras_pe.export.onnx.handlers.scattering import count_values, scatter
from keras_pe.export.onnx.tf2onnx_calls import OF_TEXTS

_SPACES = "\t\n\v\f\r"  # the separators of words besides a space
_LITERAL = re.compile(r"(?:\\[^a-zA-Z0-9]|[^\\^$.|?*+(){}\[\]])+")
_CLASS = re.compile(r"\[(?!\^)(?:\\[^a-zA-Z0-9]|[^\\\[\]])+\]")  # a set of single characters and ranges
_ROWS = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]  # TensorFlow's types of the inputs that map words to rows


_handler = partial(handler, exported_since=opsets.TEXTS_VERSION)


@_handler("StringLower")
def lower(ctx: Replacement, texts: str) -> str:
    """Lowers ASCII letters, as in the locale "C"; ONNX's operator needs a vector that is not empty."""
    if ctx.attribute("encoding", ""):
        raise ValueError("Runtimes lower only ASCII letters alike: leave `encoding` out.")
    flat = ctx.emit("Concat", ctx.constant([""], object), ctx.emit("Reshape", texts, [-1]), axis=0)
    lowered = ctx.emit("StringNormalizer", flat, case_change_action="LOWER", is_case_sensitive=1, locale="C")
    lowered = ctx.emit("Slice", lowered, [1], [2**31 - 1], [0])
    return ctx.emit("Reshape", lowered, ctx.emit("Shape", texts))


@_handler("StaticRegexReplace")
def replace(ctx: Replacement, texts: str) -> str:
    """Replaces one text, or each of some characters, by splitting and joining."""
    pattern, rewrite = ctx.attribute("pattern"), ctx.attribute("rewrite")
    if not ctx.attribute("replace_global", True) or "\\" in rewrite:
        raise ValueError("Only a replacement everywhere, by a plain text, has an ONNX form.")
    rank = ctx.rank(texts)
    for delimiter in _alternatives(pattern):
        texts = _replace_text(ctx, texts, delimiter, rewrite, rank)
    return texts


def _alternatives(pattern: str) -> list[str]:
    """Returns the texts that a plain regular expression or a set of ASCII characters matches.

    The caller replaces them in turns, so a later turn also replaces characters that an earlier turn has inserted. The
    result is right if the expression matches one text, or if the replacement is empty.
    """
    if _LITERAL.fullmatch(pattern):
        return [re.sub(r"\\(.)", r"\1", pattern)]
    if _CLASS.fullmatch(pattern) and pattern.isascii():
        return [character for character in map(chr, range(1, 128)) if re.fullmatch(pattern, character)]
    raise ValueError(f"Only a plain text or a set of ASCII characters has an ONNX form, not {pattern!r}.")


def _replace_text(ctx: Replacement, texts: str, delimiter: str, rewrite: str, rank: int) -> str:
    parts, counts = ctx.emit_later("StringSplit", texts, outputs=2, delimiter=delimiter)
    if rewrite:
        width = ctx.emit("Gather", ctx.emit("Shape", parts), -1)
        places = ctx.emit("Range", 0, width, 1)
        is_part = ctx.emit("Less", places, ctx.emit("Unsqueeze", counts, [-1]))
        is_later = ctx.emit("And", is_part, ctx.emit("Greater", places, 0))
        between = ctx.emit("Where", is_later, ctx.constant(rewrite, object), ctx.constant("", object))
        (parts,) = ctx.emit_later("StringConcat", between, parts)
    start = ctx.emit("Expand", ctx.constant("", object), ctx.emit("Shape", texts))
    return ctx.emit_joined(start, parts, rank)


@_handler("StringSplitV2")
def split(ctx: Replacement, texts: str, separator: str) -> tuple[str, ...]:
    """Splits at white space; returns row and column of each word, the words, and the dimensions of the array."""
    if str(ctx.constant_value(separator).item() or "") not in ("", "b''") or ctx.attribute("maxsplit", -1) != -1:
        raise ValueError("Only splitting at white space has an ONNX form.")
    for space in _SPACES:
        texts = _replace_text(ctx, texts, space, " ", 1)
    # The delimiter is explicit, because runtimes disagree on which characters are white space.
    parts, _ = ctx.emit_later("StringSplit", texts, outputs=2, delimiter=" ")
    is_word = ctx.emit("Not", ctx.emit_later("Equal", parts, ctx.constant("", object))[0])
    found = ctx.emit("Transpose", ctx.emit("NonZero", is_word), perm=[1, 0])
    words = ctx.emit("GatherND", parts, found)
    ones = ctx.cast(is_word, "int64")
    place = ctx.emit("GatherND", ctx.emit("CumSum", ones, ctx.constant(1, "int64"), exclusive=1), found)
    row = ctx.emit("Gather", found, ctx.constant(0, "int64"), axis=1)
    indices = _side_by_side(ctx, row, place)
    lengths = ctx.emit("Concat", [0], ctx.emit("ReduceSum", ones, [1], keepdims=0), axis=0)
    sizes = ctx.emit("Shape", texts), ctx.emit("ReduceMax", lengths, keepdims=1)
    return indices, words, ctx.emit("Concat", *sizes, axis=0)


@_handler("RaggedTensorToTensor")
def as_rows(ctx: Replacement, shape: str, values: str, default: str, count: str, rows: str) -> str:
    """Writes an array with the values of each row, filled up with a default."""
    kinds = [kind.decode() if isinstance(kind, bytes) else kind for kind in ctx.attribute("row_partition_types")]
    if kinds != _ROWS:
        raise ValueError("Only rows of single words have an ONNX form.")
    sizes = ctx.constant_value(shape).reshape(-1).tolist()
    if len(sizes) != 2 or sizes[0] != -1:
        raise ValueError("Only rows of single words have an ONNX form.")
    count, rows = (ctx.cast(x, "int64") for x in (ctx.emit("Reshape", count, [1]), rows))
    ones = ctx.emit("Expand", 1, ctx.emit("Shape", rows))
    lengths = scatter(ctx, count, ctx.emit("Unsqueeze", rows, [1]), ones)
    starts = ctx.emit("CumSum", lengths, ctx.constant(0, "int64"), exclusive=1)
    places = ctx.emit("CumSum", ones, ctx.constant(0, "int64"), exclusive=1)
    places = ctx.emit("Sub", places, ctx.emit("Gather", starts, rows))
    if sizes[1] == -1:
        width = ctx.emit("ReduceMax", ctx.emit("Concat", [0], lengths, axis=0), keepdims=1)
    else:
        width = ctx.integers(sizes[1])
        is_kept = ctx.emit("Less", places, width)
        rows, places, values = (ctx.emit("Compress", x, is_kept, axis=0) for x in (rows, places, values))
    indices = _side_by_side(ctx, rows, places)
    empty = ctx.emit("Expand", default, ctx.emit("Concat", count, width, axis=0))
    return ctx.emit("ScatterND", empty, indices, values)


@_handler("RaggedBincount")
def count_in_rows(ctx: Replacement, splits: str, values: str, size: str, _: str) -> str:
    """Counts each value in each row, or adds its weight. Values out of range are ignored."""
    size = ctx.emit("Reshape", ctx.cast(size, "int64"), [1])
    splits, values = ctx.cast(splits, "int64"), ctx.cast(values, "int64")
    ends = ctx.emit("Slice", splits, [1], [2**31 - 1], [0])
    number = ctx.emit("Shape", values)
    ones = ctx.emit("Expand", 1, ctx.emit("Shape", ends))
    ended = scatter(ctx, ctx.emit("Add", number, [1]), ctx.emit("Unsqueeze", ends, [1]), ones)
    rows = ctx.emit("CumSum", ended, ctx.constant(0, "int64"))  # the number of rows that end before each value
    rows = ctx.emit("Slice", rows, [0], number, [0])
    values = ctx.emit("Where", ctx.emit("Less", values, size), values, size)
    shape = ctx.emit("Concat", ctx.emit("Shape", ends), ctx.emit("Add", size, [1]), axis=0)
    return count_values(ctx, shape, _side_by_side(ctx, rows, values), number, size, axis=1)


def _side_by_side(ctx: Replacement, *columns: str) -> str:
    """Writes a matrix of the columns."""
    return ctx.emit("Concat", *(ctx.emit("Unsqueeze", column, [1]) for column in columns), axis=1)


@handler(f"Equal{OF_TEXTS}", f"NotEqual{OF_TEXTS}")
def compare(ctx: Replacement, *texts: str) -> str:
    """Writes a LabelEncoder with one key."""
    values = [ctx.value(name) for name in texts]
    constants = [value is not None and value.ndim == 0 for value in values]
    if sum(constants) != 1:
        raise ValueError("Only the comparison with a constant text has an ONNX form.")
    place = constants.index(True)
    text = ctx.constant_value(texts[place]).item()
    found = ctx.emit(
        "LabelEncoder",
        texts[1 - place],
        keys_strings=[text.decode() if isinstance(text, bytes) else str(text)],
        values_int64s=[1],
        default_int64=0,
        domain=opsets.ML_DOMAIN,
    )
    is_equal = ctx.cast(found, "bool")
    return ctx.emit("Not", is_equal) if ctx.operator.startswith("Not") else is_equal
