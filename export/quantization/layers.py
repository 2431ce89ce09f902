"""The layers of an ONNX file for a quantizer: the nodes of each layer, by the path in their names."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.onnx_model import layer_of, read_without_weights


@dataclass(frozen=True)
class QuantizableLayer:
    """The nodes of one layer that a quantizer takes.

    Attributes:
        path: The names that lead to the layer, joined by "/". A node between layers is a layer with its own name.
        nodes: The names of the nodes.
        operators: How often the layer has each operator.
    """

    path: str
    nodes: tuple[str, ...]
    operators: Mapping[str, int]


def quantizable_layers(path: Path, operators: Collection[str]) -> tuple[QuantizableLayer, ...]:
    """Returns the layers of an ONNX file with a node of these operators, in the order of their nodes.

    Nodes without a name are left out, since no option of a quantizer can name them.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for node in read_without_weights(path).graph.node:
        if node.name and node.op_type in operators:
            found.setdefault(_layer_or_node(node), []).append((node.name, node.op_type))
    return tuple(
        QuantizableLayer(layer, tuple(name for name, _ in nodes), dict(Counter(operator for _, operator in nodes)))
        for layer, nodes in found.items()
    )


def layers_left(path: Path, operators: Collection[str]) -> tuple[str, ...]:
    """Returns the nodes with a matrix of floats that no quantizer of these operators takes, as "layer (operator)"."""
    from onnx import TensorProto

    graph = read_without_weights(path).graph
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    weights = {each.name for each in graph.initializer if len(each.dims) > 1 and each.data_type in floats}
    found = (
        f"{_layer_or_node(node)} ({node.op_type})"
        for node in graph.node
        if node.op_type not in operators and weights.intersection(node.input)
    )
    return tuple(dict.fromkeys(found))


def _layer_or_node(node: Any) -> str:
    return layer_of(node.name) or str(node.name).strip("/")
