"""What passes over an `onnx_ir.Graph` are made of: who makes and reads a value, constants, nodes in place of others.

The weights of a model are inputs of its graph until the file is written, so that no pass reads their numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

Node = Any
"""An `onnx_ir.Node`, whose inputs are values: mypy takes each for one that may be missing."""
SAME_AS, WEIGHT, LAYER, SENTENCE = "same as", "weight", "layer", "sentence"
"""Metadata of a value: the one that has its numbers where it is gone, and the Keras weight that it is. Of a node: the
path of its layer, and the sentence that an error of a runtime is to say of it."""


def producer(value: ir.Value | None, *operators: str) -> Node | None:
    """Returns the node that makes a value, if it is of one of these operators, or of any if none is named."""
    node = None if value is None else value.producer()
    return None if node is None or (operators and node.op_type not in operators) else node


def count_uses(value: ir.Value) -> int:
    """Returns how often a value is read or returned."""
    return len(value.uses()) + value.is_graph_output()


def only_reader(value: ir.Value, *operators: str) -> Node | None:
    """Returns the node that alone reads a value, in the same graph and of one of these operators, or of any."""
    if count_uses(value) != 1 or value.is_graph_output():
        return None
    (node,) = value.consumers()
    return None if node.graph is not value.graph or (operators and node.op_type not in operators) else node


def array(value: ir.Value | None) -> Any | None:
    """Returns the numbers of a constant; None of any other value."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def attribute(node: Node, name: str, default: Any = None) -> Any:
    """Returns the value of a node's attribute, or the default if it has none of that name."""
    return node.attributes[name].value if name in node.attributes else default


def nodes(graph: ir.Graph, *operators: str) -> list[Node]:
    """Returns the nodes of these operators that a graph has now, without those inside its nodes."""
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
    held = np.asarray(numbers)
    tensor = ir.tensor(held, name=name)
    value = ir.Value(name=name, shape=ir.Shape(held.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def sizes_constant(graph: ir.Graph, sizes: Any) -> ir.Value:
    """Adds a vector of sizes or axes to a graph."""
    return constant(graph, np.asarray(sizes, np.int64))


def turned_constant(graph: ir.Graph, value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Returns a constant in another order of axes, as if it had all of them; a single number as it is."""
    numbers = np.asarray(array(value))
    if numbers.size == 1:
        return value
    return constant(graph, numbers.reshape((1,) * (len(order) - numbers.ndim) + numbers.shape).transpose(order))


def insert(place: Node, operator: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Value:
    """Inserts a node of the same layer before another, and returns what it makes."""
    return _inserted(place, operator, inputs, attributes, place.meta.get(LAYER, ""))


def copy(node: Node, inputs: Sequence[ir.Value | None], before: Node | None = None, **attributes: Any) -> ir.Value:
    """Inserts a node of one result like another that reads other values, before that or elsewhere.

    Returns:
        What it makes.
    """
    attributes = {**{name: each.value for name, each in node.attributes.items()}, **attributes}
    result = _inserted(before or node, node.op_type, inputs, attributes, node.meta.get(LAYER, ""))
    result.type = node.outputs[0].type
    return result


def _inserted(
    place: Node, operator: str, inputs: Sequence[ir.Value | None], attributes: dict[str, Any], layer: str
) -> ir.Value:
    node = ir.node(operator, inputs, attributes)
    node.meta[LAYER] = layer
    place.prepend(node)
    if operator in _KEEPING_THE_TYPE and inputs[0] is not None:
        node.outputs[0].type = inputs[0].type
    return node.outputs[0]


_KEEPING_THE_TYPE = ("Concat", "Neg", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def rewrite(node: Node, operator: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Value:
    """Puts another node in the place of a node of one result, and returns what it makes."""
    (old,) = node.outputs
    result = insert(node, operator, inputs, **attributes)
    result.type, result.shape = old.type, old.shape
    replace(old, result)
    remove(node)
    return result


def replace(old: ir.Value, new: ir.Value) -> None:
    """Lets every node and graph read or return one value instead of another.

    A graph returns what one of its own nodes makes, and each once: anything else is handed on by an Identity.
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
    """Whether one value can stand in the place of another without a node that hands it on."""
    maker = producer(new)
    is_free = maker is not None and maker.graph is old.graph and not new.is_graph_output()
    return is_free or not old.is_graph_output()


def stand_for(old: ir.Value, new: ir.Value) -> None:
    """Notes that a value has the numbers of another, perhaps in another order of axes or another shape."""
    old.meta[SAME_AS] = new


def standing_for(value: ir.Value) -> ir.Value | None:
    """Returns the value that a graph computes where it computed this one; None if it has no such numbers any more."""
    seen = set[ir.Value]()
    while value.graph is None and SAME_AS in value.meta and value not in seen:
        seen.add(value)
        value = value.meta[SAME_AS]
    return None if value.graph is None else value


def add_weight(graph: ir.Graph, weight: Any) -> ir.Value:
    """Returns the input that is a Keras weight, a new one if the graph has none of its name."""
    value = next((each for each in graph.inputs if each.name == weight.name), None)
    if value is None:
        value = ir.Value(name=weight.name)
        graph.inputs.append(value)
    value.meta[WEIGHT] = weight
    value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(weight.dtype)), ir.Shape(weight.shape)
    return value


def remove(*gone: Node) -> None:
    """Removes nodes whose results nothing reads."""
    for node in gone:
        node.graph.remove(node, safe=True)


def drop_unneeded(graph: ir.Graph) -> None:
    """Removes the nodes of a graph whose results nothing reads or returns."""
    for node in reversed(graph):
        if not any(map(count_uses, node.outputs)):
            graph.remove(node, safe=True)


def read_instead(node: Node, old: ir.Value, new: ir.Value) -> None:
    """Lets one node read another value."""
    for index, value in enumerate(node.inputs):
        if value is old:
            node.replace_input_with(index, new)


def set_inputs(node: Node, inputs: Iterable[ir.Value | None]) -> None:
    """Gives a node other inputs."""
    given = [*inputs]
    node.resize_inputs(len(given))
    for index, value in enumerate(given):
        node.replace_input_with(index, value)
