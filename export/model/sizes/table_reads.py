"""Where a model reads a table at places that follow from sizes alone, as of positions: the table's end is theirs.

TensorFlow infers the shape of what is read, and does not ask whether there is as much.
"""

from collections.abc import Sequence
from typing import Any

_SIZES = ("Shape", "ShapeN", "Size", "Rank")  # operators whose results follow from sizes
_ANY = 2**31 - 1  # in the place of a size that is not known


def table_sizes(graph: Any) -> tuple[int, ...]:
    """Returns the sizes of what a `tf.Graph` reads or cuts where sizes say, and where it may end; least first."""
    found = set[int]()
    for operator in graph.get_operations():
        if operator.type in ("Slice", "StridedSlice", "GatherV2") and operator.inputs[0].shape.rank is not None:
            places = operator.inputs[2:3] if operator.type == "StridedSlice" else operator.inputs[1:]
            if follow_from_sizes(places):
                found.update(size for size in operator.inputs[0].shape.as_list() if size is not None)
    return tuple(sorted(found))


def add_excesses(graph: Any) -> dict[str, str]:
    """Adds to a `tf.Graph` what tells how much more is read of its tables than they have.

    Returns:
        The names of new tensors, and of the operator that reads for each: one that has an element reads past the end.
        Their shapes say so where those of the inputs are known.
    """
    import tensorflow as tf

    excesses: dict[str, str] = {}
    for operator in graph.get_operations():
        if operator.type not in ("Slice", "GatherV2") or operator.inputs[0].shape.rank is None:
            continue
        table, *places = operator.inputs
        sizes: list[int | None] = table.shape.as_list()
        if operator.type == "GatherV2":
            indices, axis = places
            axis = tf.get_static_value(axis)
            # Two dynamic sizes make a matrix of distances between positions, which is computed at some expense.
            is_row = indices.shape.rank is not None and indices.shape.as_list().count(None) < 2
            places, sizes = [indices], [sizes[int(axis)] if is_row and axis is not None else None]
        if all(size is None for size in sizes) or not follow_from_sizes(places):
            continue
        with graph.as_default():
            # TensorFlow computes numbers that follow from sizes where a shape depends on them: here that of zeros.
            ends = sum(places) if operator.type == "Slice" else tf.maximum(tf.reduce_max(places[0]), 0) + 1
            known = tf.constant([_ANY if size is None else size for size in sizes], ends.dtype)
            excess = tf.reduce_max(tf.maximum(tf.reshape(ends, [-1]) - known, 0))
            excesses[tf.zeros(tf.reshape(excess, [1])).name] = operator.name
    return excesses


def follow_from_sizes(tensors: Sequence[Any]) -> bool:
    """Whether tensors are computed from sizes, and from nothing else but constants."""
    waiting, known = [tensor.op for tensor in tensors], set[str]()
    is_any = False
    while waiting:
        operator = waiting.pop()
        if operator.type in _SIZES:
            is_any = True
        elif not operator.inputs and operator.type != "Const":
            return False
        elif operator.name not in known:
            known.add(operator.name)
            waiting += [tensor.op for tensor in operator.inputs]
    return is_any


def computed_from_sizes(graph: Any, names: Sequence[str]) -> set[str]:
    """Returns the operators of whose results the numbers make those of some tensors, and not only the shapes."""
    waiting, found = [graph.get_tensor_by_name(name).op for name in names], set[str]()
    while waiting:
        operator = waiting.pop()
        if operator.type not in _SIZES and operator.name not in found:
            found.add(operator.name)
            waiting += [tensor.op for tensor in operator.inputs]
    return found
