"""What changes of a graph are made of: who makes and reads a tensor, constants, nodes in the place of others, order."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes, bodies, needed_names


class GraphEditor:
    """An `onnx.GraphProto` that is changed in place, and what is known of it.

    Who makes and reads what is told as it was when the editor was made: a pass makes one of its own.

    Attributes:
        graph: The graph.
        producers: The node that makes each tensor, those within its nodes aside.
        readers: The nodes that read each tensor, those within nodes too; twice where one reads it twice.
        outputs: What the graph returns, or one in the attributes of its nodes.
        constants: The tensors that it holds, by name.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.producers: dict[str, Any] = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[Any]] = {}
        for node in all_nodes(graph):
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.constants: dict[str, Any] = {tensor.name: tensor for tensor in graph.initializer}
        returned = [output.name for each in all_graphs(graph) for output in each.output]
        self.outputs = set(returned)
        self._returned = Counter(returned)
        self._removed: dict[int, Any] = {}  # by identity: nodes that are equal are others
        self._same: dict[str, str] = {}

    def remove(self, node: Any) -> None:
        """Marks a node of the graph as removed, until `apply`."""
        self._removed[id(node)] = node

    def replace(self, tensor: str, other: str) -> None:
        """Marks a tensor as one instead of which every node reads another, from `apply` on."""
        self._same[tensor] = other

    def apply(self) -> None:
        """Removes and replaces what was marked, all in one walk: one by one takes the square of the number of nodes."""
        if self._removed:
            places = [place for place, node in enumerate(self.graph.node) if id(node) in self._removed]
            for _, group in itertools.groupby(enumerate(reversed(places)), key=sum):  # from the end, run by run
                run = [place for _, place in group]
                del self.graph.node[run[-1] : run[0] + 1]
        if self._same:
            self.read_instead(self._same)
        self._removed, self._same = {}, {}

    def nodes(self, *operators: str) -> list[Any]:
        """Returns the nodes of these operators, as they are now."""
        return [node for node in self.graph.node if node.op_type in operators and id(node) not in self._removed]

    def producer(self, tensor: str, *operators: str) -> Any | None:
        """Returns the node that makes a tensor, if it is of one of these operators, or of any where none is named."""
        node = self.producers.get(tensor)
        return None if node is None or (operators and node.op_type not in operators) else node

    def uses(self, tensor: str) -> int:
        """Returns how often a tensor is read, or returned."""
        return len(self.readers.get(tensor, ())) + self._returned[tensor]

    def only_reader(self, tensor: str, *operators: str) -> Any | None:
        """Returns the node that alone reads a tensor, not within another and of one of these operators, or of any."""
        if self.uses(tensor) != 1 or tensor not in self.readers:
            return None
        node = self.readers[tensor][0]
        is_inner = self.producers.get(node.output[0]) is not node
        return None if is_inner or (operators and node.op_type not in operators) else node

    def value(self, tensor: str) -> Any | None:
        """Returns the numbers of a constant; None of any other tensor."""
        from onnx import numpy_helper

        return numpy_helper.to_array(self.constants[tensor]) if tensor in self.constants else None

    def add_constant(self, name: str, value: Any) -> str:
        """Adds an array to the graph and returns its name."""
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add_sizes(self, name: str, sizes: Any) -> str:
        """Adds a vector of sizes or axes to the graph and returns its name."""
        return self.add_constant(name, np.asarray(sizes, np.int64))

    def add_turned(self, name: str, constant: str, order: Sequence[int]) -> str:
        """Adds a constant in another order of axes, as if it had them all, and returns its name; a number's own."""
        value = np.asarray(self.value(constant))
        if value.size == 1:
            return constant
        wide = value.reshape((1,) * (len(order) - value.ndim) + value.shape)
        return self.add_constant(name, wide.transpose(order))

    def read_instead(self, same: Mapping[str, str]) -> None:
        """Lets every node read a tensor that stands for another instead of that."""
        for node in all_nodes(self.graph):
            read_instead(node, same)


def read_instead(node: Any, same: Mapping[str, str]) -> None:
    """Lets a node read tensors that stand for others instead of those."""
    node.input[:] = [same.get(name, name) for name in node.input]


def become(node: Any, operator: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> None:
    """Makes of a node another one in its place, which returns the same tensor unless one is named."""
    made = make_node(operator, inputs, output or node.output[0], **attributes)
    node.op_type, node.input[:], node.output[:] = operator, made.input, made.output
    refill(node.attribute, made.attribute)


def make_node(operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> Any:
    """Returns a node that makes one tensor, and is named after it."""
    from onnx import helper

    return helper.make_node(operator, inputs, [output], output, **attributes)


def attributes_of(node: Any) -> dict[str, Any]:
    """Returns the values of a node's attributes, by name."""
    from onnx import helper

    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def attribute(node: Any, name: str, default: Any = None) -> Any:
    """Returns the value of a node's attribute, or the default where it has none of that name."""
    return attributes_of(node).get(name, default)


def set_attribute(node: Any, name: str, value: Any) -> None:
    """Gives a node an attribute, in place of what it had of that name."""
    from onnx import helper

    refill(node.attribute, [each for each in node.attribute if each.name != name])
    node.attribute.append(helper.make_attribute(name, value))


def refill(field: Any, items: Iterable[Any]) -> None:
    """Gives a field of a message other items, of which some may be its own."""
    copies = [type(item).FromString(item.SerializeToString(deterministic=True)) for item in items]
    del field[:]
    field.extend(copies)


def order_needed(graph: Any) -> None:
    """Orders nodes and constants of an `onnx.GraphProto` in place as its outputs need them, and drops the others."""
    for node in graph.node:
        for body in bodies(node):
            order_needed(body)
    producer = {output: i for i, node in enumerate(graph.node) for output in node.output if output}
    order: dict[int, None] = {}
    for output in graph.output:
        _visit(graph, producer, output.name, order)
    nodes = [graph.node[i] for i in order]
    constants = {tensor.name: tensor for tensor in graph.initializer}
    used = dict.fromkeys(name for node in nodes for name in needed_names(node) if name in constants)
    used |= dict.fromkeys(output.name for output in graph.output if output.name in constants)
    refill(graph.node, nodes)
    refill(graph.initializer, [constants[name] for name in used])
    del graph.value_info[:]


def _visit(graph: Any, producer: dict[str, int], name: str, order: dict[int, None]) -> None:
    """Appends what the name needs, depth first, without recursion: graphs are deeper than Python's stack."""
    waiting = [(producer[name], False)] if name in producer else []
    while waiting:
        index, is_complete = waiting.pop()
        if index in order:
            continue
        if is_complete:
            order[index] = None
            continue
        waiting.append((index, True))
        needed = [producer[name] for name in needed_names(graph.node[index]) if name in producer]
        waiting.extend((i, False) for i in reversed(needed) if i not in order)
