"""The rule that writes attention as one operator: a product of values with the softmax of another product.

A layer may compute attention in any of its forms, with the axes of queries, keys, values and masks in any order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.attention_scores import Weights, softmax_of, weights_of
from keras_pe.export.onnx.finishing.einsum_rewrites import transpose_to
from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    constant,
    count_uses,
    insert,
    only_reader,
    order_of,
    producer,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.graph_edits import replace as replace_value
from keras_pe.export.onnx.finishing.operator_sizes import Size
from keras_pe.export.onnx.finishing.products import Product, split_scale
from keras_pe.export.onnx.finishing.rules import NoMatchError, rule
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from keras_pe.export.onnx.handlers import opsets


def _before_transposes(labels: Sequence[str], tensor: ir.Value) -> tuple[list[str], ir.Value]:
    """Returns the labels of the axes of a tensor before its transpositions, and that tensor."""
    labels = [*labels]
    while (transpose := producer(tensor, "Transpose")) is not None:
        order = order_of(transpose)
        tensor, labels = transpose.inputs[0], [labels[order.index(axis)] for axis in range(len(labels))]
    return labels, tensor


@dataclass(frozen=True)
class _Axes:
    """Queries, keys and values. Heads may have several axes; keys and values may lack the last ones.

    Attributes:
        operands: The tensors of queries, keys and values, each with the labels of its axes, and with the labels in the
            order `(batch, length, *heads, channels)`.
        order: The position of each axis of the result among the ordered axes of the queries.
    """

    operands: Sequence[tuple[ir.Value, Sequence[str], Sequence[str]]]
    order: tuple[int, ...]

    @classmethod
    def of(cls, scores: Product, weights: Sequence[str], values: tuple[str, ir.Value], output: str) -> "_Axes | None":
        """Returns the axes of a product of weights and values; None if no order of axes makes it attention.

        Args:
            scores: The product of queries and keys.
            weights: The labels of the weights in the second product.
            values: The labels and the tensor of the values.
            output: The labels of the result.
        """
        names = dict(zip(weights, scores.output, strict=True))
        value, result = ([names.get(label, "channels") for label in labels] for labels in (values[0], output))
        if len(scores.output) < 3:
            return None
        batch, *heads, length, size = [*scores.output]
        for (queries, query), (keys, key) in permutations((scores.left, scores.right)):
            summed = {*queries} & {*keys} - {*scores.output}
            shared = [label for label in heads if label in keys]
            if len(summed) != 1 or heads[: len(shared)] != shared:
                continue
            query_order, result_order = ([batch, length, *heads, each] for each in (*summed, "channels"))
            key_order, value_order = ([batch, size, *shared, each] for each in (*summed, "channels"))
            operands = (query, queries, query_order), (key, keys, key_order), (values[1], value, value_order)
            pairs = *(each[1:] for each in operands), (result, result_order)
            if all(sorted(labels) == sorted(order) for labels, order in pairs):
                return cls(operands, tuple(map(result_order.index, result)))
        return None

    def shapes(self, sizes: KnownSizes) -> list[list[Size]]:
        """Returns the sizes of queries, keys and values, in the order `(batch, length, *heads, channels)`."""
        shapes = [(sizes.shape(tensor) or (), labels, wanted) for tensor, labels, wanted in self.operands]
        return [[shape[labels.index(label)] for label in wanted] for shape, labels, wanted in shapes]


@rule("Attention", "Einsum", "MatMul")
def attend(node: Node, sizes: KnownSizes) -> None:
    """Writes the operator in place of the product of weights and values."""
    if (found := _match(node, sizes)) is not None:
        _replace(node, *found, sizes)


def _match(node: Node, sizes: KnownSizes) -> tuple[_Axes, Weights] | None:
    """Returns the axes and weights of the attention that a node computes; None for another product.

    Raises:
        NoMatchError: If the operator cannot compute the attention.
    """
    product = Product.of(node.outputs[0], sizes)
    if product is None:
        return None
    for factor, values in permutations((product.left, product.right)):
        labels, tensor = _before_transposes(*factor)
        softmax, sees = softmax_of(tensor, sizes)
        if softmax is None:
            continue
        weights = weights_of(softmax, sizes)
        axes = _Axes.of(weights.scores, labels, values, product.output) if weights else None
        if axes is not None and any(count_uses(each.outputs[0]) > 1 for each in (softmax, producer(tensor)) if each):
            raise NoMatchError("its scores are returned")
        first, last = opsets.WITH_ATTENTION[0], opsets.WITH_ATTENTION[-1]
        if sizes.opset not in opsets.WITH_ATTENTION:
            if axes is None:
                return None
            raise NoMatchError(f"it is written at the operator sets {first} to {last}, not at {sizes.opset}")
        if weights is None or axes is None:
            raise NoMatchError("its scores are not q·k * scale + masks, or its axes are in an unsupported order")
        weights = replace(weights, sees=sees)
        if reason := _obstacle(axes, weights, sizes):
            raise NoMatchError(reason)
        return axes, weights
    return None


def _obstacle(axes: _Axes, weights: Weights, sizes: KnownSizes) -> str | None:
    """Returns the reason why the operator cannot compute an attention; None if it can."""
    shapes, types = axes.shapes(sizes), {tensor.dtype for tensor, *_ in axes.operands}
    if types != {ir.DataType.FLOAT}:
        return f"it computes in {next(each.name.lower() for each in types if each and each != ir.DataType.FLOAT)}"
    if any(mask.is_infinite(sizes) for mask in weights.masks):
        return "its mask is minus infinity: fully masked rows are NaN in Keras, and zeros in runtimes"
    batches = {shape[0] for shape in shapes}
    if len(batches) > 1 or not all(isinstance(size, int) for shape in shapes for size in shape[2:]):
        return "the number of its heads or channels is unknown, or its batches differ"
    heads = math.prod(shapes[0][2:-1])
    values = [value for mask in weights.masks for value in (mask.added, *(x for x, _ in mask.conditions))]
    for value in (*values, weights.sees):
        if isinstance(value, ir.Value):
            shape = _merge_heads(sizes.shape(value) or (), len(shapes[0]))
            if len(shape) != 4 or shape[0] not in (1, *batches) or shape[1] not in (1, heads):
                return "its mask or bias has other axes"
    return "its scale is not positive, which runtimes refuse" if weights.scale <= 0 else None


def _merge_heads(shape: Sequence[Size], rank: int) -> Sequence[Size]:
    """Returns the shape of a mask of scores of this rank with one axis of heads, if the mask is equal for all heads."""
    full = (*[1] * (rank - len(shape)), *shape)
    return (full[0], 1, *full[-2:]) if set(full[1:-2]) <= {1} else full


def _replace(node: Node, axes: _Axes, weights: Weights, sizes: KnownSizes) -> None:
    """Writes the operator for tensors whose heads lie side by side, as a projection returns them: no head is moved."""
    shapes, graph = axes.shapes(sizes), node.graph
    scale, tensors = weights.scale, list[ir.Value]()
    for index, operand in enumerate(axes.operands):
        tensor, factor = _flat(node, *operand, sizes)
        if index < 2:
            scale *= factor
        elif factor != 1:
            tensor = insert(node, "Mul", [tensor, constant(graph, np.float32(factor))])
        tensors.append(tensor)
    query, key, value = shapes
    masks = [_as_scores(node, mask.write(node, sizes), len(query), sizes) for mask in weights.masks]
    total = masks[:1]
    for mask in masks[1:]:
        total = [insert(node, "Add", [total[0], mask])]
    full = [_broadcast(node, each, tensors, query[1], key[1], sizes) for each in total]
    heads, channels = [math.prod(_ints(each[2:-1])) for each in (query, key)], value[-1]
    names = {"q_num_heads": heads[0], "kv_num_heads": heads[1]}
    result = insert(node, "Attention", [*tensors, *full], scale=scale, **names)
    result.type = node.outputs[0].type
    if weights.sees is not None:
        result = _zero_masked_rows(node, result, weights.sees, [0, 0, heads[0], channels], len(query), sizes)
    result = insert(node, "Reshape", [result, sizes_constant(graph, [0, 0, *query[2:-1], channels])])
    old, order = node.outputs[0], [*axes.order]
    if (transpose := only_reader(old, "Transpose")) is not None:
        stand_for(old, result)
        old, order = transpose.outputs[0], [order[axis] for axis in order_of(transpose)]
    if order != sorted(order):
        result = insert(node, "Transpose", [result], perm=order)
    result.type = old.type
    replace_value(old, result)


def _zero_masked_rows(
    node: Node, result: ir.Value, sees: ir.Value, with_heads: Sequence[Size], rank: int, sizes: KnownSizes
) -> ir.Value:
    """Returns the result of attention, `(batch, length, heads * channels)`, with zeros in fully masked rows."""
    graph, shape = node.graph, sizes.shape(sees) or ()
    if len(shape) == 4 and shape[1] == 1:
        return insert(node, "Mul", [result, insert(node, "Squeeze", [sees, sizes_constant(graph, [1])])])
    if len(shape) == rank == 3:
        return insert(node, "Mul", [result, sees])
    rows = _as_scores(node, sees, rank, sizes)
    if len(shape) == 2:
        rows = insert(node, "Unsqueeze", [rows, sizes_constant(graph, [0, 1])])
    result = insert(node, "Reshape", [result, sizes_constant(graph, with_heads)])
    return insert(node, "Mul", [result, insert(node, "Transpose", [rows], perm=[0, 2, 1, 3])])


def _flat(
    node: Node, tensor: ir.Value, labels: Sequence[str], wanted: Sequence[str], sizes: KnownSizes
) -> tuple[ir.Value, float]:
    """Returns queries, keys or values as `(batch, length, heads * channels)`, and the number that scales them.

    The tensor is the one before the layer transposed, scaled and split it into heads.
    """
    factor = 1.0
    while True:
        tensor, number = split_scale(tensor, sizes)
        factor *= number
        if producer(tensor, "Transpose") is None:
            break
        labels, tensor = _before_transposes(labels, tensor)
    tensor = transpose_to(node, tensor, labels, wanted)
    shape = sizes.shape(tensor) or ()
    width = math.prod(size for size in shape[2:] if isinstance(size, int))
    while (split := producer(tensor, "Reshape", "Mul")) is not None:
        source, number = split_scale(tensor, sizes) if split.op_type == "Mul" else (split.inputs[0], 1.0)
        before = sizes.shape(source) or ()
        if source is tensor or before[:2] != shape[:2] or math.prod(_ints(before[2:])) != width:
            break
        tensor, factor = source, factor * number
    if len(sizes.shape(tensor) or ()) == 3:
        return tensor, factor
    return insert(node, "Reshape", [tensor, sizes_constant(node.graph, [0, 0, width])]), factor


def _ints(sizes: Sequence[Size]) -> list[int]:
    return [size if isinstance(size, int) else 0 for size in sizes]


def _as_scores(node: Node, tensor: ir.Value, rank: int, sizes: KnownSizes) -> ir.Value:
    """Returns a mask of the scores or of their rows with one axis of heads."""
    graph, own = node.graph, len(sizes.shape(tensor) or ())
    if own == 3:
        return insert(node, "Unsqueeze", [tensor, sizes_constant(graph, [1 if rank == 3 else 0])])
    return insert(node, "Squeeze", [tensor, sizes_constant(graph, range(2, own - 2))]) if own > 4 else tensor


def _broadcast(
    node: Node, mask: ir.Value, tensors: Sequence[ir.Value], rows: Size, columns: Size, sizes: KnownSizes
) -> ir.Value:
    """Returns a mask with the rows and columns of the scores, since ONNX Runtime does not broadcast these axes."""
    if (sizes.shape(mask) or ())[-2:] == (rows, columns):
        return mask
    graph = node.graph
    lengths = [insert(node, "Shape", [tensor], start=1, end=2) for tensor in tensors[:2]]
    return insert(node, "Expand", [mask, insert(node, "Concat", [sizes_constant(graph, [1, 1]), *lengths], axis=0)])
