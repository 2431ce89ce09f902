"""Where a model reads a table at places that follow from sizes alone, as of positions: the table's end is theirs.

TensorFlow infers the shape of what is read, and does not ask whether there is as much.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keras_pe.export.model.sizes.dimensions import Shape, StaticShape
from keras_pe.export.model.sizes.shape_graph import imported, part

_SIZES = ("Shape", "ShapeN", "Size", "Rank")  # operators whose results follow from sizes
_MANY = 2**20  # indices: so many are not computed to learn the largest
_FEW = 300  # a size that most tables have


@dataclass(frozen=True)
class TableRead:
    """One operator that reads a table.

    Attributes:
        name: The operator's.
        kind: Its type: `Slice`, `StridedSlice`, which reads less past the end, or `GatherV2`, whose axis is one.
        places: The names of the tensors that tell where it reads.
        sizes: The table's, in the order of these numbers; None where no end is read or it is not known.
    """

    name: str
    kind: str
    places: tuple[str, ...]
    sizes: tuple[int | None, ...]

    def is_past_the_end(self, graph: Any) -> bool:
        """Whether it reads more than there is, as far as that is known, in a graph with the shapes of the inputs."""
        ends = _ends(self.kind, [graph.get_tensor_by_name(name) for name in self.places])
        pairs = zip(ends, self.sizes, strict=True)
        return any(end is not None and size is not None and end > size for end, size in pairs)


class TableReads:
    """The reads of tables in a model that end where its sizes say."""

    def __init__(self, graph: Any, inputs: Mapping[str, Shape]) -> None:
        """Looks for them.

        Args:
            graph: A `tf.Graph`.
            inputs: The operators whose shapes will be set, and what is known of these.
        """
        self._inputs, self._reads = inputs, list(_reads(graph))
        self._answers: dict[tuple[str, ...], list[tuple[list[int], str | None]]] = {}
        if self._reads:
            names = [name.partition(":")[0] for read in self._reads for name in read.places]
            self._definition = part(graph.as_graph_def(), names)

    def past_the_end(self, shapes: Sequence[StaticShape], kinds: tuple[str, ...]) -> str | None:
        """Returns the name of an operator that reads more than its table has at these shapes of the inputs.

        What is read at some sizes is held to be there at lesser ones.

        Args:
            shapes: One an input.
            kinds: The types of operators that are asked for.
        """
        if not any(read.kind in kinds for read in self._reads):
            return None
        answers = self._answers.setdefault(kinds, [])
        if not answers:  # the sizes that a search begins with are less than these
            with contextlib.suppress(ValueError):  # where the shapes do not go together
                self._ask([_enlarged(*pair) for pair in zip(self._inputs.values(), shapes, strict=True)], kinds)
        flat = [size for shape in shapes for size in shape]
        for known, reader in answers:
            if _is_less(known, flat) if reader else _is_less(flat, known):
                return reader
        return self._ask(shapes, kinds)

    def _ask(self, shapes: Sequence[StaticShape], kinds: tuple[str, ...]) -> str | None:
        reads = (read for read in self._reads if read.kind in kinds)
        graph = imported(self._definition, list(self._inputs), shapes)
        with graph.as_default():
            reader = next((read.name for read in reads if read.is_past_the_end(graph)), None)
        self._answers[kinds].append(([size for shape in shapes for size in shape], reader))
        return reader


def _enlarged(shape: Shape, sizes: StaticShape) -> StaticShape:
    return tuple(size if isinstance(dim, int) else max(size, _FEW) for dim, size in zip(shape, sizes, strict=True))


def _is_less(sizes: Sequence[int], others: Sequence[int]) -> bool:
    return all(one <= other for one, other in zip(sizes, others, strict=True))


def _reads(graph: Any) -> Iterator[TableRead]:
    import tensorflow as tf

    for operator in graph.get_operations():
        if operator.type not in ("Slice", "StridedSlice", "GatherV2") or operator.inputs[0].shape.rank is None:
            continue
        table, *places = operator.inputs
        sizes: list[int | None] = table.shape.as_list()
        if operator.type == "StridedSlice":
            places, sizes = places[1:2], _sizes_of_ends(operator, sizes)
        elif operator.type == "GatherV2":
            indices, axis = places
            axis = tf.get_static_value(axis)
            # Two dynamic sizes make a matrix of distances between positions, which is computed at some expense.
            is_row = indices.shape.rank is not None and indices.shape.as_list().count(None) < 2
            places, sizes = [indices], [sizes[int(axis)] if is_row and axis is not None else None]
        if any(size is not None for size in sizes) and _follow_from_sizes(places):
            yield TableRead(operator.name, operator.type, tuple(x.name for x in places), tuple(sizes))


def _sizes_of_ends(operator: Any, sizes: Sequence[int | None]) -> list[int | None]:
    """Returns the size of the axis that each end of a StridedSlice belongs to, None where that end is not read."""
    ends, new, mask = operator.inputs[2].shape[0], operator.get_attr("new_axis_mask"), operator.get_attr("end_mask")
    if ends is None or operator.get_attr("ellipsis_mask"):
        return []
    left = iter(sizes)
    own = [None if new >> number & 1 else next(left) for number in range(ends)]
    return [None if mask >> number & 1 else size for number, size in enumerate(own)]


def _follow_from_sizes(tensors: Sequence[Any]) -> bool:
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


def _ends(kind: str, places: Sequence[Any]) -> list[int | None]:
    """Returns where a read ends, along each axis that it says; None where that is not known.

    TensorFlow computes numbers that follow from sizes where a shape depends on them: here one of which they are all.
    """
    import tensorflow as tf

    if kind == "GatherV2":
        (indices,) = places
        count = indices.shape.num_elements()
        if not count or count > _MANY:
            return [None]
        ends = tf.reshape(tf.reduce_max(indices) + 1, [1])
    else:
        ends = tf.add_n(places)  # of a Slice the begin and the size
    return list(tf.zeros(tf.maximum(ends, 0)).shape.as_list())
