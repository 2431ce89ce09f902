"""Attention as one operator, however a layer spells it: a product with the softmax of another product.

Scores may be multiplied by numbers, masks may be added or chosen, and the axes may stand in any order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.attention import MASKED
from keras_pe.export.onnx.finishing.contractions import Product, number_of, order_of, scaled, transposed
from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    attribute,
    constant,
    count_uses,
    insert,
    only_reader,
    producer,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.graph_edits import replace as replace_value
from keras_pe.export.onnx.finishing.rules import NoMatchError, Rule
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes, Size
from keras_pe.export.onnx.handlers import opsets

_FILL = -1e9  # what a layer gives scores that no query may see is no higher, or they would count


@dataclass(frozen=True)
class _Mask:
    """What is added to scores: a tensor or a number, times a factor.

    Attributes:
        added: What.
        factor: The number.
        conditions: If there are any, it is added where one of these tensors has the truth value beside it.
    """

    added: ir.Value | float
    factor: float = 1.0
    conditions: tuple[tuple[ir.Value, bool], ...] = ()

    def is_infinite(self, sizes: KnownSizes) -> bool:
        """Whether a row of it may be minus infinity, as far as that is known."""
        if isinstance(self.added, float):
            return self.added == -math.inf
        choice = producer(self.added, "Where")
        chosen = [self.added] if self.conditions or choice is None else choice.inputs[1:]
        return any(number_of(each, sizes) == -math.inf for each in chosen)

    def write(self, place: Node, sizes: KnownSizes) -> ir.Value:
        """Returns it as a tensor that is made before a node."""

        def number(value: float) -> ir.Value:
            assert place.graph is not None
            return constant(place.graph, np.float32(value))

        if isinstance(self.added, float):
            added = number(self.added * self.factor)
        else:
            added, factor = scaled(self.added, sizes) if self.factor != 1 else (self.added, 1.0)
            factor *= self.factor
            added = added if factor == 1 else insert(place, "Mul", [added, number(factor)])
        if not self.conditions:
            return added
        ((condition, is_true), *others) = self.conditions
        if others:
            parts = [x if is_it else insert(place, "Not", [x]) for x, is_it in self.conditions]
            condition, is_true = parts[0], True
            for part in parts[1:]:
                condition = insert(place, "Or", [condition, part])
        return insert(place, "Where", [condition, *((added, number(0)) if is_true else (number(0), added))])


@dataclass(frozen=True)
class _Weights:
    """What attention's weights are the softmax of: scores times a number, plus masks. `sees` is 0 for empty rows."""

    scores: Product
    scale: float = 1.0
    masks: tuple[_Mask, ...] = ()
    sees: ir.Value | None = None

    def times(self, number: float) -> "_Weights":
        masks = tuple(replace(mask, factor=mask.factor * number) for mask in self.masks)
        return replace(self, scale=self.scale * number, masks=masks)

    def plus(self, mask: _Mask) -> "_Weights":
        return replace(self, masks=(*self.masks, mask))


def _before_turns(labels: Sequence[str], tensor: ir.Value) -> tuple[list[str], ir.Value]:
    """Returns a tensor before it was transposed, and the labels of its axes."""
    labels = [*labels]
    while (turn := producer(tensor, "Transpose")) is not None:
        order = order_of(turn, len(labels))
        tensor, labels = turn.inputs[0], [labels[order.index(axis)] for axis in range(len(labels))]
    return labels, tensor


def _softmax_of(value: ir.Value, sizes: KnownSizes) -> tuple[Node | None, ir.Value | None]:
    """Returns the Softmax over the last axis that a value is, and what its rows are multiplied by."""
    for operands in permutations(product.inputs if (product := producer(value, "Mul")) else (), 2):
        shape, softmax = sizes.shape(operands[1]), producer(operands[0], "Softmax")
        if softmax is not None and shape and shape[-1] == 1:  # what is 0 for a row is so for its result
            return softmax, operands[1]
    softmax = producer(value, "Softmax")
    rank = len(sizes.shape(value) or ())
    is_last = softmax is not None and attribute(softmax, "axis", -1) in (-1, rank - 1)
    return (softmax if is_last else None), None


def _scores(value: ir.Value, sizes: KnownSizes) -> _Weights | None:
    """Returns what product a value is, times a number, plus masks."""
    if product := Product.of(value, sizes):
        return _Weights(product)
    source, factor = scaled(value, sizes)
    if source is not value:
        found = _scores(source, sizes)
        return found and found.times(factor)
    node = producer(value, "Add", "Sub")
    pairs = () if node is None else [node.inputs] if node.op_type == "Sub" else permutations(node.inputs, 2)
    for first, second in pairs:
        if sizes.shape(second) is not None and (found := _scores(first, sizes)):
            return found.plus(_Mask(second, -1.0 if node and node.op_type == "Sub" else 1.0))
    return None


def _filled(value: ir.Value, sizes: KnownSizes) -> _Weights | None:
    """Returns what choices are made of between scores and less: one number, or once the scores and a number."""
    conditions, fills = list[tuple[ir.Value, bool]](), set[float]()
    while (choice := producer(value, "Where")) is not None and sizes.shape(choice.inputs[0]) is not None:
        condition, *chosen = choice.inputs
        numbers = [number_of(each, sizes) for each in chosen]
        is_less = numbers[0] is not None  # where the condition holds
        fill = numbers[0] if is_less else numbers[1]
        if fill is None:
            return None if conditions else _shifted(condition, chosen, sizes)
        conditions.append((condition, is_less))
        fills.add(fill)
        value = chosen[is_less]
    found = _scores(value, sizes) if len(fills) == 1 and max(fills) <= _FILL else None
    return found and found.plus(_Mask(MASKED if min(fills) > -math.inf else -math.inf, 1.0, tuple(conditions)))


def _shifted(condition: ir.Value, chosen: Sequence[ir.Value], sizes: KnownSizes) -> _Weights | None:
    """Returns what a choice is made of between scores, and the same plus something."""
    for (scores, shifted), is_shifted in ((chosen, False), (chosen[::-1], True)):
        found, other = _scores(scores, sizes), _scores(shifted, sizes)
        if found and other and len(other.masks) == 1 and not found.masks and _are_alike(found, other):
            return found.plus(replace(other.masks[0], conditions=((condition, is_shifted),)))
    return None


def _are_alike(first: _Weights, second: _Weights) -> bool:
    return first.scores == second.scores and first.scale == second.scale


@dataclass(frozen=True)
class _Axes:
    """Queries, keys and values, whose heads may stand in several axes: the first are of keys and values as well.

    Attributes:
        operands: Of each of the three the tensor, the labels of its axes, and these in the order
            `(batch, length, *heads, channels)`.
        order: Where each axis of the result stands among those of the queries.
    """

    operands: Sequence[tuple[ir.Value, Sequence[str], Sequence[str]]]
    order: tuple[int, ...]

    @classmethod
    def of(cls, scores: Product, weights: Sequence[str], values: tuple[str, ir.Value], output: str) -> "_Axes | None":
        """Returns those of a product of weights and values; None if their axes mean otherwise.

        Args:
            scores: The product that the weights were made of.
            weights: The labels of the weights in the second product.
            values: The other factor.
            output: The labels of the result.
        """
        names = dict(zip(weights, scores.output, strict=True))
        held, result = ([names.get(label, "channels") for label in labels] for labels in (values[0], output))
        if len(scores.output) < 3:
            return None
        batch, *heads, length, size = [*scores.output]
        for (queries, query), (keys, key) in permutations((scores.left, scores.right)):
            summed = {*queries} & {*keys} - {*scores.output}
            shared = [label for label in heads if label in keys]
            if len(summed) != 1 or heads[: len(shared)] != shared:
                continue
            of_queries, of_result = ([batch, length, *heads, each] for each in (*summed, "channels"))
            of_keys, of_values = ([batch, size, *shared, each] for each in (*summed, "channels"))
            operands = (query, queries, of_queries), (key, keys, of_keys), (values[1], held, of_values)
            pairs = *(each[1:] for each in operands), (result, of_result)
            if all(sorted(labels) == sorted(wanted) for labels, wanted in pairs):
                return cls(operands, tuple(map(of_result.index, result)))
        return None

    def shapes(self, sizes: KnownSizes) -> list[list[Size]]:
        """Returns the sizes of each of the three, in the order `(batch, length, *heads, channels)`."""
        shapes = [(sizes.shape(tensor) or (), labels, wanted) for tensor, labels, wanted in self.operands]
        return [[shape[labels.index(label)] for label in wanted] for shape, labels, wanted in shapes]


@dataclass(frozen=True)
class _Attention:
    axes: _Axes
    weights: _Weights


def _match(opset: int, node: Node, sizes: KnownSizes) -> _Attention | None:
    """Returns the attention that a product of weights and values is."""
    product = Product.of(node.outputs[0], sizes)
    if product is None:
        return None
    for factor, values in permutations((product.left, product.right)):
        labels, tensor = _before_turns(*factor)
        softmax, sees = _softmax_of(tensor, sizes)
        if softmax is None:
            continue
        source = softmax.inputs[0]
        weights = _filled(source, sizes) or _scores(source, sizes)
        axes = _Axes.of(weights.scores, labels, values, product.output) if weights else None
        if axes is not None and any(count_uses(each.outputs[0]) > 1 for each in (softmax, producer(tensor)) if each):
            raise NoMatchError("its scores are returned")
        first, last = opsets.WITH_ATTENTION[0], opsets.WITH_ATTENTION[-1]
        if opset not in opsets.WITH_ATTENTION:
            if axes is None:
                return None
            raise NoMatchError(f"it is written at the operator sets {first} to {last}, not at {opset}")
        if weights is None or axes is None:
            raise NoMatchError(
                "its scores are no product of queries and keys, times a number, plus masks, or its axes mean otherwise"
            )
        found = _Attention(axes, replace(weights, sees=sees))
        if reason := _obstacle(found, softmax, sizes):
            raise NoMatchError(reason)
        return found
    return None


def _obstacle(found: _Attention, softmax: Node, sizes: KnownSizes) -> str | None:
    """Returns why the operator cannot compute an attention."""
    weights, shapes = found.weights, found.axes.shapes(sizes)
    types = {tensor.dtype for tensor, *_ in found.axes.operands}
    if types != {ir.DataType.FLOAT}:
        return f"it computes in {next(each.name.lower() for each in types if each and each != ir.DataType.FLOAT)}"
    if any(mask.is_infinite(sizes) for mask in weights.masks):
        return "its mask is minus infinity: who may see nothing takes NaN, for which runtimes return zeros"
    batches = {_number(shape[0]) for shape in shapes}
    if len(batches) > 1 or not all(isinstance(size, int) for shape in shapes for size in shape[2:]):
        return "its heads or their channels are not known, or its batches differ"
    heads = math.prod(shapes[0][2:-1])
    values = [value for mask in weights.masks for value in (mask.added, *(x for x, _ in mask.conditions))]
    for value in (*values, weights.sees):
        if isinstance(value, ir.Value):
            shape = _of_heads(sizes.shape(value) or (), len(shapes[0]))
            if len(shape) != 4 or _number(shape[0]) not in (1, *batches) or shape[1] not in (1, heads):
                return "its mask or bias has other axes"
    return "its scale is not above zero, which runtimes refuse" if weights.scale <= 0 else None


def _number(size: Size) -> int | None:
    return size if isinstance(size, int) else None


def _of_heads(shape: Sequence[Size], rank: int) -> Sequence[Size]:
    """Returns the shape of what is added to scores of so many axes with one axis of heads, if several are shared."""
    full = (*[1] * (rank - len(shape)), *shape)
    return (full[0], 1, *full[-2:]) if set(full[1:-2]) <= {1} else full


def _replace(node: Node, found: _Attention, sizes: KnownSizes) -> None:
    """Writes the operator, of heads that lie side by side: as a projection returns them, so that none is moved."""
    shapes, weights, graph = found.axes.shapes(sizes), found.weights, node.graph
    assert graph is not None
    scale, tensors = weights.scale, list[ir.Value]()
    for index, operand in enumerate(found.axes.operands):
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
        result = _where_seen(node, result, weights.sees, [0, 0, heads[0], channels], len(query), sizes)
    result = insert(node, "Reshape", [result, sizes_constant(graph, [0, 0, *query[2:-1], channels])])
    old, order = node.outputs[0], [*found.axes.order]
    if (turn := only_reader(old, "Transpose")) is not None:
        stand_for(old, result)
        old, order = turn.outputs[0], [order[axis] for axis in order_of(turn, len(order))]
    if order != sorted(order):
        result = insert(node, "Transpose", [result], perm=order)
    result.type = old.type
    replace_value(old, result)


def _where_seen(
    node: Node, result: ir.Value, sees: ir.Value, with_heads: Sequence[Size], rank: int, sizes: KnownSizes
) -> ir.Value:
    """Returns the result of attention, `(batch, length, heads * channels)`, with zeros in rows that may see nothing."""
    graph, shape = node.graph, sizes.shape(sees) or ()
    assert graph is not None
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
    """Returns queries, keys or values as `(batch, length, heads * channels)`, before they were turned, split into heads
    and multiplied by a number; and the number."""
    factor = 1.0
    while True:
        tensor, number = scaled(tensor, sizes)
        factor *= number
        if producer(tensor, "Transpose") is None:
            break
        labels, tensor = _before_turns(labels, tensor)
    tensor = transposed(node, tensor, labels, wanted)
    shape = sizes.shape(tensor) or ()
    width = math.prod(size for size in shape[2:] if isinstance(size, int))
    while (split := producer(tensor, "Reshape", "Mul")) is not None:
        source, number = scaled(tensor, sizes) if split.op_type == "Mul" else (split.inputs[0], 1.0)
        before = sizes.shape(source) or ()
        if source is tensor or before[:2] != shape[:2] or math.prod(_ints(before[2:])) != width:
            break
        tensor, factor = source, factor * number
    if len(sizes.shape(tensor) or ()) == 3:
        return tensor, factor
    assert node.graph is not None
    return insert(node, "Reshape", [tensor, sizes_constant(node.graph, [0, 0, width])]), factor


def _ints(sizes: Sequence[Size]) -> list[int]:
    return [size if isinstance(size, int) else 0 for size in sizes]


def _as_scores(node: Node, tensor: ir.Value, rank: int, sizes: KnownSizes) -> ir.Value:
    """Returns what is added to the scores, or known of their rows, with one axis of heads."""
    graph, own = node.graph, len(sizes.shape(tensor) or ())
    assert graph is not None
    if own == 3:
        return insert(node, "Unsqueeze", [tensor, sizes_constant(graph, [1 if rank == 3 else 0])])
    return insert(node, "Squeeze", [tensor, sizes_constant(graph, range(2, own - 2))]) if own > 4 else tensor


def _broadcast(
    node: Node, mask: ir.Value, tensors: Sequence[ir.Value], rows: Size, columns: Size, sizes: KnownSizes
) -> ir.Value:
    """Returns a mask of as many rows and columns as the scores: ONNX Runtime takes no fewer."""
    if (sizes.shape(mask) or ())[-2:] == (rows, columns):
        return mask
    graph = node.graph
    assert graph is not None
    asked = [insert(node, "Shape", [tensor], start=1, end=2) for tensor in tensors[:2]]
    return insert(node, "Expand", [mask, insert(node, "Concat", [sizes_constant(graph, [1, 1]), *asked], axis=0)])


def rule(opset: int) -> Rule:
    """Returns the rule for a file of an operator set."""
    return Rule("Attention", ("Einsum", "MatMul"), partial(_match, opset), _replace)
