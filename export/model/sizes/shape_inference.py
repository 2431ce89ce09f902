"""The shapes of a model's outputs for given shapes of its inputs, without running a kernel.

Kernels may crash where a tensor is empty, and need memory where it is large; shapes are inferred in either case.
"""

import contextlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from keras_pe.export.model.sizes.shape_graph import imported, shape_graph
from keras_pe.export.model.sizes.table_reads import add_excesses, computed_from_sizes, table_sizes
from keras_pe.export.model.watch.keras_internals import compute_output_spec
from keras_pe.export.model.watch.nesting import FlatModel, StaticShape
from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.model.watch.traceable import traced_flat

PartialShape = tuple[int | None, ...]

_LARGE = 5040  # a size that most numbers divide


class EmptyTensorError(ValueError):
    """The sizes are so small that nothing is left of a tensor on the way."""


class PastTheEndError(ValueError):
    """The sizes are so large that a table, such as one of positions, ends before."""


class SymbolicShapes:
    """Calls the model on symbolic tensors of static shapes, on any backend."""

    table_sizes: tuple[int, ...] = ()  # nothing tells where a table is read

    def __init__(self, model: FlatModel) -> None:
        self._model = model

    def __call__(self, shapes: Sequence[StaticShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs, `None` where a size is not known.

        Raises:
            Exception: Whatever the layers raise if they do not take these shapes.
        """
        import keras

        tensors = [keras.KerasTensor(shape, dtype) for shape, dtype in zip(shapes, self._model.dtypes, strict=True)]
        with state_left_alone():
            return [tuple(spec.shape) for spec in compute_output_spec(self._model.outputs, tensors)]

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the outputs, flat."""
        with state_left_alone():
            return self._model.outputs(arrays)


class GraphShapes:
    """Traces the model once with dynamic dimensions, and has TensorFlow infer the graph anew for each question.

    Attributes:
        table_sizes: Of the tables that it reads, where they may end; least first.
    """

    def __init__(self, model: FlatModel) -> None:
        """Traces the model, its variables as placeholders: a graph that is read back knows no shapes of variables.

        Raises:
            Exception: Whatever the layers raise where a size is not known.
        """
        import tensorflow as tf

        count = len(model.shapes)

        def flat(*arguments: Any) -> list[Any]:
            with state_left_alone(zip(model.variables, arguments[count:], strict=True)):
                return [tf.identity(result) for result in model.outputs(arguments[:count])]

        function = traced_flat(model, flat, model.variables)
        graph = function.graph
        self._function, self._variables = function, model.variables
        self._inputs = [tensor.op.name for tensor in function.inputs[:count]]
        self._outputs = [tensor.name for tensor in function.outputs]
        self.table_sizes = table_sizes(graph)
        self._excesses = add_excesses(graph)
        kept = [name.partition(":")[0] for name in (*self._outputs, *self._excesses)]
        self._definition = shape_graph(graph, self._inputs, kept, computed_from_sizes(graph, [*self._excesses]))

    def __call__(self, shapes: Sequence[StaticShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs, `None` where a size or the number of dimensions is not known.

        Raises:
            ValueError: If the shapes do not go together, leave nothing of a tensor, or ask more of a table than it has.
        """
        graph = imported(self._definition, self._inputs, shapes)
        for name, reader in self._excesses.items():
            if graph.get_tensor_by_name(name).shape.num_elements():
                raise PastTheEndError(f"{reader!r} reads past the end of its table")
        for name in _empty_tensors(graph):
            if name not in self._excesses and name not in self._always_empty:
                raise EmptyTensorError(f"nothing is left of the tensor {name!r}")
        found = (graph.get_tensor_by_name(name).shape for name in self._outputs)
        return [None if shape.rank is None else tuple(shape.as_list()) for shape in found]

    @cached_property
    def _always_empty(self) -> set[str]:
        """The names of the tensors without an element whatever the sizes: there is none at large sizes either."""
        dynamic = (self._function.graph.get_tensor_by_name(f"{name}:0").shape.as_list() for name in self._inputs)
        shapes = [tuple(_LARGE if size is None else size for size in shape) for shape in dynamic]
        known = set(_empty_tensors(self._function.graph))
        with contextlib.suppress(ValueError):  # sizes that must differ, or end
            known |= set(_empty_tensors(imported(self._definition, self._inputs, shapes)))
        return known

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the outputs, flat: a loop over many steps takes a fraction of the time that it takes eagerly.

        Raises:
            Exception: Whatever the kernels raise.
        """
        return list(self._function(*arrays, *(variable.value for variable in self._variables)))


def _empty_tensors(graph: Any) -> Iterator[str]:
    """Yields the names of the tensors without an element, of which there may be some whatever the sizes."""
    for operator in graph.get_operations():
        for tensor in operator.outputs:
            if tensor.dtype.is_floating and tensor.shape.rank and 0 in tensor.shape.as_list():
                yield tensor.name
