"""The inference of sizes in a graph: numbers, names of input dimensions, and terms of both.

ONNX' own inference has names of dimensions too, and loses them if a table is sliced to the length of an input.
"""

from itertools import zip_longest
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import Node
from keras_pe.export.onnx.finishing.operator_sizes import (
    COUNTING,
    SHAPE_RULES,
    VECTOR_RULES,
    Inputs,
    Size,
    Sizes,
    UnknownSizeError,
    apply_rule,
)

_MOST = 16  # entries of a vector of sizes


class KnownSizes:
    """The shapes of the values in a graph and in the graphs inside its nodes, and the values of vectors of sizes.

    The shape of a value that a pass adds is inferred when a pass reads it.

    Attributes:
        opset: The version of ONNX' operators in the graph.
    """

    def __init__(self, graph: ir.Graph) -> None:
        """Infers the sizes of a graph.

        Args:
            graph: The graph, in topological order, with shapes of its inputs.
        """
        self.opset: int = graph.opset_imports.get("", 0)
        self._shapes: dict[ir.Value, Sizes | None] = {}
        self._vectors: dict[ir.Value, Sizes] = {}
        for node in graph.all_nodes():  # a node follows the nodes that it reads
            self._follow(node)

    def shape(self, value: ir.Value | None) -> Sizes | None:
        """Returns the sizes of a value; None if the rank is unknown."""
        if value is None:
            return None
        if value not in self._shapes:
            node = value.producer()
            if node is None:
                self._start(value)
            else:
                self._follow(node)
        return self._shapes.get(value)

    def vector(self, value: ir.Value | None) -> Sizes | None:
        """Returns the entries of a vector or scalar of integers; None if they are unknown."""
        self.shape(value)
        return None if value is None else self._vectors.get(value)

    def array(self, value: ir.Value) -> Any | None:
        """Returns a vector or scalar as an array of the value's dtype; None if an entry is not a number."""
        vector, shape = self.vector(value), self.shape(value)
        if vector is None or shape is None or not value.dtype or not all(isinstance(entry, int) for entry in vector):
            return None
        return np.array(vector, value.dtype.numpy()).reshape([len(vector)] * len(shape))

    def axes(self, node: Node) -> list[int]:
        """Returns the axes that a node names, counted from the first; an empty list if they are unknown."""
        shape = self.shape(node.outputs[0] if node.op_type == "Unsqueeze" else node.inputs[0]) or ()
        try:
            return sorted(axis % len(shape) for axis in self._inputs(node).axes()) if shape else []
        except UnknownSizeError:
            return []

    def with_axes_kept(self, reduction: Node) -> Sizes | None:
        """Returns the sizes of the result of a reduction if it kept its axes; None if they are unknown."""
        found = apply_rule(SHAPE_RULES, reduction.op_type, self._inputs(reduction, keepdims=1))
        return None if found is None else tuple(found)

    def _inputs(self, node: Node, **attributes: Any) -> Inputs:
        own = {name: each.value for name, each in node.attributes.items()}
        shapes, vectors = ([*map(read, node.inputs)] for read in (self.shape, self.vector))
        return Inputs(shapes, vectors, {**own, **attributes})

    def _start(self, value: ir.Value) -> None:
        """Stores the sizes of an input or a constant."""
        self._shapes[value] = _declared_shape(value)
        tensor = value.const_value
        if tensor is None or tensor.dtype not in COUNTING or len(tensor.shape) > 1 or tensor.size > _MOST:
            return
        values = tensor.numpy().reshape(-1)
        if values.dtype.kind != "f" or ((np.abs(values) < 2.0**63).all() and (values == np.floor(values)).all()):
            self._vectors[value] = tuple(map(int, values.tolist()))

    def _follow(self, node: Node) -> None:
        """Infers the sizes of the results of a node."""
        inputs = self._inputs(node)
        shape, vector = (apply_rule(rules, node.op_type, inputs) for rules in (SHAPE_RULES, VECTOR_RULES))
        for index, value in enumerate(node.outputs):
            inferred = _inferred_numbers(value)
            found = shape if shape is not None and (index == 0 or node.op_type == "Split") else inferred
            self._shapes[value] = None
            if found is not None:
                others = inferred if inferred and len(inferred) == len(found) else []
                pairs = enumerate(zip_longest(found, others))
                self._shapes[value] = tuple(_size(*pair, (value.name, axis)) for axis, pair in pairs)
        result = self._shapes[node.outputs[0]]
        if vector is not None and len(vector) <= _MOST and result is not None and len(result) < 2:
            self._vectors[node.outputs[0]] = tuple(vector)


def _declared_shape(value: ir.Value) -> Sizes | None:
    """Returns the shape of an input or a constant: numbers and names of dimensions."""
    if value.shape is None:
        return None
    return tuple(size if isinstance(size, int) else size.value or (value.name, i) for i, size in enumerate(value.shape))


def _inferred_numbers(value: ir.Value) -> list[int | None] | None:
    """Returns the shape that ONNX has inferred, with None for sizes that are not numbers."""
    return None if value.shape is None else [size if isinstance(size, int) else None for size in value.shape]


def _size(size: Size | None, inferred: int | None, place: Size) -> Size:
    """Returns the best known form of a size: a number, if one is known, preferably ours.

    onnx 1.23 infers a size of 0 for some sizes of an Attention.
    """
    if isinstance(size, int) or inferred is None:
        return place if size is None else size
    return inferred
