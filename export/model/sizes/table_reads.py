"""Reads of tables at indices that follow from sizes, such as positions, and reads past the end of a table."""

from collections.abc import Iterable, Sequence
from typing import Any

from keras_pe.export.model.watch.symbolic_trace import operators_before

SIZE_OPERATORS = ("Shape", "ShapeN", "Size", "Rank")  # operators whose results follow from sizes
_ANY = 2**31 - 1  # replaces an unknown size


class TableEndError(ValueError):
    """A model reads past the end of a table, such as a table of positions.

    Attributes:
        operator: The path of the operator that reads.
        rows: The number of rows of the table.
    """

    def __init__(self, operator: str, rows: int) -> None:
        super().__init__(f"{operator!r} reads past the end of its table of {rows} rows")
        self.operator, self.rows = operator, rows


def table_reads(graph: Any) -> list[tuple[Any, Sequence[Any]]]:
    """Returns the operators that read or cut a tensor at indices computed from sizes, and the index tensors."""
    found = []
    for operator in graph.get_operations():
        if operator.type in ("Slice", "StridedSlice", "GatherV2") and operator.inputs[0].shape.rank is not None:
            places = operator.inputs[2:3] if operator.type == "StridedSlice" else operator.inputs[1:]
            if _follow_from_sizes(places):
                found.append((operator, places))
    return found


def add_excesses(graph: Any, reads: Iterable[tuple[Any, Sequence[Any]]]) -> dict[str, tuple[str, int]]:
    """Adds tensors to a `tf.Graph` whose lengths are the numbers of entries that are read past the end of a table.

    Returns:
        The operator that reads and the rows of its table, by the name of each new tensor. The tensor is not empty if
        the operator reads past the end. Its shape can be inferred from the shapes of the inputs.
    """
    import tensorflow as tf

    excesses: dict[str, tuple[str, int]] = {}
    for operator, places in reads:
        sizes: list[int | None] = operator.inputs[0].shape.as_list()
        if operator.type == "GatherV2":
            indices, axis = places[0], tf.get_static_value(places[1])
            # Indices with two dynamic sizes are a matrix, such as distances of positions, which is slow to compute.
            is_row = indices.shape.rank is not None and indices.shape.as_list().count(None) < 2
            sizes = [sizes[int(axis)] if is_row and axis is not None else None]
        if operator.type == "StridedSlice" or all(size is None for size in sizes):
            continue
        with graph.as_default():
            # TensorFlow computes values that follow from sizes if a shape depends on them: here the shape of zeros.
            ends = sum(places) if operator.type == "Slice" else tf.maximum(tf.reduce_max(places[0]), 0) + 1
            known = tf.constant([_ANY if size is None else size for size in sizes], ends.dtype)
            excess = tf.reduce_max(tf.maximum(tf.reshape(ends, [-1]) - known, 0))
            # The axis of the rows has an unknown size in the result.
            result = operator.outputs[0].shape.as_list() if operator.type == "Slice" else [None]
            rows = next((own for own, cut in zip(sizes, result, strict=True) if own is not None and cut is None), 0)
            excesses[tf.zeros(tf.reshape(excess, [1])).name] = operator.name, rows
    return excesses


def _follow_from_sizes(tensors: Iterable[Any]) -> bool:
    """Whether tensors are computed from sizes, and from nothing else but constants."""
    is_any = False
    for operator in operators_before(tensors, SIZE_OPERATORS):
        if not (operator.inputs or operator.type == "Const"):
            return False
        is_any = is_any or operator.type in SIZE_OPERATORS
    return is_any
