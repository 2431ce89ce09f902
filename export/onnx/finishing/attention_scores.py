"""The scores of attention: a product of queries and keys, times numbers, with masks that are added or chosen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.attention_masks import MASKED
from keras_pe.export.onnx.finishing.graph_edits import Node, attribute, constant, insert, producer
from keras_pe.export.onnx.finishing.products import Product, number_of, split_scale
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_MOST_MASKS = 6  # each sum of a chain has two operands and either may be the mask, so the search doubles with each sum
_FILL = -1e9  # larger numbers do not mask: the softmax would count these scores


@dataclass(frozen=True)
class Mask:
    """A summand of scores: a tensor or a number, times a factor.

    Attributes:
        added: The tensor or the number.
        factor: The factor.
        conditions: Boolean tensors, each with a truth value. The mask applies where a tensor has its truth value; it
            applies everywhere without conditions.
    """

    added: ir.Value | float
    factor: float = 1.0
    conditions: tuple[tuple[ir.Value, bool], ...] = ()

    def is_infinite(self, sizes: KnownSizes) -> bool:
        """Whether a row may be minus infinity. Computed masks count as finite."""
        if isinstance(self.added, float):
            return self.added == -math.inf
        choice = producer(self.added, "Where")
        chosen = [self.added] if self.conditions or choice is None else choice.inputs[1:]
        return any(number_of(each, sizes) == -math.inf for each in chosen)

    def write(self, place: Node, sizes: KnownSizes) -> ir.Value:
        """Writes the mask as a tensor before a node."""

        def number(value: float) -> ir.Value:
            return constant(place.graph, np.float32(value))

        if isinstance(self.added, float):
            added = number(self.added * self.factor)
        else:
            added, factor = split_scale(self.added, sizes) if self.factor != 1 else (self.added, 1.0)
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
class Weights:
    """The weights of attention before the softmax: scores times a number, plus masks.

    Attributes:
        scores: The product of queries and keys.
        scale: The number.
        masks: The masks.
        sees: A tensor that is 0 for fully masked rows, which the softmax is multiplied by; None without such a tensor.
    """

    scores: Product
    scale: float = 1.0
    masks: tuple[Mask, ...] = ()
    sees: ir.Value | None = None

    def times(self, number: float) -> "Weights":
        masks = tuple(replace(mask, factor=mask.factor * number) for mask in self.masks)
        return replace(self, scale=self.scale * number, masks=masks)

    def plus(self, mask: Mask) -> "Weights":
        return replace(self, masks=(*self.masks, mask))


def softmax_of(value: ir.Value, sizes: KnownSizes) -> tuple[Node | None, ir.Value | None]:
    """Returns the Softmax over the last axis that computes a value, and the tensor that scales its rows, if any."""
    sees = None
    for weights, factor in permutations(product.inputs if (product := producer(value, "Mul")) else (), 2):
        shape = sizes.shape(factor) or ()
        if producer(weights, "Softmax") is not None and len(shape) > 1 and shape[-1] == 1:
            value, sees = weights, factor  # a row of zeros has a result of zeros
            break
    softmax, rank = producer(value, "Softmax"), len(sizes.shape(value) or ())
    is_last = softmax is not None and attribute(softmax, "axis", -1) in (-1, rank - 1)
    return (softmax, sees) if is_last else (None, None)


def _scores(value: ir.Value, sizes: KnownSizes, masks: int = _MOST_MASKS) -> Weights | None:
    """Returns the product, the factor and at most this many masks that a value is computed from; None for others."""
    if product := Product.of(value, sizes):
        return Weights(product)
    source, factor = split_scale(value, sizes)
    if source is not value:
        found = _scores(source, sizes, masks)
        return found and found.times(factor)
    node = producer(value, "Add", "Sub")
    pairs = (
        () if node is None or not masks else [node.inputs] if node.op_type == "Sub" else permutations(node.inputs, 2)
    )
    for first, second in pairs:
        if sizes.shape(second) is not None and (found := _scores(first, sizes, masks - 1)):
            return found.plus(Mask(second, -1.0 if node and node.op_type == "Sub" else 1.0))
    return None


def _scores_with_fill(value: ir.Value, sizes: KnownSizes) -> Weights | None:
    """Returns the scores of a value in which Where operators replace scores by one number, or by shifted scores."""
    conditions, fills = list[tuple[ir.Value, bool]](), set[float]()
    while (choice := producer(value, "Where")) is not None and sizes.shape(choice.inputs[0]) is not None:
        condition, *chosen = choice.inputs
        numbers = [number_of(each, sizes) for each in chosen]
        is_less = numbers[0] is not None  # the number stands where the condition is true
        fill = numbers[0] if is_less else numbers[1]
        if fill is None:
            return None if conditions else _scores_with_shift(condition, chosen, sizes)
        conditions.append((condition, is_less))
        fills.add(fill)
        value = chosen[is_less]
    found = _scores(value, sizes) if len(fills) == 1 and max(fills) <= _FILL else None
    return found and found.plus(Mask(MASKED if min(fills) > -math.inf else -math.inf, 1.0, tuple(conditions)))


def _scores_with_shift(condition: ir.Value, chosen: Sequence[ir.Value], sizes: KnownSizes) -> Weights | None:
    """Returns the scores of a Where between scores and the same scores plus a mask."""
    for (scores, shifted), is_shifted in ((chosen, False), (chosen[::-1], True)):
        found, other = _scores(scores, sizes), _scores(shifted, sizes)
        if found and other and len(other.masks) == 1 and not found.masks and _are_alike(found, other):
            return found.plus(replace(other.masks[0], conditions=((condition, is_shifted),)))
    return None


def _are_alike(first: Weights, second: Weights) -> bool:
    return first.scores == second.scores and first.scale == second.scale


def weights_of(softmax: Node, sizes: KnownSizes) -> Weights | None:
    """Returns the weights before a Softmax; None if they are not a product of queries and keys with masks."""
    return _scores_with_fill(softmax.inputs[0], sizes) or _scores(softmax.inputs[0], sizes)
