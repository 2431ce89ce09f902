"""Attention as the fewest operators: as Keras' layers and operations name it, and where a layer spells it out."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import causal_mask, drops_scores, returns_scores, without_dropout
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.operator_calls import Unfused, call_operator, differentiable

_OPERATOR = "Attention"
_MASKED = -0.7 * 3.38953e38  # as Keras has it: any score below 1e31 is lost in it, so the sum is what a choice returns


def attention(
    opset: int,
    unfused: Unfused,
    usual: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    is_causal: bool = False,
    **others: Any,
) -> Any:
    """Returns what `keras.ops.dot_product_attention` does, in operators that take less time."""
    import keras

    tensors = [keras.ops.convert_to_tensor(tensor) for tensor in (query, key, value)]
    added = [each for each in (bias, mask) if each is not None]
    reason = _obstacle_to_attention(opset, tensors, added, scale, others)
    if reason:
        unfused.note(_OPERATOR, reason)
    is_masked = mask is not None or is_causal
    if any(tensor.dtype != "float32" or len(tensor.shape) != 4 for tensor in tensors) or (reason and not is_masked):
        return usual(query, key, value, bias, mask, scale, is_causal, **others)
    total = None if bias is None else keras.ops.convert_to_tensor(bias, "float32")
    if is_masked:
        summed = _as_sum(_with_causal(mask, tensors) if is_causal else mask)
        total = summed if total is None else total + summed
    if reason:
        return usual(*tensors, total, None, scale, False, **others)

    def usually(query: Any, key: Any, value: Any, total: Any = None) -> Any:
        return usual(query, key, value, total, None, scale, False, **others)

    return differentiable(partial(_call, scale), usually, *tensors, *([] if total is None else [total]))


def _obstacle_to_attention(
    opset: int, tensors: list[Any], added: list[Any], scale: Any, others: dict[str, Any]
) -> str | None:
    """Returns why no operator computes it; None where one does."""
    if opset not in opsets.WITH_ATTENTION:
        first, last = opsets.WITH_ATTENTION[0], opsets.WITH_ATTENTION[-1]
        return f"it is written at the operator sets {first} to {last}, not at {opset}"
    if any(tensor.dtype != "float32" for tensor in tensors):
        return f"it computes in {tensors[0].dtype.name}"
    if any(len(tensor.shape) != 4 or None in tensor.shape[2:] for tensor in tensors):
        return "its heads or their channels are not known"
    if any(len(each.shape) not in (2, 4) for each in added):
        return "its mask or bias has other axes"
    if not (scale is None or isinstance(scale, int | float)):
        return "its scale is computed"
    if others.get("attn_logits_soft_cap") is not None:
        return "its scores are capped, which runtimes do before or after the mask"
    return None


def _call(scale: float | None, *tensors: Any) -> Any:
    import tensorflow as tf

    query, key, value, *added = tensors
    # ONNX Runtime takes a mask of as many rows and columns as the scores, and no fewer.
    sizes = [tf.shape(query)[1], tf.shape(key)[1]]
    full = [tf.broadcast_to(each, tf.concat([tf.shape(each)[:-2], sizes], 0)) for each in added]
    attributes = {} if scale is None else {"scale": float(scale)}
    shape = (*query.shape[:3], value.shape[3])
    return call_operator(_OPERATOR, [query, key, value, *full], [shape], attributes)[0]


def attention_of_layer(
    spelled: "SpelledAttention",
    layer: Any,
    usual: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    training: Any = None,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    """Returns what a layer returns that drops nothing, but zeros, as one that drops does, for who may see nothing."""
    import keras

    scored = {"return_attention_scores": True} if return_attention_scores else {}
    reason = _obstacle_of_layer(layer, query, attention_mask, return_attention_scores)
    if reason:
        with spelled.kept(reason):
            return usual(query, key, value, attention_mask, training, use_causal_mask=use_causal_mask, **scored)
    if training or not drops_scores(layer):
        return usual(query, key, value, attention_mask, training, use_causal_mask=use_causal_mask)
    if attention_mask is not None:
        attention_mask = keras.ops.cast(attention_mask, "bool")
        if use_causal_mask:
            attention_mask = keras.ops.logical_and(attention_mask, causal_mask(layer, query, value))
    is_causal = use_causal_mask and attention_mask is None
    with without_dropout(layer):
        output, scores = usual(query, key, value, attention_mask, training, use_causal_mask=is_causal)
    if attention_mask is not None:
        sees = keras.ops.any(attention_mask, axis=-1)[..., None, None]
        output = keras.ops.where(sees, output, 0.0)
    return output, scores


def _obstacle_of_layer(layer: Any, query: Any, mask: Any, is_asked_for_scores: bool) -> str | None:
    """Returns why a layer computes scores that others may see, or in another form; None where it does not."""
    if is_asked_for_scores or returns_scores(layer):
        return "its scores are returned"
    if layer.compute_dtype != "float32":
        return f"it computes in {layer.compute_dtype}"
    if len(query.shape) != 4 or (mask is not None and len(mask.shape) != 3):
        return "its queries or its mask have other axes"
    return None


def _with_causal(mask: Any, tensors: list[Any]) -> Any:
    """Returns the mask without what comes later than a query."""
    import tensorflow as tf

    rows, columns = tf.shape(tensors[0])[1], tf.shape(tensors[1])[1]
    causal = tf.range(columns)[tf.newaxis] <= tf.range(rows)[:, tf.newaxis]
    return causal if mask is None else tf.logical_and(mask, causal)


def _as_sum(mask: Any) -> Any:
    """Returns what is added to the scores: nothing where a mask is true."""
    import tensorflow as tf

    return tf.where(mask, tf.constant(0.0), tf.constant(_MASKED, "float32"))


def masked_softmax(layer: Any, usual: Callable[..., Any], inputs: Any, mask: Any = None) -> Any:
    """Returns what a `Softmax` does, with a mask that is added, and results of a row that may see nothing set to zero.

    Keras selects twice among all scores. A mask that many of them share is made into numbers once, for all layers.
    """
    import keras

    scores = keras.ops.convert_to_tensor(inputs)
    if mask is None or scores.dtype != "float32" or not isinstance(layer.axis, int) or not _is_shared(mask, scores):
        return usual(inputs, mask)
    seen = keras.ops.convert_to_tensor(mask)
    seen = seen if seen.dtype == "bool" else seen > keras.ops.cast(0.5, seen.dtype)
    sees = keras.ops.cast(keras.ops.any(seen, layer.axis, keepdims=True), "float32")
    return keras.ops.softmax(scores + _as_sum(seen), layer.axis) * sees


def _is_shared(mask: Any, scores: Any) -> bool:
    """Whether a mask has fewer entries than the scores, as far as it is known."""
    if None in (scores.shape.rank, mask.shape.rank):
        return False
    shape = (*(1,) * (len(scores.shape) - len(mask.shape)), *mask.shape)
    return any(size == 1 and other != 1 for size, other in zip(shape, scores.shape, strict=True))


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
    """Attention that a layer spells out by `einsum` and `softmax`, as keras-hub's do, known by its last product."""

    def __init__(self, opset: int, unfused: Unfused) -> None:
        self._opset = opset
        self._unfused = unfused
        self._products: dict[Any, _Product] = {}  # by graph and name of the result
        self._is_kept = False

    @contextlib.contextmanager
    def kept(self, reason: str) -> Iterator[None]:
        """Leaves attention as it is spelled out, for a reason that is noted."""
        self._unfused.note(_OPERATOR, reason)
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
        added = [] if weights.added is None else [axes.of_scores(weights.added)]
        reason = _obstacle_to_attention(self._opset, tensors, added, scale, {})
        if reason:
            self._unfused.note(_OPERATOR, reason)
            return None

        def usually(query: Any, key: Any, value: Any, *added: Any) -> Any:
            key, value = (tf.repeat(each, query.shape[2] // each.shape[2], axis=2) for each in (key, value))
            scores = usual("btnh,bsnh->bnts", query, key) * scale
            return usual("bnts,bsnh->btnh", tf.nn.softmax(sum(added, scores)), value)

        result = differentiable(partial(_call, scale), usually, *tensors, *added)
        if weights.sees is not None:
            result *= tf.transpose(axes.of_scores(weights.sees), [0, 2, 1, 3])
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
            if len(queries) < 4 or None in (*query.shape[2:], *key.shape[2:], *values[1].shape[2:]):
                continue
            (batch, length, *heads, channels), size = queries, scores.output[-1]
            shared = [*keys[2:-1]]
            lies_so = [*scores.output] == [batch, *heads, length, size] and result == [
                batch,
                length,
                *heads,
                "channels",
            ]
            lies_so &= [*keys] == [batch, size, *shared, channels] and held == [batch, size, *shared, "channels"]
            if lies_so and heads[: len(shared)] == shared:
                return cls(query, key, values[1])
        return None

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
        return tf.squeeze(tensor, groups) if groups and all(tensor.shape[axis] == 1 for axis in groups) else tensor

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
    for source, shape in [_operands(tensor, "Reshape")] if tensor.op.type == "Reshape" else []:
        parts = _operands(source, "Pack")
        found = (
            (_whole(parts), len(parts))
            if parts and source.op.get_attr("axis") in (-1, len(source.shape) - 1)
            else (_before_shuffle(source))
        )
        if found is not None and found[0] is not None and found[0].shape[-1] == tensor.shape[-1]:
            return tf.reshape(found[0], shape), found[1]
    return None


def _whole(parts: Sequence[Any]) -> Any:
    """Returns the tensor that was split along its last axis into these parts, in this order; None where none was."""
    split = parts[0].op
    names = [part.name for part in parts]
    if split.type != "Split" or names != [output.name for output in split.outputs]:
        return None
    axis, whole = split.inputs
    return whole if _number(axis) in (-1, len(whole.shape) - 1) else None


def _scaled(tensor: Any) -> tuple[Any, float]:
    """Returns what a tensor is a multiple of, and the number."""
    for first, second in permutations(_operands(tensor, "Mul"), 2):
        number = _number(second)
        if number is not None:
            source, scale = _scaled(first)
            return source, scale * number
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
