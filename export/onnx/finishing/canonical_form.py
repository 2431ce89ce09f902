"""The canonical form of a graph, so that exports of a model are equal: its order, merged duplicates, and names.

tf2onnx orders nodes by hashes, numbers names with a counter of the process, and puts memory addresses into some names.
In the canonical form, nodes stand in the order in which the outputs need them. The names of nodes begin with the layer:
`attention/query/MatMul`.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from keras_pe.export.model.watch.nested_arguments import UniqueNames
from keras_pe.export.onnx.finishing.graph_edits import LAYER, SENTENCE, TRACED, Node, graphs, remove, replace


def order_needed(graph: ir.Graph) -> None:
    """Orders the nodes and constants of a graph as its outputs need them, and drops unused ones."""
    for node in graph:
        for body in bodies(node):
            order_needed(body)
    order = dict[Node, None]()
    for output in graph.outputs:
        _visit(graph, output, order)
    graph.remove([node for node in graph if node not in order], safe=True)
    graph.extend(order)
    used = dict.fromkeys(value for node in order for value in needed_values(node) if value.is_initializer())
    used |= dict.fromkeys(output for output in graph.outputs if output.is_initializer())
    ordered = [value for value in used if value.graph is graph]
    graph.initializers.clear()
    for value in ordered:
        graph.register_initializer(value)


def bodies(node: Node) -> list[ir.Graph]:
    """Returns the graphs of a branch or a loop."""
    return [each.as_graph() for each in node.attributes.values() if each.type == ir.AttributeType.GRAPH]


def needed_values(node: Node) -> list[ir.Value]:
    """Returns the inputs of a node, and the outer values that the graphs inside the node read."""
    read = [value for value in node.inputs if value is not None]
    for body in bodies(node):
        own = {value for inner in body for value in inner.outputs}.union(body.inputs, body.initializers.values())
        read += [value for inner in body for value in needed_values(inner) if value not in own]
        read += [value for value in body.outputs if value not in own]
    return read


def _visit(graph: ir.Graph, value: ir.Value, order: dict[Node, None]) -> None:
    """Appends the nodes before a value, depth first. A recursion would exceed Python's stack on deep graphs."""
    waiting = [(value.producer(), False)]
    while waiting:
        node, is_complete = waiting.pop()
        if node is None or node in order or node.graph is not graph:
            continue
        if is_complete:
            order[node] = None
            continue
        waiting.append((node, True))
        waiting.extend((each.producer(), False) for each in reversed(needed_values(node)))


def merge_equal(graph: ir.Graph) -> None:
    """Merges equal constants and equal nodes.

    onnx-ir's own pass skips nodes with a large constant or a body.
    """
    order_needed(graph)
    _merge(graph)
    order_needed(graph)


def _merge(graph: ir.Graph) -> None:
    constants = dict[Any, ir.Value]()
    for value in tuple(graph.initializers.values()):
        first = constants.setdefault(_content(value.const_value), value)
        if first is not value and not value.is_graph_output():
            value.replace_all_uses_with(first)
    found = dict[Any, Node]()
    for node in tuple(graph):
        for body in bodies(node):
            _merge(body)
        attributes = sorted(_digest(_serialize(each)) for each in node.attributes.values())
        key = (node.domain, node.op_type, *map(id, node.inputs), len(node.outputs), *attributes)
        if any(value.is_graph_output() for value in node.outputs):
            continue
        first = found.setdefault(key, node)
        if first is not node:
            for old, new in zip(node.outputs, first.outputs, strict=True):
                replace(old, new)
            remove(node)


def _serialize(attribute: ir.Attr) -> bytes:
    return bytes(ir.to_proto(attribute).SerializeToString(deterministic=True))


def _content(tensor: Any) -> tuple[int, tuple[int, ...], bytes]:
    array = tensor.numpy()
    content = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
    return tensor.dtype, tuple(array.shape), _digest(content)


def _digest(content: bytes) -> bytes:
    """Returns a hash of a content, since the contents of all constants and branches together may exceed the memory."""
    return hashlib.blake2b(content, digest_size=32).digest()


# TensorFlow's prefixes of names in the body of a function, and the suffixes that tf2onnx and TensorFlow add to names.
_COUNTERS = re.compile(r"^\w+_(true|false|body|cond)_\d+_|__\d+(?=[^/]*$)|:\d+$")


def place_in_layers(graph: ir.Graph, path_of: Callable[[str], str], outer: str = "") -> None:
    """Adds its layer and TensorFlow operator to the metadata of each node. Nodes in a body have at least its layer.

    Args:
        graph: The graph of tf2onnx.
        path_of: Returns the path of the layer of a TensorFlow operator, empty if the layer is unknown.
        outer: The path for nodes whose layer is unknown.
    """
    from keras_pe.rotations.lookup import FAILURE_SCOPE

    failing = re.compile(rf"{FAILURE_SCOPE}\w*/([^/:]+)")  # a number may make the scope unique
    for node in graph:
        name = _COUNTERS.sub("", str(first_result(node).name))
        path = path_of(name) or outer
        node.meta[LAYER], node.meta[TRACED] = path, name
        sentence = failing.search(name)
        node.meta[SENTENCE] = f"{FAILURE_SCOPE}/{sentence[1]}" if sentence else ""
        for body in bodies(node):
            place_in_layers(body, path_of, path)


def name_after_layers(graph: ir.Graph) -> None:
    """Names the nodes of a graph, their results and the constants.

    The name of a node and of its results is the path of the layer with the operator. The name of a constant ends with
    the argument of its reader; a constant of several readers is named after their layer. Inputs and outputs keep their
    names.
    """
    fixed = [*graph.inputs, *graph.outputs]
    free = UniqueNames([str(value.name) for value in fixed])
    stored = [value for each in graphs(graph) for value in each.initializers.values()]
    constants = [value for value in stored if not value.is_graph_output()]
    for index, value in enumerate(constants):
        value.name = f"\0{index}"  # a temporary name that collides with no final name
    _name(graph, free, set(fixed))


def _name(graph: ir.Graph, free: UniqueNames, named: set[ir.Value]) -> None:
    def name(value: ir.Value, base: str) -> None:
        if value not in named:
            named.add(value)
            value.name = free.give(base)

    for value in graph.inputs:
        name(value, "input")
    for value in tuple(graph.initializers.values()):
        name(value, _role(value))
    for node in graph:
        base = _join(node.meta[LAYER], _join(node.meta.get(SENTENCE, ""), node.op_type))
        first = first_result(node)
        if first in named:  # an output of the model
            node.name = free.give(base)
        else:
            name(first, base)
            node.name = first.name
        for value in node.outputs:
            if value.name != "":
                name(value, base)
        node.doc_string = None
        ordered = sorted(node.attributes.items())
        node.attributes.clear()
        node.attributes.update(ordered)
        for body in bodies(node):
            for value in (*body.inputs, *body.outputs):
                if value.shape is not None:  # tf2onnx numbers unknown sizes
                    value.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])
            _name(body, free, named)
            body.name = f"{node.name}_body"
    graph.doc_string = None


def _role(value: ir.Value) -> str:
    """Returns the base of a constant's name."""
    places = [(str(use.node.meta[LAYER]), f"{use.node.op_type}/{_argument(use.node, use.idx)}") for use in value.uses()]
    if not places:
        return "constant"
    paths = {path for path, _ in places}
    role = "constant" if len(places) > 1 else places[0][1]
    return _join(paths.pop() if len(paths) == 1 else "", role)


def _argument(node: Node, index: int) -> str:
    """Returns ONNX' name of an operator's input."""
    from onnx import defs

    inputs = defs.get_schema(node.op_type, domain=node.domain).inputs if defs.has(node.op_type, node.domain) else []
    return str(inputs[min(index, len(inputs) - 1)].name) if inputs else "constant"


def first_result(node: Node) -> ir.Value:
    """Returns the first result of a node. A node may omit results that no node reads."""
    results: tuple[ir.Value, ...] = node.outputs
    return next(value for value in results if value.name != "")


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
