"""An `Einsum` of two tensors as one MatMul, or as a Mul if nothing is summed, without needless turns and shuffles.

ONNX Runtime multiplies by MatMul several times faster. Until attention is found, a contraction stays one node.
"""

import math
from collections.abc import Sequence
from itertools import chain, permutations

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import (
    WEIGHT,
    Node,
    all_nodes,
    attribute,
    count_uses,
    insert,
    producer,
    remove,
    replace,
    rewrite,
    set_inputs,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.products import Product, number_of, order_of
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def leave_out_shuffles(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Leaves out a shuffle that both factors of a product have of the channels over which they are summed."""
    for node in all_nodes(graph, "Einsum"):
        product = Product.of(node.outputs[0], sizes)
        if product is None:
            continue
        (left, first), (right, second) = product.left, product.right
        if left[-1] != right[-1] or left[-1] in product.output:
            continue
        ours, theirs = (_shuffle(each, sizes) for each in (first, second))
        if ours and theirs and ours[1] == theirs[1]:
            sources = (first, ours[0]), (second, theirs[0])
            set_inputs(node, [_without(value, source, node, sizes) for value, source in sources])


def _shuffle(value: ir.Value, sizes: KnownSizes) -> tuple[ir.Value, int] | None:
    """Returns what the last shuffle of the channels of a value laid side by side, and in how many parts."""
    while (node := producer(value, "Mul", "Reshape")) is not None:
        if node.op_type == "Mul":
            source = _multiplied(node, sizes)
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


def _multiplied(node: Node, sizes: KnownSizes) -> ir.Value | None:
    """Returns what a Mul multiplies by a number."""
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


def _without(value: ir.Value | None, source: ir.Value, place: Node, sizes: KnownSizes) -> ir.Value:
    """Returns a value as it would be if its channels had not been shuffled."""
    node = producer(value, "Mul", "Reshape")
    assert node is not None
    assert value is not None
    if node.op_type == "Mul":
        multiplied = _multiplied(node, sizes)
        read = [_without(each, source, place, sizes) if each is multiplied else each for each in node.inputs]
        result = insert(place, "Mul", read)
        result.type = value.type
        return result
    is_stack = producer(node.inputs[0], "Concat") is not None
    before = source if is_stack else _without(node.inputs[0], source, place, sizes)
    return insert(place, "Reshape", [before, node.inputs[1]])


def multiply_matrices(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Writes each Einsum of two tensors as one MatMul, or as a Mul if nothing is summed."""
    for node in all_nodes(graph, "Einsum"):
        product = Product.of(node.outputs[0], sizes)
        if product is None:
            continue
        left, right, output = (set(labels) for labels in (product.left[0], product.right[0], product.output))
        written: ir.Value | None = None
        # Each operand has labels of its own, all of them in the output; something is contracted.
        if left - right and right - left and (left & right) - output and left ^ right <= output:
            written = _Contraction(node, product, sizes).write()
        elif left | right == output:
            factors = [_as_output(node, *each, product.output) for each in (product.left, product.right)]
            written = insert(node, "Mul", factors)
        if written is not None:
            written.type = node.outputs[0].type
            replace(node.outputs[0], written)
            remove(node)


def leave_out_turns(graph: ir.Graph) -> None:
    """Multiplies in the other order what was turned before a product and is turned back behind it."""
    for turn in all_nodes(graph, "Transpose"):
        product, order = producer(turn.inputs[0], "MatMul"), [*attribute(turn, "perm", ())]
        *batch, row, column = range(max(len(order), 2))
        if product is None or count_uses(product.outputs[0]) > 1 or order != [*batch, column, row]:
            continue
        turns = [
            each
            for value in reversed(product.inputs)
            if (each := producer(value, "Transpose")) and count_uses(value) == 1
        ]
        if len(turns) == 2:
            orders = [[order_of(each, len(order))[axis] for axis in order] for each in turns]
            read = [insert(turn, "Transpose", each.inputs, perm=x) for each, x in zip(turns, orders, strict=True)]
            stand_for(product.outputs[0], rewrite(turn, "MatMul", read))


def _as_output(node: Node, labels: str, tensor: ir.Value, output: str) -> ir.Value:
    """Returns a tensor with its axes in the order of the output, and one of size 1 for each that it has not."""
    missing = [axis for axis, label in enumerate(output) if label not in labels]
    turned = transposed(node, tensor, labels, [label for label in output if label in labels])
    return insert(node, "Unsqueeze", [turned, _constant(node, missing)]) if missing else turned


def transposed(place: Node, tensor: ir.Value, labels: Sequence[str], wanted: Sequence[str]) -> ir.Value:
    """Returns a tensor with its labelled axes in another order, made before a node."""
    order = [labels.index(label) for label in wanted]
    return tensor if order == sorted(order) else insert(place, "Transpose", [tensor], perm=order)


def _constant(place: Node, numbers: Sequence[int]) -> ir.Value:
    return sizes_constant(place.graph, numbers)


class _Contraction:
    """An Einsum that is one product of matrices: its operands, that whose labels come first in the output first."""

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
        """Returns the number of entries along these axes, infinite if it is not known."""
        return math.prod(self._known.get(label, math.inf) for label in labels)

    def write(self) -> ir.Value | None:
        """Writes the MatMul, unless several sizes that are not known would be merged into one axis.

        An Einsum without a batch stays, too, if all three tensors would be turned: a runtime does that itself.
        """
        node, rows, columns = self._node, self._rows, self._columns
        (first, left), (second, right) = self._operands
        shared = [label for label in self._output if label in left and label in right]
        inner = [label for label in left if label in right and label not in self._output]
        if shared and self._count(inner) > self._count(columns):
            rows.sort(key=left.index)  # the operand is larger than the result: that is turned
        batch = [[label] for label in shared]
        merged = [rows] if shared else [[label] for label in rows]  # without a batch the leading axes stay as they are
        groups = [*batch, *merged, inner], [*batch, inner, columns]
        if any(sum(len(each) > 1 and self._count(each) == math.inf for each in of_one) > 1 for of_one in groups):
            return None
        orders = [(labels, [*chain(*of_one)]) for (_, labels), of_one in zip(self._operands, groups, strict=True)]
        orders.append(("".join((*shared, *rows, *columns)), [*self._output]))
        if not shared and not any([*labels] == order for labels, order in orders):
            return None
        operator, factors = self._factors(first, second)
        read = [
            self._reshaped(transposed(node, factor, labels, [*chain(*of_one)]), of_one, is_merged=True)
            for factor, (_, labels), of_one in zip(factors, self._operands, groups, strict=True)
        ]
        product = self._reshaped(insert(node, operator, read), [*batch, *merged, columns], is_merged=False)
        turned = transposed(node, product, [*shared, *rows, *columns], self._output)
        return turned if operator == "MatMul" else insert(node, "Cast", [turned], to=node.outputs[0].dtype)

    def _factors(self, *factors: ir.Value) -> tuple[str, Sequence[ir.Value]]:
        """Returns the operator of a product, and what it takes: the integers of a quantized layer and of its weight.

        TensorFlow contracts them as floats. What is no weight stays floats: ONNX Runtime multiplies signed integers
        slowly.
        """
        casts = [producer(each, "Cast") for each in factors]
        integers = [cast.inputs[0] for cast in casts if cast is not None and cast.inputs[0].dtype == ir.DataType.INT8]
        return ("MatMulInteger", integers) if len(integers) == 2 and WEIGHT in integers[1].meta else ("MatMul", factors)

    def _reshaped(self, tensor: ir.Value, groups: Sequence[Sequence[str]], *, is_merged: bool) -> ir.Value:
        """Returns a tensor with one axis for each group instead of each label, or the other way round."""
        leading = next((i for i, group in enumerate(groups) if len(group) > 1), None)
        if leading is None:
            return tensor
        rest = groups[leading:]
        axes = rest if is_merged else [[label] for group in rest for label in group]
        return insert(self._node, "Reshape", [tensor, self._shape(leading, axes)])

    def _shape(self, leading: int, groups: Sequence[Sequence[str]]) -> ir.Value:
        """Writes the shape of a Reshape that keeps the leading axes, and then has one for each group."""
        unknown = [group for group in groups if self._count(group) == math.inf]
        found = max(unknown, key=len, default=None)  # by the Reshape itself
        parts = [-1 if each is found else None if each in unknown else int(self._count(each)) for each in groups]
        if None not in parts:
            return _constant(self._node, [0] * leading + [part for part in parts if part is not None])
        pieces = [_constant(self._node, [0] * leading)] if leading else []
        for part, group in zip(parts, groups, strict=True):
            pieces.append(self._asked(*group) if part is None else _constant(self._node, [part]))
        return insert(self._node, "Concat", pieces, axis=0)

    def _asked(self, label: str) -> ir.Value:
        tensor, axis = self._places[label]
        return insert(self._node, "Shape", [tensor], start=axis, end=axis + 1)
