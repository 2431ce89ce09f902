"""The shapes of a model's outputs for given shapes of its inputs, without running a kernel.

Kernels may crash on empty tensors, and need memory for large ones. Shape inference works in both cases. If a model
reads a table at indices that follow from sizes alone, such as positions, the size of the table limits these sizes.
TensorFlow infers the shape of the result, but does not compare the indices with the size of the table.
"""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from keras_pe.export.model.sizes.table_reads import SIZE_OPERATORS, TableEndError, add_excesses, table_reads
from keras_pe.export.model.watch.keras_internals import compute_output_spec
from keras_pe.export.model.watch.nested_arguments import FlatModel, PartialShape
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.symbolic_trace import (
    batch_time_distributed,
    needed_nodes,
    operators_before,
    traced_flat,
)

_LARGE = 5040  # a multiple of most small numbers


def shape_graph(graph: Any, inputs: Collection[str], kept: Collection[str]) -> Any:
    """Returns a `GraphDef` with the operators that depend on the inputs, and the operators that determine their shapes.

    Values that depend on weights only become placeholders, one for each shape, since they do not affect sizes. Equal
    constants become one.

    Args:
        graph: A `tf.Graph` in which weights are placeholders.
        inputs: The names of the operators whose shapes will be set.
        kept: The names of the operators that must stay.
    """
    import tensorflow as tf

    followers, weights = set(inputs), set[str]()
    shapes: dict[tuple[Any, ...], str] = {}
    merged: dict[str, str] = {}
    for operator in graph.get_operations():  # in the order of creation: an operator's inputs come first
        name, sources = operator.name, {tensor.op.name for tensor in operator.inputs}
        if name in followers or not sources.isdisjoint(followers):
            followers.add(name)
        elif operator.type == "Placeholder" or not sources.isdisjoint(weights):
            weights.add(name)
            if name not in kept and _is_number_of_known_shape(operator.outputs):
                (tensor,) = operator.outputs
                merged[name] = shapes.setdefault((tensor.dtype, *tensor.shape), name)
    definition = graph.as_graph_def()
    constants: dict[bytes, str] = {}
    for node in definition.node:
        if node.op == "Const" and node.name not in kept:
            merged[node.name] = constants.setdefault(node.attr["value"].SerializeToString(), node.name)
    kinds = {name: kind for kind, name in shapes.items()}
    for node in definition.node:
        if node.name in kinds:
            dtype, *shape = kinds[node.name]
            node.CopyFrom(tf.compat.v1.NodeDef(name=node.name, op="Placeholder"))
            node.attr["dtype"].type = dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
        else:
            read = (source.removesuffix(":0") for source in node.input)
            node.input[:] = [merged.get(source, source) for source in read]
    return _part(definition, [*followers, *kept])


def _part(definition: Any, names: Iterable[str]) -> Any:
    """Returns a `GraphDef` of operators and of all operators before them."""
    import tensorflow as tf

    needed = needed_nodes(definition.node, names)
    found = tf.compat.v1.GraphDef(library=definition.library, versions=definition.versions)
    found.node.extend(node for node in definition.node if node.name in needed)
    for node in found.node:
        node.input[:] = [source for source in node.input if not source.startswith("^")]
        node.attr.pop("_class", None)  # may name a removed operator
    return found


def _is_number_of_known_shape(tensors: Any) -> bool:
    """Whether there is one tensor of floats with known sizes. A scalar does not count: it may be a scale of sizes."""
    return (
        len(tensors) == 1
        and tensors[0].dtype.is_floating
        and bool(tensors[0].shape.rank)
        and tensors[0].shape.is_fully_defined()
    )


class SymbolicShapes:
    """Calls the model on symbolic tensors of static shapes, on any backend."""

    table_sizes: tuple[int, ...] = ()  # symbolic tensors do not show reads of tables

    def __init__(self, model: FlatModel) -> None:
        self._model = model

    def __call__(self, shapes: Sequence[PartialShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs, with `None` for unknown sizes.

        Raises:
            Exception: Any error of the layers if they refuse these shapes.
        """
        import keras

        tensors = [keras.KerasTensor(shape, dtype) for shape, dtype in zip(shapes, self._model.dtypes, strict=True)]
        with state_left_alone(), batch_time_distributed(self._model.layers, even_if_fixed=True):
            return [tuple(spec.shape) for spec in compute_output_spec(self._model.outputs, tensors)]

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the outputs, flat."""
        with state_left_alone():
            return self._model.outputs(arrays)


class GraphShapes:
    """Traces the model once with dynamic dimensions. TensorFlow infers the shapes of the graph again for each call.

    Attributes:
        table_sizes: The sizes of the tables that the model reads, at which a range may end; least first.
    """

    def __init__(self, model: FlatModel) -> None:
        """Traces the model with placeholders for variables, since an imported graph has no shapes of variables.

        Raises:
            Exception: Any error of the layers, for example because of an unknown size.
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
        reads = table_reads(graph)
        sizes = {size for operator, _ in reads for size in operator.inputs[0].shape.as_list() if size is not None}
        self.table_sizes = tuple(sorted(sizes))
        self._excesses = add_excesses(graph, reads)
        # The operators that compute excesses stay, since their values matter, not only their shapes.
        counting = operators_before(map(graph.get_tensor_by_name, self._excesses), SIZE_OPERATORS)
        kept = {name.partition(":")[0] for name in self._outputs} | {each.name for each in counting if each.inputs}
        self._definition = shape_graph(graph, self._inputs, kept)

    def __call__(self, shapes: Sequence[PartialShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs, with `None` for an unknown size, or for a whole shape of unknown rank.

        Raises:
            TableEndError: If a read exceeds its table.
            ValueError: If the shapes do not match, or a tensor becomes empty.
        """
        graph = self._import_graph(shapes)
        for name, reader in self._excesses.items():
            if graph.get_tensor_by_name(name).shape.num_elements():
                raise TableEndError(*reader)
        for name in _empty_tensors(graph):
            if name not in self._excesses and name not in self._always_empty:
                raise ValueError(f"nothing is left of the tensor {name!r}")
        found = (graph.get_tensor_by_name(name).shape for name in self._outputs)
        return [None if shape.rank is None else tuple(shape.as_list()) for shape in found]

    def _import_graph(self, shapes: Sequence[PartialShape]) -> Any:
        """Returns the graph with these shapes for the inputs that it contains. TensorFlow infers all other shapes."""
        import tensorflow as tf

        asked = dict(zip(self._inputs, shapes, strict=True))
        for node in self._definition.node:
            if node.name in asked:
                node.attr["shape"].shape.CopyFrom(tf.TensorShape(asked[node.name]).as_proto())
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(self._definition, name="")
        return graph

    @cached_property
    def _always_empty(self) -> set[str]:
        """The names of the tensors that are empty for all sizes: they are empty at large sizes too."""
        dynamic = (self._function.graph.get_tensor_by_name(f"{name}:0").shape.as_list() for name in self._inputs)
        shapes = [tuple(_LARGE if size is None else size for size in shape) for shape in dynamic]
        known = set(_empty_tensors(self._function.graph))
        with contextlib.suppress(ValueError):  # sizes that must differ, or end
            known |= set(_empty_tensors(self._import_graph(shapes)))
        return known

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the outputs, flat. A loop over many steps is much faster in the graph than eagerly.

        Raises:
            Exception: Any error of the kernels.
        """
        return list(self._function(*arrays, *(variable.value for variable in self._variables)))


def _empty_tensors(graph: Any) -> Iterator[str]:
    """Yields the names of the empty tensors of floats. Some may be empty for all sizes."""
    for operator in graph.get_operations():
        for tensor in operator.outputs:
            if tensor.dtype.is_floating and tensor.shape.rank and 0 in tensor.shape.as_list():
                yield tensor.name
