"""Attention that a layer spells out by products and a softmax, as keras-hub's do, known by its last product."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import permutations
from typing import Any

from keras_pe.export.onnx.attention import MASKED, OPERATOR, call_attention, obstacle_of_scale, obstacle_of_set
from keras_pe.export.onnx.operator_calls import Unfused, differentiable
from keras_pe.export.onnx.traced_products import (
    Product,
    contraction,
    key_of,
    number_of,
    operands_of,
    product_of_matrices,
    scaled,
    turned,
    without_shuffle,
)

_OTHER_SCORES = "its scores are no product of queries and keys, times a number, plus masks, or its axes mean otherwise"
_FILL = -1e9  # what a layer gives scores that no query may see is no higher, or they would count


@dataclass(frozen=True)
class _Mask:
    """What is added to scores: a tensor or number, times a factor.

    Attributes:
        added: What.
        factor: The number.
        conditions: If there are any, it is added where one of these tensors has the truth value beside it.
    """

    added: Any
    factor: float = 1.0
    conditions: tuple[tuple[Any, bool], ...] = ()

    def times(self, number: float) -> "_Mask":
        return replace(self, factor=self.factor * number)

    def is_infinite(self) -> bool:
        """Whether a row of it may be minus infinity, as far as that is known."""
        chosen = [self.added] if self.conditions else operands_of(self.added, "SelectV2")[1:]
        return any(number_of(each) == -math.inf for each in chosen)

    def tensor(self) -> Any:
        import tensorflow as tf

        added = self.added if self.factor == 1 else self.added * self.factor
        if not self.conditions:
            return added
        ((first, is_true), *others) = self.conditions
        if not others:
            return tf.where(first, *((added, 0.0) if is_true else (0.0, added)))
        conditions = [each if is_true else tf.logical_not(each) for each, is_true in self.conditions]
        return tf.where(reduce(tf.logical_or, conditions), added, 0.0)


@dataclass(frozen=True)
class _Weights:
    """What attention's weights are the softmax of: scores times a number, plus masks. `sees` is 0 for empty rows."""

    scores: Product
    scale: float = 1.0
    masks: tuple[_Mask, ...] = ()
    sees: Any = None

    def times(self, number: float) -> "_Weights":
        return replace(self, scale=self.scale * number, masks=tuple(mask.times(number) for mask in self.masks))

    def plus(self, mask: _Mask) -> "_Weights":
        return replace(self, masks=(*self.masks, mask))


class SpelledAttention:
    """The products of a model that is traced: that of weights and values is looked up from the last of them."""

    def __init__(self, opset: int, unfused: Unfused) -> None:
        self._opset = opset
        self._unfused = unfused
        self._products: dict[Any, Product] = {}  # by graph and name of the result
        self._is_kept = False

    @contextlib.contextmanager
    def kept(self, reason: str) -> Iterator[None]:
        """Leaves attention as it is spelled out, for a reason that is noted."""
        self._unfused.note(OPERATOR, reason)
        before, self._is_kept = self._is_kept, True
        try:
            yield
        finally:
            self._is_kept = before

    def einsum(self, usual: Callable[..., Any], subscripts: str, *operands: Any, **options: Any) -> Any:
        """Returns what `keras.ops.einsum` does, and notes what it was computed from."""
        product = None if options or self._is_kept else contraction(subscripts, operands)
        if product is None:
            return usual(subscripts, *operands, **options)
        product = without_shuffle(product)
        return self._result(product, lambda: usual(subscripts, product.left[1], product.right[1]))

    def matmul(self, usual: Callable[..., Any], x: Any, y: Any, adj_x: bool, adj_y: bool) -> Any:
        """Returns the product of matrices in a batch, and notes what it was computed from."""
        product = None if self._is_kept else product_of_matrices(x, y, adj_x, adj_y)
        return usual(x, y) if product is None else self._result(product, lambda: usual(x, y))

    def _result(self, product: Product, usual: Callable[[], Any]) -> Any:
        result = self._attention(product)
        if result is None:
            result = usual()
            self._products[key_of(result)] = product
        return result

    def _attention(self, product: Product) -> Any:
        """Returns the product of attention's weights and its values, by the operator; None where it is none."""
        for (labels, tensor), values in permutations((product.left, product.right)):
            weights = self._weights(tensor)
            axes = weights and _Axes.of(weights.scores, labels, values, product.output)
            if weights and axes:
                return self._call(axes, weights)
            if tensor.op.type == "Softmax" and not obstacle_of_set(self._opset):
                self._unfused.note(OPERATOR, _OTHER_SCORES)
        return None

    def _call(self, axes: "_Axes", weights: _Weights) -> Any:
        import tensorflow as tf

        reason = obstacle_of_set(self._opset)
        if not reason and any(mask.is_infinite() for mask in weights.masks):
            reason = "its mask is minus infinity: who may see nothing takes NaN, for which runtimes return zeros"
        if not reason and not axes.have_sizes():
            reason = "its heads or their channels are not known, or its batches differ"
        if reason:
            self._unfused.note(OPERATOR, reason)
            return None
        tensors, factor = axes.tensors()
        added = [axes.of_scores(mask.tensor()) for mask in weights.masks]
        sees = [] if weights.sees is None else [axes.of_scores(weights.sees)]
        batch, _, heads, _ = tensors[0].shape
        shapes = [each.shape for each in (*added, *sees)]
        if any(len(shape) != 4 or shape[0] not in (1, batch) or shape[1] not in (1, heads) for shape in shapes):
            self._unfused.note(OPERATOR, "its mask or bias has other axes")
            return None
        scale = factor * weights.scale
        if reason := obstacle_of_scale(scale):
            self._unfused.note(OPERATOR, reason)
            return None

        def usually(query: Any, key: Any, value: Any, *added: Any) -> Any:
            key, value = (tf.repeat(each, query.shape[2] // each.shape[2], axis=2) for each in (key, value))
            scores = tf.einsum("btnh,bsnh->bnts", query, key) * scale
            return tf.einsum("bnts,bsnh->btnh", tf.nn.softmax(sum(added, scores)), value)

        total = [sum(added[1:], added[0])] if added else []
        result = differentiable(partial(call_attention, scale), usually, *tensors, *total)
        for rows in sees:
            result *= tf.transpose(rows, [0, 2, 1, 3])
        return axes.as_output(result)

    def _weights(self, tensor: Any) -> _Weights | None:
        """Returns what a tensor is the softmax of, if its scores are a product that was noted."""
        sees = None
        for first, second in permutations(operands_of(tensor, "Mul"), 2):
            if first.op.type == "Softmax" and second.shape[-1:] == (1,):  # what is 0 for a row is so for its result
                tensor, sees = first, second
        for scores in operands_of(tensor, "Softmax"):
            found = self._filled(scores) or self._scores(scores)
            return found and replace(found, sees=sees)
        return None

    def _scores(self, tensor: Any) -> _Weights | None:
        """Returns what a tensor is a product that was noted times a number, plus what."""
        if product := self._products.get(key_of(tensor)):
            return _Weights(product)
        source, factor = scaled(tensor)
        if source is not tensor:
            found = self._scores(source)
            return found and found.times(factor)
        is_difference = tensor.op.type == "Sub"
        for first, second in (
            [operands_of(tensor, "Sub")] if is_difference else permutations(operands_of(tensor, "AddV2"), 2)
        ):
            if second.shape.rank is not None and (found := self._scores(first)):
                return found.plus(_Mask(second, -1.0 if is_difference else 1.0))
        return None

    def _filled(self, tensor: Any) -> _Weights | None:
        """Returns what choices are made of between scores and less: one number, or once the scores and a number."""
        conditions: list[tuple[Any, bool]] = []
        fills: set[float] = set()
        while tensor.op.type == "SelectV2" and tensor.op.inputs[0].shape.rank is not None:
            condition, *chosen = tensor.op.inputs
            numbers = [number_of(each) for each in chosen]
            is_less = numbers[0] is not None  # where the condition holds
            fill = numbers[0] if is_less else numbers[1]
            if fill is None:
                return None if conditions else self._shifted(condition, *chosen)
            conditions.append((condition, is_less))
            fills.add(fill)
            tensor = chosen[is_less]
        found = self._scores(tensor) if len(fills) == 1 and max(fills) <= _FILL else None
        return found and found.plus(_Mask(MASKED if min(fills) > -math.inf else -math.inf, 1.0, tuple(conditions)))

    def _shifted(self, condition: Any, first: Any, second: Any) -> _Weights | None:
        """Returns what a choice is made of between scores, and the same plus something."""
        for scores, shifted, is_shifted in ((first, second, False), (second, first, True)):
            found, other = self._scores(scores), self._scores(shifted)
            if found and other and replace(other, masks=()) == found and len(other.masks) == 1:
                return found.plus(replace(other.masks[0], conditions=((condition, is_shifted),)))
        return None


@dataclass(frozen=True)
class _Axes:
    """Queries, keys and values, whose heads may stand in several axes: the first are of keys and values as well.

    Attributes:
        operands: Of each of the three the tensor, the labels of its axes, and these in the order
            `(batch, length, *heads, channels)`.
        order: Where each axis of the result stands among those of the queries.
    """

    operands: Sequence[tuple[Any, Sequence[str], Sequence[str]]]
    order: tuple[int, ...]

    @classmethod
    def of(cls, scores: Product, weights: str, values: tuple[str, Any], output: str) -> "_Axes | None":
        """Returns those of a product of weights and values; None where their axes mean otherwise.

        Args:
            scores: The product that the weights were made of.
            weights: The labels of the weights in the second product.
            values: The other factor.
            output: The labels of the result.
        """
        names = dict(zip(weights, scores.output, strict=True))
        held, result = ([names.get(label, "channels") for label in labels] for labels in (values[0], output))
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

    def have_sizes(self) -> bool:
        """Whether all have the same batch, and the sizes of heads are known: the operator broadcasts nothing."""
        shapes = self._shapes()
        return len({shape[0] for shape in shapes}) == 1 and all(None not in shape[2:] for shape in shapes)

    def tensors(self) -> tuple[list[Any], float]:
        """Returns queries, keys and values with one axis of heads each, and what the scores are multiplied by."""
        (query, by_query), (key, by_key), (value, by_value) = (turned(*each) for each in self.operands)
        query, by_heads = scaled(_with_one_axis(query))
        value = value if by_value == 1 else value * by_value
        return [query, _with_one_axis(key), _with_one_axis(value)], by_query * by_key * by_heads

    def as_output(self, result: Any) -> Any:
        """Returns a result of one axis of heads with as many as the queries have."""
        import tensorflow as tf

        heads = self._shapes()[0][2:-1]
        result = result if len(heads) == 1 else _of_shape(result, [*heads, result.shape[-1]])
        return result if self.order == (*range(len(self.order)),) else tf.transpose(result, self.order)

    def of_scores(self, tensor: Any) -> Any:
        """Returns what is added to the scores, or known of their rows, with one axis of heads."""
        import tensorflow as tf

        for _ in range(len(self.order) - len(tensor.shape)):
            tensor = tensor[None]
        if len(tensor.shape) == 3:
            return tensor[:, None]
        groups = [*range(2, len(tensor.shape) - 2)]
        is_shared = all(tensor.shape[axis] == 1 for axis in (1, *groups))
        return tf.squeeze(tensor, groups) if groups and is_shared else tensor

    def _shapes(self) -> list[list[int | None]]:
        return [[tensor.shape[labels.index(each)] for each in wanted] for tensor, labels, wanted in self.operands]


def _with_one_axis(tensor: Any) -> Any:
    """Returns queries, keys or values with one axis of heads: as they were before they got several, if they were so."""
    sizes = [math.prod(tensor.shape[2:-1]), tensor.shape[-1]]
    for source in operands_of(tensor, "Reshape")[:1]:
        if [*source.shape[2:]] == sizes:
            return source
    return tensor if len(tensor.shape) == 4 else _of_shape(tensor, sizes)


def _of_shape(tensor: Any, sizes: Sequence[int | None]) -> Any:
    """Returns a tensor with other axes after the batch and the length."""
    import tensorflow as tf

    shape = tf.shape(tensor)
    return tf.reshape(tensor, [shape[0], shape[1], *sizes])
