"""The layers of an ONNX or LiteRT file for a quantizer: the nodes of each layer, by the path in their names."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.onnx_model import layer_of, read_without_weights
from keras_pe.export.model.watch.layer_paths import is_within, matched_paths
from keras_pe.export.runtimes.litert_layers import operator_layers


@dataclass(frozen=True)
class Node:
    """A node of a file.

    Attributes:
        name: The name in options of a quantizer; empty if no option can name the node.
        layer: The names that lead to the layer, joined by "/". A node between layers is a layer with its own name.
        operator: The type.
        results: The names of its results.
        has_matrix: Whether the file stores a matrix of floats that the node takes.
        is_in_body: Whether the node is in the body of a loop or a branch.
    """

    name: str
    layer: str
    operator: str
    results: tuple[str, ...] = ()
    has_matrix: bool = False
    is_in_body: bool = False


@dataclass(frozen=True)
class QuantizableLayer:
    """The nodes of one layer that a quantizer takes.

    Attributes:
        path: The names that lead to the layer, joined by "/".
        nodes: The nodes.
    """

    path: str
    nodes: tuple[Node, ...]

    @property
    def operators(self) -> Mapping[str, int]:
        """How often the layer has each operator."""
        return dict(Counter(node.operator for node in self.nodes))


def read_nodes(path: Path, format: Format, layers: Iterable[str]) -> tuple[Node, ...]:
    """Returns the nodes of a file in their order.

    Args:
        path: The file.
        format: Its format, ONNX or LiteRT.
        layers: The paths of the model's layers, if they are known.
    """
    return tuple(_onnx_nodes(path) if format is Format.ONNX else _litert_nodes(path, layers))


def nodes_of_operators(
    nodes: Iterable[Node], operators: Collection[str], takes_bodies: bool
) -> tuple[list[Node], list[Node]]:
    """Returns the nodes that a quantizer of some operators takes, and the other nodes."""
    taken, left = list[Node](), list[Node]()
    for node in nodes:
        is_taken = node.operator in operators and (takes_bodies or not node.is_in_body)
        (taken if is_taken else left).append(node)
    return taken, left


def nodes_of_layers(nodes: Iterable[Node], layers: Mapping[str, str]) -> tuple[list[Node], list[Node]]:
    """Returns the nodes of layers that Keras quantizes, with Keras' path as name and layer, and the other nodes.

    Args:
        nodes: The nodes of a file.
        layers: Keras' path of each layer that it quantizes, by the path in files. A file from an earlier process may
            have other numbers in automatic names.
    """
    nodes = list(nodes)
    places = {node.layer for node in nodes}
    layers = _by_path_in_file(layers, places)
    present = {layers[own] for own in layers if any(is_within(place, own) for place in places)}
    nearest = dict[str, tuple[int, str]]()  # the layer around a layer without nodes, such as one in TimeDistributed
    for own, path in layers.items():
        found = next(((depth, scope) for depth, scope in enumerate(_around(own)) if scope in places), None)
        if found is not None and path not in present:
            nearest[path] = min(found, nearest.get(path, found))
    taken, left = list[Node](), list[Node]()
    for node in nodes:
        whole = next((layers[own] for own in layers if is_within(node.layer, own)), None)
        inner = [path for path, (_, scope) in nearest.items() if scope == node.layer]
        paths = inner if whole is None else [whole]
        taken += [replace(node, name=path, layer=path) for path in paths]
        left += [] if paths else [node]
    return taken, left


def _by_path_in_file(layers: Mapping[str, str], places: Collection[str]) -> Mapping[str, str]:
    """Returns the layers by the paths that the nodes of a file have, which may differ in the numbers of names."""
    ours, theirs = (
        dict.fromkeys(each for path in paths for each in (path, *_around(path))) for paths in (layers, places)
    )
    twins = matched_paths(ours, theirs)
    outer = {own: next((each for each in (own, *_around(own)) if each in twins), "") for own in layers}
    return {twins.get(outer[own], "") + own[len(outer[own]) :]: path for own, path in layers.items()}


def _around(path: str) -> Iterator[str]:
    """Yields the paths that lead to a path, the longest first."""
    while path := path.rpartition("/")[0]:
        yield path


def quantizable_layers(nodes: Iterable[Node]) -> tuple[QuantizableLayer, ...]:
    """Returns the layers of some nodes, in the order of their first nodes. Nodes without a name are left out."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if node.name:
            found.setdefault(node.layer, []).append(node)
    return tuple(QuantizableLayer(layer, tuple(own)) for layer, own in found.items())


def describe_left(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Returns the nodes with a matrix of floats, each as "layer (operator)"."""
    bodies = {True: " in a loop or branch", False: ""}
    found = (f"{node.layer} ({node.operator}{bodies[node.is_in_body]})" for node in nodes if node.has_matrix)
    return tuple(dict.fromkeys(found))


def _onnx_nodes(path: Path) -> Iterator[Node]:
    from onnx import TensorProto

    graph = read_without_weights(path).graph
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    matrices = {each.name for each in graph.initializer if len(each.dims) > 1 and each.data_type in floats}
    for node in graph.node:
        layer = layer_of(node.name) or str(node.name).strip("/")
        yield Node(node.name, layer, node.op_type, tuple(node.output), not matrices.isdisjoint(node.input))


def _litert_nodes(path: Path, layers: Iterable[str]) -> Iterator[Node]:
    operators = read_operators(path.read_bytes())
    for operator, layer in zip(operators, operator_layers(operators, layers), strict=True):
        stored = (tensor for tensor in operator.inputs if tensor.is_stored and tensor.dtype.startswith("float"))
        yield Node(
            name=operator.scope,
            layer=layer,
            operator=operator.kind,
            results=tuple(tensor.name for tensor in operator.outputs),
            has_matrix=any(len(tensor.shape) > 1 for tensor in stored),
            is_in_body=operator.is_in_body,
        )
