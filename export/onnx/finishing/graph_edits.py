"""Queries and edits of an `onnx_ir.Graph` that passes share: producers, readers, constants, replacements of nodes.

The weights of a model are inputs of its graph until the file is written, so that no pass reads their numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

Node = Any
"""An `onnx_ir.Node`. `Any`, because every input has the type `Value | None` for mypy."""
SAME_AS, WEIGHT, LAYER, SENTENCE, TRACED = "same as", "weight", "layer", "sentence", "traced"
"""Keys of metadata. A value has the value that replaces it, and its Keras weight. A node has the path of its layer, and
a sentence in its name, which a runtime then has in its errors."""


def producer(value: ir.Value | None, *operators: str) -> Node | None:
    """Returns the node that computes a value; None if the node has another operator. Without operators, any matches."""
    node = None if value is None else value.producer()
    return None if node is None or (operators and node.op_type not in operators) else node


def count_uses(value: ir.Value) -> int:
    """Returns how many inputs of nodes and outputs of graphs a value is."""
    return len(value.uses()) + value.is_graph_output()


def only_reader(value: ir.Value, *operators: str) -> Node | None:
    """Returns the only reader of a value, if it stands in the same graph and has one of these operators, if any."""
    if count_uses(value) != 1 or value.is_graph_output():
        return None
    (node,) = value.consumers()
    return None if node.graph is not value.graph or (operators and node.op_type not in operators) else node


def array(value: ir.Value | None) -> Any | None:
    """Returns the numbers of a constant; None of any other value."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def number(value: ir.Value | None) -> Any | None:
    """Returns the number of a constant with one entry; None of any other value."""
    numbers = array(value)
    return None if numbers is None or numbers.size != 1 else numbers.reshape(-1)[0]


def attribute(node: Node, name: str, default: Any = None) -> Any:
    """Returns the value of a node's attribute, or the default if the node has no such attribute."""
    return node.attributes[name].value if name in node.attributes else default


def order_of(node: Node | None) -> list[int]:
    """Returns the order of the axes of a Transpose; an empty list for other nodes."""
    return [] if node is None or node.op_type != "Transpose" else [*attribute(node, "perm", ())]


def nodes(graph: ir.Graph, *operators: str) -> list[Node]:
    """Returns the nodes of these operators in a graph, without the graphs inside its nodes."""
    return [node for node in graph if node.op_type in operators]


def graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """Yields a graph and the graphs inside its nodes."""
    yield graph
    yield from graph.subgraphs()


def all_nodes(graph: ir.Graph, *operators: str) -> list[Node]:
    """Returns the nodes of these operators in a graph and in the graphs inside its nodes."""
    return [node for each in graphs(graph) for node in nodes(each, *operators)]


def constant(graph: ir.Graph, numbers: Any) -> ir.Value:
    """Adds an array to a graph."""
    name = f"constant_{len(graph.initializers)}"
    while name in graph.initializers:
        name += "_"
    stored = np.asarray(numbers)
    tensor = ir.tensor(stored, name=name)
    value = ir.Value(name=name, shape=ir.Shape(stored.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def sizes_constant(graph: ir.Graph, sizes: Any) -> ir.Value:
    """Adds a vector of sizes or axes to a graph."""
    return constant(graph, np.asarray(sizes, np.int64))


def transpose_constant(graph: ir.Graph, value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Returns a constant with its axes in another order. Missing leading axes count as 1; a single number stays."""
    numbers = np.asarray(array(value))
    if numbers.size == 1:
        return value
    return constant(graph, numbers.reshape((1,) * (len(order) - numbers.ndim) + numbers.shape).transpose(order))


def insert(place: Node, operator: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Value:
    """Inserts a node of the same layer before another node, and returns its result."""
    return _insert(place, operator, inputs, attributes, place)


def copy(node: Node, inputs: Sequence[ir.Value | None], before: Node | None = None, **attributes: Any) -> ir.Value:
    """Inserts a copy of a node of one result that reads other values, before the node or before another place.

    Returns:
        The result of the copy.
    """
    attributes = {**{name: each.value for name, each in node.attributes.items()}, **attributes}
    result = _insert(before or node, node.op_type, inputs, attributes, node)
    result.type = node.outputs[0].type
    return result


def _insert(
    place: Node, operator: str, inputs: Sequence[ir.Value | None], attributes: dict[str, Any], like: Node
) -> ir.Value:
    node = ir.node(operator, inputs, attributes)
    node.meta.update({key: like.meta.get(key, "") for key in (LAYER, TRACED)})
    place.prepend(node)
    if operator in _TYPE_PRESERVING and inputs[0] is not None:
        node.outputs[0].type = inputs[0].type
    return node.outputs[0]


_TYPE_PRESERVING = ("Concat", "Neg", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def rewrite(node: Node, operator: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Value:
    """Replaces a node of one result by another node, and returns the new result."""
    (old,) = node.outputs
    result = insert(node, operator, inputs, **attributes)
    result.type, result.shape = old.type, old.shape
    replace(old, result)
    remove(node)
    return result


def replace(old: ir.Value, new: ir.Value) -> None:
    """Replaces a value by another in all nodes and outputs of graphs.

    A graph may return only results of its own nodes, and each of them once. Otherwise an Identity computes the output.
    """
    stand_for(old, new)
    graph = old.graph
    if old.is_graph_output() and graph is not None:
        returned = new
        if not can_replace(old, new):
            identity = ir.node("Identity", [new])
            before = old.producer()
            identity.meta[LAYER] = "" if before is None else before.meta.get(LAYER, "")
            graph.append(identity)
            returned = identity.outputs[0]
        returned.type, returned.shape = old.type, old.shape
        returned.name, old.name = old.name, None
        graph.outputs[:] = [returned if output is old else output for output in graph.outputs]
    old.replace_all_uses_with(new)


def can_replace(old: ir.Value, new: ir.Value) -> bool:
    """Whether one value can replace another without an Identity."""
    node = producer(new)
    is_free = node is not None and node.graph is old.graph and not new.is_graph_output()
    return is_free or not old.is_graph_output()


def stand_for(old: ir.Value, new: ir.Value) -> None:
    """Records that a value has the numbers of another, perhaps in another order of axes or another shape."""
    old.meta[SAME_AS] = new


def standing_for(value: ir.Value) -> ir.Value | None:
    """Returns the value of the graph that has the numbers of a removed value; None if the graph has no such value."""
    seen = set[ir.Value]()
    while value.graph is None and SAME_AS in value.meta and value not in seen:
        seen.add(value)
        value = value.meta[SAME_AS]
    return None if value.graph is None else value


def add_weight(graph: ir.Graph, weight: Any) -> ir.Value:
    """Returns the graph's input for a Keras weight, a new one if the graph has no input of that name."""
    value = next((each for each in graph.inputs if each.name == weight.name), None)
    if value is None:
        value = ir.Value(name=weight.name)
        graph.inputs.append(value)
    set_weight(value, weight)
    return value


def set_weight(value: ir.Value, weight: Any) -> None:
    """Stores a Keras weight in the metadata of an input of the graph, and declares its type and shape."""
    value.meta[WEIGHT] = weight
    value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(weight.dtype)), ir.Shape(weight.shape)


def remove(*nodes: Node) -> None:
    """Removes nodes whose results no node reads."""
    for node in nodes:
        node.graph.remove(node, safe=True)


def drop_unneeded(graph: ir.Graph) -> None:
    """Removes the nodes whose results are neither read nor returned, in a graph and in the graphs inside its nodes."""
    for each in reversed([*graphs(graph)]):
        for node in reversed(each):
            if not any(map(count_uses, node.outputs)):
                each.remove(node, safe=True)


def read_instead(node: Node, old: ir.Value, new: ir.Value) -> None:
    """Replaces a value in the inputs of one node."""
    for index, value in enumerate(node.inputs):
        if value is old:
            node.replace_input_with(index, new)


def set_inputs(node: Node, inputs: Iterable[ir.Value | None]) -> None:
    """Replaces the inputs of a node."""
    values = [*inputs]
    node.resize_inputs(len(values))
    for index, value in enumerate(values):
        node.replace_input_with(index, value)
