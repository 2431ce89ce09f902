"""What is traced as a call of one ONNX operator, attention too, and where and why a file has several for it.

TensorFlow traces a layer normalization as nine elementwise operators, which no runtime recognizes any more.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from keras_pe.export.model.watch.keras_internals import (
    causal_mask,
    drops_scores,
    replaced_attention,
    replaced_functions,
    replaced_operations,
    returns_scores,
    without_dropout,
)
from keras_pe.export.onnx.handlers import opsets

_OPERATOR = "Attention"
_MASKED = -0.7 * 3.38953e38  # as Keras has it: any score below 1e31 is lost in it, so the sum is what a choice returns

_SINCE = {"LayerNormalization": 17}  # the first operator set that has it


class Unfused:
    """The reasons, noted while a model is traced."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, str, str]] = []

    def note(self, operator: str, reason: str) -> None:
        """Notes that the layer which is traced now computes an operator in several."""
        import tensorflow as tf

        self._noted.append((f"{tf.get_current_name_scope()}/", operator, reason))

    def to_json(self, path_of: Callable[[str], str]) -> str | None:
        """Returns the metadata of a file: reasons by operator by layer; None where there are none.

        Args:
            path_of: Returns the path of the layer that a scope of TensorFlow's belongs to.
        """
        reasons: dict[str, dict[str, str]] = {}
        for scope, operator, reason in self._noted:
            reasons.setdefault(path_of(scope), {})[operator] = reason
        return json.dumps(reasons, sort_keys=True) if reasons else None


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
    unfused: Unfused,
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
        unfused.note(_OPERATOR, reason)
    if reason or training or not drops_scores(layer):
        return usual(query, key, value, attention_mask, training, use_causal_mask=use_causal_mask, **scored)
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


@contextlib.contextmanager
def named_operations(layers: Sequence[Any], opset: int, unfused: Unfused) -> Iterator[None]:
    """Lets `keras.ops`, and with it the layers, be traced so in this thread, where a runtime computes the same.

    Args:
        layers: The model and every layer in it.
        opset: ONNX's operator set that the file is of.
        unfused: Is told what stays several operators.
    """
    import keras

    from keras_pe.layers import rotary_position_encoding

    normalization = partial(_layer_normalization, opset, unfused)
    usual = replaced_operations(
        nn={"gelu": _gelu, "hard_silu": _hard_silu, "dot_product_attention": partial(attention, opset, unfused)},
        normalizations={"layer_normalization": normalization, "rms_normalization": _rms_normalization},
    )
    has_rotary = opset >= opsets.ROTARY_VERSION
    own = [(rotary_position_encoding, "turn_pairs", rotary_embedding)] if has_rotary else []
    resized = [layer for layer in layers if type(layer).call is keras.layers.UpSampling2D.call]
    own += [(layer, "call", partial(_upsampling, layer)) for layer in resized]
    of_layers = replaced_attention(layers, partial(attention_of_layer, unfused))
    with usual, of_layers, replaced_functions(own):
        yield


def _upsampling(layer: Any, usual: Callable[..., Any], x: Any) -> Any:
    if layer.interpolation != "nearest":
        return usual(x)
    attributes = {"times": list(layer.size), "is_last": layer.data_format == "channels_last"}
    return _in_float32("Resize", usual, x, shape=layer.compute_output_shape(x.shape), **attributes)


def _layer_normalization(
    opset: int,
    unfused: Unfused,
    usual: Callable[..., Any],
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    axis: Any = -1,
    epsilon: float | None = None,
    rms_scaling: bool = False,
) -> Any:
    operator, reason = "LayerNormalization", _obstacle(x, [gamma, beta], axis)
    if rms_scaling:
        return usual(x, gamma, beta, axis, epsilon, rms_scaling)
    if reason:
        unfused.note(operator, reason)
        return usual(x, gamma, beta, axis, epsilon, rms_scaling)
    if opset < _SINCE[operator]:
        unfused.note(operator, f"operator set {opset} has none, {_SINCE[operator]} has")
    return _normalization(operator, usual, x, [gamma, beta], axis, epsilon)


def _rms_normalization(
    usual: Callable[..., Any], x: Any, scale: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Any:
    if _obstacle(x, [scale], axis):
        return usual(x, scale, axis, epsilon)
    return _normalization("RMSNormalization", usual, x, [scale], axis, epsilon)


def _normalization(
    operator: str, usual: Callable[..., Any], x: Any, parameters: list[Any], axis: Any, epsilon: float | None
) -> Any:
    """Returns the call of an operator that normalizes the last axes, each of which has a parameter's.

    It computes in float32 whatever it takes, as Keras does, and is rounded once.
    """
    import keras
    import tensorflow as tf

    values = keras.ops.convert_to_tensor(x)
    epsilon = keras.config.epsilon() if epsilon is None else float(epsilon)
    sizes = [int(x.shape[each]) for each in _axes(x, axis)]
    defaults = [tf.ones(sizes), tf.zeros(sizes)]
    given = [
        default if parameter is None else keras.ops.convert_to_tensor(parameter, "float32")
        for parameter, default in zip(parameters, defaults, strict=False)
    ]
    axes = tuple(range(-len(sizes), 0))
    attributes = {"axis": axes[0], "epsilon": epsilon}
    result = differentiable(
        lambda *tensors: call_operator(operator, tensors, [x.shape], attributes)[0],
        lambda values, *tensors: usual(values, *tensors, axis=axes, epsilon=epsilon),
        keras.ops.cast(values, "float32"),
        *given,
    )
    return keras.ops.cast(result, values.dtype)


def _gelu(usual: Callable[..., Any], x: Any, approximate: bool = True) -> Any:
    if approximate:  # ONNX Runtime recognizes this one in the operators that TensorFlow traces
        return usual(x, approximate)
    return _in_float32("Gelu", lambda values: usual(values, approximate), x)


def _hard_silu(usual: Callable[..., Any], x: Any) -> Any:
    return _in_float32("HardSwish", usual, x)


def _in_float32(
    operator: str,
    usual: Callable[..., Any],
    x: Any,
    shape: Sequence[int | None] | None = None,
    **attributes: Any,
) -> Any:
    """Returns the call of an operator; of what has another type, what is usual.

    Args:
        operator: ONNX's name.
        usual: Computes the same.
        x: What it takes.
        shape: The shape of the result, if it is not that of `x`.
        attributes: The operator's.
    """
    import keras

    x = keras.ops.convert_to_tensor(x)
    if x.dtype != "float32":
        return usual(x)

    def call(values: Any) -> Any:
        return call_operator(operator, [values], [values.shape if shape is None else shape], attributes)[0]

    return differentiable(call, usual, x)


def _obstacle(x: Any, parameters: list[Any], axis: Any) -> str | None:
    """Returns why no operator normalizes these axes; None where one does."""
    import keras

    dtype = keras.backend.standardize_dtype(x.dtype)
    if dtype not in ("float32", "float16", "bfloat16"):
        return f"it computes in {dtype}"
    if x.shape is None or getattr(x.shape, "rank", 1) is None:
        return "the number of axes is not known"
    rank, axes = len(x.shape), _axes(x, axis)
    if not axes or axes != list(range(rank - len(axes), rank)):
        return "its axes are not the last"
    if any(not x.shape[each] for each in axes):
        return "the sizes of its axes are not known, or zero"
    if any(parameter is not None and len(parameter.shape) != len(axes) for parameter in parameters):
        return "its weights have other axes"
    return None


def _axes(x: Any, axis: Any) -> list[int]:
    return sorted(each % len(x.shape) for each in ([axis] if isinstance(axis, int) else axis)) if len(x.shape) else []


def call_operator(operator: str, inputs: Sequence[Any], shapes: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    """Returns the results of an operator, in float32, as a call in the traced graph which a handler turns into it.

    Args:
        operator: ONNX's name.
        inputs: What it takes.
        shapes: The shape of each of its results.
        attributes: Its attributes.
    """
    import tensorflow as tf

    token = json.dumps([operator, attributes])
    # Of all that TensorFlow has, this takes and returns any tensors, and its optimizer leaves it as it is.
    results = tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=["float32"] * len(shapes))
    return [tf.ensure_shape(result, shape) for result, shape in zip(results, shapes, strict=True)]


def differentiable(call: Callable[..., Any], usual: Callable[..., Any], *tensors: Any) -> Any:
    """Returns what a call returns, with the derivative of the usual function: a model may ask for it."""
    import tensorflow as tf

    def function(*values: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(values)
                result = usual(*values)
            return tape.gradient(result, values, upstream)

        return call(*values), gradient

    return tf.custom_gradient(function)(*tensors)


def rotary_embedding(usual: Callable[..., Any], x: Any, sin: Any, cos: Any, layout: str) -> Any:
    """Returns what `turn_pairs` does; where the operator's heads or pairs are others, in the usual operators."""
    if not _has_one_form(x, sin, cos, layout):
        return usual(x, sin, cos, layout)
    return differentiable(
        lambda *tensors: _call_rotary(layout, *tensors), lambda *tensors: usual(*tensors, layout), x, sin, cos
    )


def _has_one_form(x: Any, sin: Any, cos: Any, layout: str) -> bool:
    """Whether the heads, which share their angles, are the second axis or the third of four, and the pairs are its."""
    if layout not in ("halves", "interleaved") or any(each.dtype != "float32" for each in (x, sin, cos)):
        return False
    shape = (*(1,) * (4 - len(sin.shape)), *sin.shape)  # the leading axes that broadcasting would give it
    is_shaped = len(x.shape) == len(shape) == 4 and shape[0] in (1, x.shape[0])
    return is_shaped and (_has_heads_third(x, sin) or shape[1] == 1)


def _has_heads_third(x: Any, sin: Any) -> bool:
    return sin.shape[-2] == 1 and x.shape[2] is not None


def _call_rotary(layout: str, x: Any, sin: Any, cos: Any) -> Any:
    import tensorflow as tf

    heads = 2 if _has_heads_third(x, sin) else 1
    batch, length, width = tf.shape(x)[0], tf.shape(x)[3 - heads], sin.shape[-1]
    # The operator takes one sine for a pair: that of its second channel.
    of_second = slice(1, None, 2) if layout == "interleaved" else slice(width // 2, None)
    without_heads = (tf.squeeze(each, heads - 4) if len(each.shape) >= 4 - heads else each for each in (cos, sin))
    angles = [tf.broadcast_to(each[..., of_second], (batch, length, width // 2)) for each in without_heads]
    rotated = width if width < x.shape[-1] else 0
    attributes = {"interleaved": int(layout == "interleaved"), "rotary_embedding_dim": rotated}
    if heads == 1:
        return call_operator("RotaryEmbedding", [x, *angles], [x.shape], attributes)[0]
    # With the heads side by side as a projection returns them, nothing is transposed.
    flat = tf.reshape(x, (batch, length, x.shape[2] * x.shape[3]))
    attributes["num_heads"] = x.shape[2]
    return tf.reshape(call_operator("RotaryEmbedding", [flat, *angles], [flat.shape], attributes)[0], tf.shape(x))
