"""Reads what is inside an ONNX graph: the same graph with every tensor as an output, or a part of it."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path

import onnx

from keras_pe.export.runtimes.runtime import Array


class TappedModel:
    """An ONNX file and the tensors in it.

    Attributes:
        names: Every tensor that a node of the main graph computes, in the order of computation. The bodies of `If` and
            `Loop` are not entered.
    """

    def __init__(self, path: str) -> None:
        self._model = onnx.load(path)  # with its external data: a session made from bytes finds no files
        self.names = [name for node in self._model.graph.node for name in node.output if name]
        self._home = Path(path).parent

    def all_outputs(self) -> bytes:
        """Returns the serialised model with every tensor as an output."""
        return self._serialise(self._model.graph.node, self._model.graph.input, self.names)

    def part(self, feeds: Mapping[str, Array], fetch: str) -> bytes:
        """Returns the serialised part of the model that computes one tensor from the given ones.

        Raises:
            ValueError: If the tensor also depends on something that is not given.
        """
        made_by = {name: node for node in self._model.graph.node for name in node.output}
        constant = {tensor.name for tensor in self._model.graph.initializer}
        needed, pending = set[str](), [fetch]
        while pending:
            name = pending.pop()
            if not name or name in feeds or name in constant or name in needed:
                continue
            if name not in made_by:
                raise ValueError(f"Tensor {fetch!r} also depends on {name!r}.")
            needed.add(name)
            pending += _sources(made_by[name])
        nodes = [node for node in self._model.graph.node if needed.intersection(node.output)]
        used = {name for node in nodes for name in _sources(node)}
        inputs = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), None)
            for name, array in feeds.items()
            if name in used and name not in needed
        ]
        return self._serialise(nodes, inputs, [fetch])

    def _serialise(
        self, nodes: Iterable[onnx.NodeProto], inputs: Iterable[onnx.ValueInfoProto], outputs: list[str]
    ) -> bytes:
        model = copy.copy(self._model)
        nodes, inputs = list(nodes), list(inputs)
        for kept, values in ((model.graph.node, nodes), (model.graph.input, inputs)):
            values = [copy.copy(value) for value in values]
            del kept[:]
            kept.extend(values)
        del model.graph.output[:]
        # Without a type ONNX Runtime infers it, whatever the operator.
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        serialised: bytes = model.SerializeToString()
        return serialised


def _sources(node: onnx.NodeProto) -> list[str]:
    """Returns what a node reads, the outer tensors that its sub-graphs read among it."""
    names = list(node.input)
    for attribute in node.attribute:
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            own |= {name for inner in graph.node for name in inner.output}
            names += [name for inner in graph.node for name in _sources(inner) if name not in own]
            names += [value.name for value in graph.output if value.name not in own]
    return names
