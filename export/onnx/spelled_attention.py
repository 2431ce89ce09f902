"""Attention that a layer spells out by `einsum` and `softmax`, as keras-hub's do, known by its last product."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from keras_pe.export.onnx.attention import OPERATOR, call_attention, obstacle_to_attention
from keras_pe.export.onnx.operator_calls import Unfused, differentiable


@dataclass(frozen=True)
class _Product:
    """A contraction of two tensors, each with a label for each of its axes, and the labels of the result."""

    left: tuple[str, Any]
    right: tuple[str, Any]
    output: str


@dataclass(frozen=True)
class _Weights:
    """What attention's weights are the softmax of: scores times a number, plus a mask. `sees` is 0 for empty rows."""

    scores: _Product
    scale: float
    added: Any
    sees: Any


class SpelledAttention:
    """What `einsum` returned while a model is traced: the product of weights and values is looked up from there."""

    def __init__(self, opset: int, unfused: Unfused) -> None:
        self._opset = opset
        self._unfused = unfused
        self._products: dict[Any, _Product] = {}  # by graph and name of the result
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
        product = None if options or self._is_kept else _product(subscripts, operands)
        if product is None:
            return usual(subscripts, *operands, **options)
        product = _in_one_order(product)
        result = self._attention(usual, product)
        if result is None:
            result = usual(subscripts, product.left[1], product.right[1])
            self._products[_key(result)] = product
        return result

    def _attention(self, usual: Callable[..., Any], product: _Product) -> Any:
        """Returns the product of attention's weights and its values, by the operator; None where it is none."""
        for (labels, tensor), values in permutations((product.left, product.right)):
            weights = self._weights(tensor)
            axes = weights and _Axes.of(weights.scores, labels, values, product.output)
            if weights and axes:
                return self._call(usual, axes, weights)
        return None

    def _call(self, usual: Callable[..., Any], axes: "_Axes", weights: _Weights) -> Any:
        import tensorflow as tf

        tensors = axes.tensors()
        tensors[0], factor = _scaled(tensors[0])
        scale = factor * weights.scale
        added, sees = ([] if each is None else [axes.of_scores(each)] for each in (weights.added, weights.sees))
        reason = obstacle_to_attention(self._opset, tensors, [*added, *sees], scale, {})
        if reason:
            self._unfused.note(OPERATOR, reason)
            return None

        def usually(query: Any, key: Any, value: Any, *added: Any) -> Any:
            key, value = (tf.repeat(each, query.shape[2] // each.shape[2], axis=2) for each in (key, value))
            scores = usual("btnh,bsnh->bnts", query, key) * scale
            return usual("bnts,bsnh->btnh", tf.nn.softmax(sum(added, scores)), value)

        result = differentiable(partial(call_attention, scale), usually, *tensors, *added)
        for rows in sees:
            result *= tf.transpose(rows, [0, 2, 1, 3])
        return axes.as_output(result)

    def _weights(self, tensor: Any) -> _Weights | None:
        """Returns what a tensor is the softmax of, if its scores are a product that was noted."""
        sees = None
        for first, second in permutations(_operands(tensor, "Mul"), 2):
            if first.op.type == "Softmax" and second.shape[-1:] == (1,):  # what is 0 for a row is so for its result
                tensor, sees = first, second
        for scores in _operands(tensor, "Softmax"):
            sums = [*permutations(_operands(scores, "AddV2"), 2), (scores, None)]
            for product, added in sums:
                scaled, scale = _scaled(product)
                if _key(scaled) in self._products and (added is None or added.shape.rank is not None):
                    return _Weights(self._products[_key(scaled)], scale, added, sees)
        return None


@dataclass(frozen=True)
class _Axes:
    """Queries, keys and values whose heads may stand in several axes: the first are of keys and values as well."""

    query: Any
    key: Any
    value: Any

    @classmethod
    def of(cls, scores: _Product, weights: str, values: tuple[str, Any], output: str) -> "_Axes | None":
        """Returns those of a product of weights and values; None where their axes mean or lie otherwise.

        Args:
            scores: The product that the weights were made of.
            weights: The labels of the weights in the second product.
            values: The other factor.
            output: The labels of the result.
        """
        names = dict(zip(weights, scores.output, strict=True))
        held, result = ([names.get(label, "channels") for label in labels] for labels in (values[0], output))
        for (queries, query), (keys, key) in permutations((scores.left, scores.right)):
            axes = cls(query, key, values[1])
            if len(queries) < 4 or not axes.have_sizes():
                continue
            (batch, length, *heads, channels), shared, size = [*queries], [*keys[2:-1]], scores.output[-1]
            found = [*scores.output], [*keys], held, result, heads[: len(shared)]
            of_keys, of_values = ([batch, size, *shared, each] for each in (channels, "channels"))
            wanted = [batch, *heads, length, size], of_keys, of_values, [batch, length, *heads, "channels"], shared
            if found == wanted:
                return axes
        return None

    def have_sizes(self) -> bool:
        """Whether all have the same batch, and the sizes of heads are known: the operator broadcasts nothing."""
        tensors = (self.query, self.key, self.value)
        return len({tensor.shape[0] for tensor in tensors}) == 1 and all(None not in each.shape[2:] for each in tensors)

    def tensors(self) -> list[Any]:
        """Returns queries, keys and values with one axis of heads each."""
        return [self._with_one_axis(tensor) for tensor in (self.query, self.key, self.value)]

    def as_output(self, result: Any) -> Any:
        """Returns a result of one axis of heads with as many as the queries have."""
        heads = self.query.shape[2:-1]
        return result if len(heads) == 1 else _of_shape(result, [*heads, result.shape[-1]])

    def of_scores(self, tensor: Any) -> Any:
        """Returns what is added to the scores, or known of their rows, with one axis of heads."""
        import tensorflow as tf

        for _ in range(len(self.query.shape) - len(tensor.shape)):
            tensor = tensor[None]
        groups = [*range(2, len(tensor.shape) - 2)]
        is_shared = all(tensor.shape[axis] == 1 for axis in (1, *groups))
        return tf.squeeze(tensor, groups) if groups and is_shared else tensor

    def _with_one_axis(self, tensor: Any) -> Any:
        sizes = [math.prod(tensor.shape[2:-1]), tensor.shape[-1]]
        for source in _operands(tensor, "Reshape")[:1]:
            if [*source.shape[2:]] == sizes:
                return source
        return tensor if len(tensor.shape) == 4 else _of_shape(tensor, sizes)


def _of_shape(tensor: Any, sizes: Sequence[int]) -> Any:
    """Returns a tensor with other axes after the batch and the length."""
    import tensorflow as tf

    shape = tf.shape(tensor)
    return tf.reshape(tensor, [shape[0], shape[1], *sizes])


def _product(subscripts: str, operands: Sequence[Any]) -> _Product | None:
    """Returns a contraction of two tensors of the graph that is traced; None of any other."""
    import tensorflow as tf

    sides, _, output = subscripts.replace(" ", "").partition("->")
    terms = sides.split(",")
    if len(operands) != 2 or len(terms) != 2 or not output or "." in subscripts:
        return None
    if not all(tf.is_tensor(each) and tf.is_symbolic_tensor(each) and each.dtype == "float32" for each in operands):
        return None
    if any(each.shape.rank != len(term) for each, term in zip(operands, terms, strict=True)):
        return None
    return _Product((terms[0], operands[0]), (terms[1], operands[1]), output)


def _in_one_order(product: _Product) -> _Product:
    """Leaves out a shuffle that both factors have of the channels over which they are summed."""
    (left, first), (right, second) = product.left, product.right
    if left[-1] != right[-1] or left[-1] in product.output:
        return product
    before, other = _before_shuffle(first), _before_shuffle(second)
    if before is None or other is None or before[1] != other[1]:
        return product
    return _Product((left, before[0]), (right, other[0]), product.output)


def _before_shuffle(tensor: Any) -> tuple[Any, int] | None:
    """Returns a tensor without the last shuffle of its channels, which laid so many parts of them side by side."""
    import tensorflow as tf

    for first, second in permutations(_operands(tensor, "Mul"), 2):
        found = _before_shuffle(first) if _number(second) is not None else None
        if found is not None:
            return found[0] * second, found[1]
    if tensor.op.type == "Reshape":
        source, shape = tensor.op.inputs
        found = _before_stack(source) if source.op.type == "Pack" else _before_shuffle(source)
        if found is not None and found[0].shape[-1] == tensor.shape[-1]:
            return tf.reshape(found[0], shape), found[1]
    return None


def _before_stack(stacked: Any) -> tuple[Any, int] | None:
    """Returns the tensor whose channels were split into parts that lie side by side now, and how many these are."""
    parts = list(stacked.op.inputs)
    split, last = parts[0].op, len(stacked.shape) - 1
    if split.type != "Split" or [part.name for part in parts] != [output.name for output in split.outputs]:
        return None
    axis, whole = split.inputs
    lies_so = stacked.op.get_attr("axis") in (-1, last) and _number(axis) in (-1, last - 1)
    return (whole, len(parts)) if lies_so else None


def _scaled(tensor: Any) -> tuple[Any, float]:
    """Returns what a tensor is a multiple of, and the number."""
    for first, second in permutations(_operands(tensor, "Mul"), 2):
        if (factor := _number(second)) is not None:
            source, scale = _scaled(first)
            return source, scale * factor
    for first, second in [_operands(tensor, "RealDiv")] if tensor.op.type == "RealDiv" else []:
        if divisor := _number(second):
            source, scale = _scaled(first)
            return source, scale / divisor
    return tensor, 1.0


def _operands(tensor: Any, operator: str) -> list[Any]:
    """Returns what the operator took that returned a tensor of the traced graph; nothing where it was another."""
    return list(tensor.op.inputs) if tensor.op.type == operator else []


def _number(tensor: Any) -> float | None:
    """Returns the number that a tensor is; None where it is none, or not known while the graph is traced."""
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    return None if value is None or np.ndim(value) else value.item()


def _key(tensor: Any) -> Any:
    return tensor.graph, tensor.name
