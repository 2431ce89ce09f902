"""The part of a graph that computes one token: values without their axis of tokens, and the branch of an `If`."""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    LAYER,
    TRACED,
    Node,
    copy,
    count_uses,
    insert,
    only_reader,
    producer,
    stand_for,
)
from keras_pe.export.onnx.finishing.operator_sizes import Size
from keras_pe.export.onnx.finishing.reshapes import moves_no_data
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from keras_pe.export.onnx.handlers import opsets

_ROWS = 2  # the axis of the tokens of keys, `[batch, heads, count, channels]`


class Tokens:
    """The values of a graph that have the number of tokens of a call among their sizes.

    For one token, the Reshapes and Transposes between a projection and its attention keep the order of the numbers.
    """

    def __init__(self, keys: ir.Value, sizes: KnownSizes) -> None:
        """Reads the number of tokens.

        Args:
            keys: The keys of the tokens, `[batch, heads, count, channels]`.
            sizes: The sizes of the graph.
        """
        self._keys, self._sizes = keys, sizes
        shape = sizes.shape(keys) or (1,) * 4
        self._axes = (shape[0], shape[_ROWS])

    def count(self, place: Node) -> ir.Value:
        """Writes the number of tokens before a node, from an input of the graph if possible: all layers share it."""
        inputs = ((value, axis, size) for value in place.graph.inputs for axis, size in enumerate(self._shape(value)))
        found = next(((value, axis) for value, axis, size in inputs if size == self._axes[1]), (self._keys, _ROWS))
        return insert(place, "Shape", [found[0]], start=found[1], end=found[1] + 1)

    def before(self, value: ir.Value) -> list[Node]:
        """Returns the nodes from a value `[batch, count, width]` to this value; without such a value, an empty list."""
        passed = list[Node]()
        while (node := producer(value, "Reshape", "Transpose")) and count_uses(value) == 1 and self._keeps_order(node):
            passed.insert(0, node)
            value = node.inputs[0]
            if self._is_row(value):
                return passed
        return []

    def after(self, value: ir.Value) -> list[Node]:
        """Returns the nodes from this value to a value `[batch, count, width]`; without such a value, an empty list."""
        passed = list[Node]()
        while (node := only_reader(value, "Reshape", "Transpose")) and self._keeps_order(node):
            passed.append(node)
            value = node.outputs[0]
            if self._is_row(value):
                return passed
        return []

    def _shape(self, value: ir.Value) -> tuple[Size, ...]:
        return self._sizes.shape(value) or ()

    def _is_row(self, value: ir.Value) -> bool:
        shape = self._shape(value)
        return len(shape) == 3 and shape[:2] == self._axes

    def _keeps_order(self, node: Node) -> bool:
        shape = tuple(1 if size == self._axes[1] else size for size in self._shape(node.inputs[0]))
        return node.op_type == "Reshape" or moves_no_data(node, shape)


def copy_chain(chain: Sequence[Node], value: ir.Value) -> list[Node]:
    """Copies nodes of which each reads the result of the one before. The first copy reads the value."""
    copies = list[Node]()
    for node in chain:
        stand_for(node.outputs[0], value)
        copies.append(copy(node, [copies[-1].outputs[0] if copies else value, *node.inputs[1:]]).producer())
    return copies


class Branch:
    """The branch of an `If` for one token, which is a graph of its own."""

    def __init__(self, like: Node, dtype: ir.DataType) -> None:
        self.nodes: list[Node] = []
        self._like, self._dtype = like, dtype

    def add(self, operator: str, inputs: Sequence[ir.Value | None], outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node, and returns its results."""
        domain = opsets.RUNTIME_DOMAIN if operator == "GroupQueryAttention" else ""
        node = ir.node(operator, inputs, attributes, domain=domain, num_outputs=outputs)
        node.meta.update({key: self._like.meta.get(key, "") for key in (LAYER, TRACED)})
        for each in node.outputs:
            each.type = ir.TensorType(self._dtype)
        self.nodes.append(node)
        return node.outputs if outputs > 1 else node.outputs[0]
