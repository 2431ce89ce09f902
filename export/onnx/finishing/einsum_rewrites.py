"""Rules of products: an `Einsum` of two tensors is one MatMul or Mul, without needless transpositions and shuffles.

ONNX Runtime computes a MatMul several times faster. A contraction stays one Einsum until the rule of attention has run.
"""

import math
from collections.abc import Sequence
from itertools import chain, permutations
from typing import Any

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    WEIGHT,
    Node,
    attribute,
    count_uses,
    insert,
    order_of,
    producer,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.products import Product, number_of
from keras_pe.export.onnx.finishing.rules import rule
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


@rule("Einsum", "Einsum")
def remove_shuffles(node: Node, sizes: KnownSizes) -> None:
    """Removes a shuffle of the summed channels if both factors of a product have the same shuffle."""
    product = Product.of(node.outputs[0], sizes)
    if product is None:
        return
    (left, first), (right, second) = product.left, product.right
    if left[-1] != right[-1] or left[-1] in product.output:
        return
    ours, theirs = (_shuffle(each, sizes) for each in (first, second))
    if ours and theirs and ours[1] == theirs[1]:
        sources = (first, ours[0]), (second, theirs[0])
        set_inputs(node, [_before_shuffle(value, source, node, sizes) for value, source in sources])


def _shuffle(value: ir.Value, sizes: KnownSizes) -> tuple[ir.Value, int] | None:
    """Returns the source and the number of parts of the last shuffle of a value's channels; None without a shuffle."""
    while (node := producer(value, "Mul", "Reshape")) is not None:
        if node.op_type == "Mul":
            source = _scaled_tensor(node, sizes)
            if source is None:
                return None
            value = source
            continue
        stack = producer(node.inputs[0], "Concat")
        before, after = sizes.shape(node.inputs[0]), sizes.shape(node.outputs[0])
        if before is None or after is None:
            return None
        if stack is None:
            if before[-1] != after[-1]:
                return None
            value = node.inputs[0]
            continue
        return _split_and_stacked(stack, sizes, after[-1])
    return None


def _scaled_tensor(node: Node, sizes: KnownSizes) -> ir.Value | None:
    """Returns the tensor that a Mul multiplies by a number; None if neither factor is a number."""
    return next((x for x, y in permutations(node.inputs, 2) if number_of(y, sizes) is not None), None)


def _split_and_stacked(stack: Node, sizes: KnownSizes, width: object) -> tuple[ir.Value, int] | None:
    parts = [producer(value, "Unsqueeze") for value in stack.inputs]
    if any(part is None for part in parts):
        return None
    halves = [part.inputs[0] for part in parts if part is not None]
    split, rank = producer(halves[0], "Split"), len(sizes.shape(stack.outputs[0]) or ())
    if split is None or [*split.outputs] != halves:
        return None
    axes = {sizes.vector(part.inputs[1]) for part in parts if part is not None}
    lie_so = axes <= {(-1,), (rank - 1,)} and attribute(stack, "axis") in (-1, rank - 1)
    is_last = attribute(split, "axis", 0) in (-1, rank - 2) and (sizes.shape(split.inputs[0]) or (None,))[-1] == width
    return (split.inputs[0], len(halves)) if lie_so and is_last else None


def _before_shuffle(value: Any, source: ir.Value, place: Node, sizes: KnownSizes) -> ir.Value:
    """Computes a value again from the source of its shuffle."""
    node: Node = value.producer()
    if node.op_type == "Mul":
        scaled = _scaled_tensor(node, sizes)
        read = [_before_shuffle(each, source, place, sizes) if each is scaled else each for each in node.inputs]
        result = insert(place, "Mul", read)
        result.type = value.type
        return result
    is_stack = producer(node.inputs[0], "Concat") is not None
    before = source if is_stack else _before_shuffle(node.inputs[0], source, place, sizes)
    return insert(place, "Reshape", [before, node.inputs[1]])


@rule("MatMul", "Einsum")
def multiply_matrices(node: Node, sizes: KnownSizes) -> None:
    """Writes an Einsum of two tensors as one MatMul, or as a Mul if it sums nothing."""
    product = Product.of(node.outputs[0], sizes)
    if product is None:
        return
    left, right, output = (set(labels) for labels in (product.left[0], product.right[0], product.output))
    result: ir.Value | None = None
    # Each operand has labels of its own, all of them in the output, and the product sums over an axis.
    if left - right and right - left and (left & right) - output and left ^ right <= output:
        result = _Contraction(node, product, sizes).write()
    elif left | right == output:
        factors = [_broadcast_to(node, *each, product.output) for each in (product.left, product.right)]
        result = insert(node, "Mul", factors)
    if result is not None:
        result.type = node.outputs[0].type
        replace(node.outputs[0], result)
        remove(node)


@rule("MatMul", "MatMul")
def mask_rows_of_product(product: Node, sizes: KnownSizes) -> None:
    """Masks the rows of a product instead of the rows of its first factor, which in attention has more columns.

    Keras sets the weights of a query to 0 if the query sees no key. A factor of 0 or 1 rounds neither.
    """
    masked = producer(product.inputs[0], "Mul")
    if masked is None or masked.graph is not product.graph or count_uses(masked.outputs[0]) > 1:
        return
    for rows, mask in (masked.inputs, masked.inputs[::-1]):
        cast = producer(mask, "Cast")
        shape, of_mask = sizes.shape(rows), sizes.shape(mask)
        is_mask = cast is not None and cast.inputs[0].dtype == ir.DataType.BOOL and of_mask and of_mask[-1] == 1
        if is_mask and shape is not None and shape == sizes.shape(masked.outputs[0]):
            rewrite(product, "Mul", [insert(product, "MatMul", [rows, product.inputs[1]]), mask])
            return


@rule("MatMul", "Transpose")
def swap_factors(transpose: Node, sizes: KnownSizes) -> None:
    """Writes the transposed product of two transposed matrices as the product in the other order."""
    product, order = producer(transpose.inputs[0], "MatMul"), order_of(transpose)
    *batch, row, column = range(max(len(order), 2))
    if product is None or count_uses(product.outputs[0]) > 1 or order != [*batch, column, row]:
        return
    factors = [producer(value, "Transpose") for value in reversed(product.inputs) if count_uses(value) == 1]
    if len(factors) == 2 and all(factors):
        orders = [[order_of(each)[axis] for axis in order] for each in factors]
        pairs = zip(factors, orders, strict=True)
        read = [insert(transpose, "Transpose", each.inputs, perm=x) for each, x in pairs if each]
        stand_for(product.outputs[0], rewrite(transpose, "MatMul", read))


def _broadcast_to(node: Node, labels: str, tensor: ir.Value, output: str) -> ir.Value:
    """Returns a tensor with the axes of the output in order; a missing axis gets the size 1."""
    missing = [axis for axis, label in enumerate(output) if label not in labels]
    ordered = transpose_to(node, tensor, labels, [label for label in output if label in labels])
    return insert(node, "Unsqueeze", [ordered, sizes_constant(node.graph, missing)]) if missing else ordered


def transpose_to(place: Node, tensor: ir.Value, labels: Sequence[str], order: Sequence[str]) -> ir.Value:
    """Returns a tensor with its labelled axes in an order, transposed before a node if need be."""
    axes = [labels.index(label) for label in order]
    return tensor if axes == sorted(axes) else insert(place, "Transpose", [tensor], perm=axes)


class _Contraction:
    """An Einsum that one product of matrices computes. The labels of the first operand come first in the output."""

    def __init__(self, node: Node, product: Product, sizes: KnownSizes) -> None:
        self._node, self._output = node, product.output
        (left, first), (right, second) = product.left, product.right
        rows, columns = ([x for x in product.output if x not in other] for other in (right, left))
        if product.output.index(columns[0]) < product.output.index(rows[0]):
            first, second, left, right, rows, columns = second, first, right, left, columns, rows
        self._rows, self._columns, self._operands = rows, columns, ((first, left), (second, right))
        self._places = {label: (tensor, axis) for tensor, labels in self._operands for axis, label in enumerate(labels)}
        shapes = [(sizes.shape(tensor) or (), labels) for tensor, labels in self._operands]
        self._known = {
            label: size
            for shape, labels in shapes
            for label, size in zip(labels, shape, strict=False)
            if isinstance(size, int)
        }

    def _count(self, labels: Sequence[str]) -> float:
        """Returns the number of entries along these axes; infinity if a size is unknown."""
        return math.prod(self._known.get(label, math.inf) for label in labels)

    def write(self) -> ir.Value | None:
        """Writes the MatMul, unless it would merge several unknown sizes into one axis.

        An Einsum without a batch stays, too, if all three tensors would be transposed: a runtime does that itself.
        """
        node, rows, columns = self._node, self._rows, self._columns
        (first, left), (second, right) = self._operands
        shared = [label for label in self._output if label in left and label in right]
        inner = [label for label in left if label in right and label not in self._output]
        if shared and self._count(inner) > self._count(columns):
            rows.sort(key=left.index)  # the operand is larger than the result, so transpose the result
        batch = [[label] for label in shared]
        merged = [rows] if shared else [[label] for label in rows]  # without a batch, MatMul keeps several leading axes
        groups = [*batch, *merged, inner], [*batch, inner, columns]
        if any(sum(len(each) > 1 and self._count(each) == math.inf for each in own) > 1 for own in groups):
            return None
        orders = [(labels, [*chain(*own)]) for (_, labels), own in zip(self._operands, groups, strict=True)]
        orders.append(("".join((*shared, *rows, *columns)), [*self._output]))
        if not shared and not any([*labels] == order for labels, order in orders):
            return None
        operator, factors = self._factors(first, second)
        read = [
            self._reshape(transpose_to(node, factor, labels, [*chain(*own)]), own, is_merged=True)
            for factor, (_, labels), own in zip(factors, self._operands, groups, strict=True)
        ]
        product = self._reshape(insert(node, operator, read), [*batch, *merged, columns], is_merged=False)
        result = transpose_to(node, product, [*shared, *rows, *columns], self._output)
        return result if operator == "MatMul" else insert(node, "Cast", [result], to=node.outputs[0].dtype)

    def _factors(self, *factors: ir.Value) -> tuple[str, Sequence[ir.Value]]:
        """Returns the operator of a product and its factors, which are the integers of a quantized layer and weight.

        TensorFlow multiplies these integers as floats. Two activations stay floats, since ONNX Runtime multiplies
        signed integers slowly.
        """
        casts = [producer(each, "Cast") for each in factors]
        integers = [cast.inputs[0] for cast in casts if cast is not None and cast.inputs[0].dtype == ir.DataType.INT8]
        return ("MatMulInteger", integers) if len(integers) == 2 and WEIGHT in integers[1].meta else ("MatMul", factors)

    def _reshape(self, tensor: ir.Value, groups: Sequence[Sequence[str]], *, is_merged: bool) -> ir.Value:
        """Merges the axes of each group of labels into one axis, or splits them again."""
        leading = next((i for i, group in enumerate(groups) if len(group) > 1), None)
        if leading is None:
            return tensor
        rest = groups[leading:]
        axes = rest if is_merged else [[label] for group in rest for label in group]
        return insert(self._node, "Reshape", [tensor, self._shape(leading, axes)])

    def _shape(self, leading: int, groups: Sequence[Sequence[str]]) -> ir.Value:
        """Writes the shape of a Reshape that keeps the leading axes and then has one axis for each group."""
        graph, unknown = self._node.graph, [group for group in groups if self._count(group) == math.inf]
        inferred = max(unknown, key=len, default=None)  # the Reshape infers one size
        parts = [-1 if each is inferred else None if each in unknown else int(self._count(each)) for each in groups]
        if None not in parts:
            return sizes_constant(graph, [0] * leading + [part for part in parts if part is not None])
        pieces = [sizes_constant(graph, [0] * leading)] if leading else []
        for part, group in zip(parts, groups, strict=True):
            pieces.append(self._size(*group) if part is None else sizes_constant(graph, [part]))
        return insert(self._node, "Concat", pieces, axis=0)

    def _size(self, label: str) -> ir.Value:
        tensor, axis = self._places[label]
        return insert(self._node, "Shape", [tensor], start=axis, end=axis + 1)
