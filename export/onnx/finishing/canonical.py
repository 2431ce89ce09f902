"""One form of a graph, so that two exports of a model agree: its order, each thing computed once, and names.

tf2onnx orders nodes by hashes, numbers its names with a counter of the process, and puts memory addresses into some of
them. Here nodes come in the order in which the outputs need them, and are named after the layers that they come from:
`attention/query/MatMul`.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from keras_pe.export.artifacts.onnx_model import all_nodes, bodies
from keras_pe.export.model.watch.nesting import UniqueNames
from keras_pe.export.onnx.finishing.graph_edits import order_needed, read_instead, refill


def make_canonical(graph: Any) -> dict[str, str]:
    """Orders the nodes and constants of an `onnx.GraphProto` in place; what no output needs is dropped.

    Returns:
        Which tensor stands for each that the graph computed or held; what was merged is another one.
    """
    order_needed(graph)
    merged = _merge(graph, {})
    order_needed(graph)
    return merged


def _merge(graph: Any, outer: dict[str, str]) -> dict[str, str]:
    """Lets what is computed twice be computed once, and returns what stands for what now.

    tf2onnx does it too, but picks the survivor by chance.
    """
    kept = dict(outer)
    found: dict[Any, Sequence[str]] = {}
    outputs = {output.name for output in graph.output}
    for tensor in graph.initializer:
        first = found.setdefault(_content(tensor), [tensor.name])
        kept[tensor.name] = first[0]
    for node in graph.node:
        read_instead(node, kept)
        for body in bodies(node):
            _merge(body, kept)
        attributes = sorted(_digest(attribute.SerializeToString(deterministic=True)) for attribute in node.attribute)
        key = (node.domain, node.op_type, *node.input, len(node.output), *attributes)
        first = node.output if outputs.intersection(node.output) else found.setdefault(key, list(node.output))
        kept.update(zip(node.output, first, strict=True))
    return kept


def _content(tensor: Any) -> tuple[int, tuple[int, ...], bytes]:
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    content = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
    return tensor.data_type, tuple(tensor.dims), _digest(content)


def _digest(content: bytes) -> bytes:
    """Returns what stands for the content: that of every constant and branch would be held at once."""
    return hashlib.blake2b(content, digest_size=32).digest()


# What TensorFlow puts before the names in a function's body, and tf2onnx and TensorFlow behind any name.
_COUNTERS = re.compile(r"^\w+_(true|false|body|cond)_\d+_|__\d+|:\d+$")


def name_after_layers(graph: Any, fixed: Iterable[str], path_of: Callable[[str], str]) -> dict[str, str]:
    """Names the nodes of an `onnx.GraphProto`, what they return and the constants, in place.

    A node is called after its layer and its operator, and what it returns as it is. A constant is called after the
    argument of the node that reads it; one that several read after their layer.

    Args:
        graph: The graph, in its final order.
        fixed: Names that stay: inputs, outputs and weights.
        path_of: Returns the path of the layer that an operator of TensorFlow's belongs to, empty where none is known.

    Returns:
        The new names by the old ones, without those of branches and loops.
    """
    names = {name: name for name in fixed}
    names[""] = ""
    layers = paths_of_results(graph, path_of)
    _rename(graph, names, UniqueNames(names), layers, _constants(graph, layers))
    return names


def paths_of_results(graph: Any, path_of: Callable[[str], str]) -> dict[str, str]:
    """Returns the path of the layer of each node, by the first tensor that it returns.

    Args:
        graph: An `onnx.GraphProto`.
        path_of: Returns the path of the layer that an operator of TensorFlow's belongs to, empty where none is known.
    """
    return dict(_layers(graph, path_of, ""))


def _layers(graph: Any, path_of: Callable[[str], str], outer: str) -> Iterator[tuple[str, str]]:
    """Yields the first output of each node with the path of its layer; within a body, at least that of the body's."""
    for node in graph.node:
        result = first_result(node)
        path = path_of(_COUNTERS.sub("", result)) or outer
        yield result, path
        for body in bodies(node):
            yield from _layers(body, path_of, path)


def _constants(graph: Any, layers: dict[str, str]) -> dict[str, str]:
    """Returns what each constant is called after, those of bodies too."""
    readers: dict[str, list[tuple[str, str]]] = {}
    for node in all_nodes(graph):
        path = layers[first_result(node)]
        for index, name in enumerate(node.input):
            readers.setdefault(name, []).append((path, f"{node.op_type}/{_argument(node, index)}"))
    found = {}
    for name, places in readers.items():
        paths = {path for path, _ in places}
        role = "constant" if len(places) > 1 else places[0][1]
        found[name] = _joined(paths.pop() if len(paths) == 1 else "", role)
    return found


def _argument(node: Any, index: int) -> str:
    """Returns what ONNX calls an input of an operator."""
    from onnx import defs

    inputs = defs.get_schema(node.op_type, domain=node.domain).inputs if defs.has(node.op_type, node.domain) else []
    return str(inputs[min(index, len(inputs) - 1)].name) if inputs else "constant"


def _rename(
    graph: Any, names: dict[str, str], free: UniqueNames, layers: dict[str, str], constants: dict[str, str]
) -> None:
    def rename(old: str, base: str) -> str:
        if old not in names:
            names[old] = free.give(base)
        return names[old]

    for value in graph.input:
        value.name = rename(value.name, "input")
    for tensor in graph.initializer:
        tensor.name = rename(tensor.name, constants.get(tensor.name, "constant"))
        tensor.ClearField("doc_string")
    for node in graph.node:
        base = _joined(layers[first_result(node)], node.op_type)
        kept = first_result(node) in names  # that of an output of the model
        node.name = free.give(base) if kept else rename(first_result(node), base)
        read_instead(node, names)
        node.output[:] = [rename(name, base) for name in node.output]
        node.ClearField("doc_string")
        refill(node.attribute, sorted(node.attribute, key=lambda attribute: attribute.name))
        for body in bodies(node):
            for value in (*body.input, *body.output):
                for dim in value.type.tensor_type.shape.dim:
                    dim.ClearField("dim_param")  # numbered by tf2onnx, and only the model's own have a meaning
            _rename(body, dict(names), free, layers, constants)
            body.name = f"{node.name}_body"
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    graph.ClearField("doc_string")


def first_result(node: Any) -> str:
    """Returns the first tensor that a node returns; some leave out what nobody reads."""
    return str(next(name for name in node.output if name))


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
