"""The operations that are traced as a call of one ONNX operator, and the reasons why some become several operators.

TensorFlow would trace a layer normalization as nine elementwise operators, which runtimes cannot fuse.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from keras_pe.export.graph.litert_functions import sign_bit
from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.watch.keras_internals import replaced_causal_masks, replaced_operations
from keras_pe.export.model.watch.symbolic_trace import batch_time_distributed
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.onnx.attention_masks import attention, causal_mask, masked_softmax
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.operator_calls import call_operator, differentiable
from keras_pe.export.onnx.padded_convolutions import convolution, transposed_convolution

_HUB_ROTATION = "_apply_rotary_pos_emb"  # a method of keras-hub's rotary layers


@contextlib.contextmanager
def named_operations(layers: Sequence[Any], opset: int, unfused: Unfused) -> Iterator[None]:
    """A context in which this thread traces `keras.ops` and layers as calls of ONNX operators with equal results.

    Args:
        layers: The model and every layer in it.
        opset: The ONNX operator set of the file.
        unfused: Records the layers that stay several operators.
    """
    import keras

    from keras_pe.export.model import cache_columns
    from keras_pe.rotations import pairs

    normalization = partial(_layer_normalization, opset, unfused)
    usual = replaced_operations(
        nn={
            "gelu": partial(_gelu, opset),
            **{name: partial(_activation, *named) for name, named in _ACTIVATIONS.items()},
            "dot_product_attention": attention,
            **dict.fromkeys(("conv", "depthwise_conv", "separable_conv"), convolution),
            "conv_transpose": transposed_convolution,
        },
        numpy={"signbit": sign_bit},
        normalizations={"layer_normalization": normalization, "rms_normalization": _rms_normalization},
    )
    own: list[tuple[Any, str, Callable[..., Any]]] = [(cache_columns, "write_rows", _scatter_rows)]
    if opset >= opsets.ROTARY_VERSION:
        own += [(pairs, "turn_pairs", rotary_embedding)]
        of_hub = [layer for layer in layers if type(layer).__module__.startswith("keras_hub.")]
        own += [(layer, _HUB_ROTATION, _rotary_of_hub) for layer in of_hub if hasattr(layer, _HUB_ROTATION)]
    resized = [layer for layer in layers if type(layer).call is keras.layers.UpSampling2D.call]
    own += [(layer, "call", partial(_upsampling, layer)) for layer in resized]
    in_groups = [layer for layer in layers if type(layer) is keras.layers.GroupNormalization]
    own += [(layer, "call", partial(_group_normalization, layer)) for layer in in_groups]
    masking = [layer for layer in layers if type(layer).call is keras.layers.Softmax.call]
    own += [(layer, "call", partial(masked_softmax, layer)) for layer in masking]
    by_steps = [layer for layer in layers if isinstance(layer, keras.layers.TimeDistributed)]
    as_rows = batch_time_distributed(filter(_takes_rows_alone, by_steps), even_if_fixed=True)
    with usual, replaced_causal_masks(layers, causal_mask), replaced_functions(own), as_rows:
        yield


def _takes_rows_alone(layer: Any) -> bool:
    """Whether a TimeDistributed layer contains only layers of Keras, which compute each row independently."""
    import keras

    inner = layer.layer
    parts = getattr(inner, "operations", None) or getattr(inner, "layers", None) or [inner]
    own = [part for part in parts if type(part).__module__.startswith("keras.src.layers.")]
    return len(own) == len(parts) and not any(isinstance(part, keras.layers.Lambda) for part in own)


def _scatter_rows(usual: Callable[..., Any], buffer: Any, rows: Any, start: Any) -> Any:
    """Replaces `write_rows` by a TensorScatter call, which a runtime computes within the memory of the buffer."""
    import tensorflow as tf

    starts = tf.repeat(tf.cast(start, "int64"), tf.shape(buffer)[0])
    return call_operator("TensorScatter", [buffer, rows, starts], [buffer.shape], {"axis": 2}, buffer.dtype)[0]


def _upsampling(layer: Any, usual: Callable[..., Any], inputs: Any) -> Any:
    if layer.interpolation not in ("nearest", "bilinear"):
        return usual(inputs)
    attributes: dict[str, Any] = {"times": list(layer.size), "is_last": layer.data_format == "channels_last"}
    attributes["is_smooth"] = layer.interpolation == "bilinear"
    return _in_float32("Resize", usual, inputs, shape=layer.compute_output_shape(inputs.shape), **attributes)


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
    reason, first = _obstacle(x, [gamma, beta], axis), opsets.LAYER_NORMALIZATION_VERSION
    if not rms_scaling and (reason or opset < first):
        unfused.note("LayerNormalization", reason or f"operator set {opset} has none, {first} has")
    if rms_scaling or reason:
        return usual(x, gamma, beta, axis, epsilon, rms_scaling)
    return _normalization("LayerNormalization", usual, x, [gamma, beta], axis, epsilon)


def _rms_normalization(
    usual: Callable[..., Any], x: Any, scale: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Any:
    if _obstacle(x, [scale], axis):
        return usual(x, scale, axis, epsilon)
    return _normalization("RMSNormalization", usual, x, [scale], axis, epsilon)


def _normalization(
    operator: str, usual: Callable[..., Any], x: Any, parameters: list[Any], axis: Any, epsilon: float | None
) -> Any:
    """Returns the call of an operator that normalizes the last axes, which are the axes of the parameters.

    The operator computes in float32, as Keras does, and the result is cast to the dtype of `x`.
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


def _group_normalization(layer: Any, usual: Callable[..., Any], inputs: Any) -> Any:
    """Returns a GroupNormalization call if the channels are the first axis after the batch, or the last axis."""
    import keras
    import tensorflow as tf

    values = keras.ops.convert_to_tensor(inputs)
    rank, dtype = len(values.shape), keras.backend.standardize_dtype(values.dtype)
    axis = layer.axis % rank
    if dtype not in ("float32", "float16", "bfloat16") or rank < 3 or axis not in (1, rank - 1):
        return usual(inputs)
    channels = int(values.shape[axis])
    scale = tf.ones([channels]) if layer.gamma is None else keras.ops.cast(layer.gamma, "float32")
    shift = tf.zeros([channels]) if layer.beta is None else keras.ops.cast(layer.beta, "float32")
    attributes = {"groups": layer.groups, "epsilon": layer.epsilon, "is_last": axis > 1}

    def call(x: Any) -> Any:
        return call_operator("GroupNormalization", [x, scale, shift], [values.shape], attributes)[0]

    result = differentiable(call, usual, keras.ops.cast(values, "float32"))
    return keras.ops.cast(result, layer.compute_dtype)


def _gelu(opset: int, usual: Callable[..., Any], x: Any, approximate: bool = True) -> Any:
    if opset >= opsets.GELU_VERSION:
        kind = "tanh" if approximate else "none"
        return _in_float32("Gelu", lambda values: usual(values, approximate), x, approximate=kind)
    if approximate:  # ONNX Runtime fuses the operators that TensorFlow traces for it
        return usual(x, approximate)
    return _in_float32("Gelu", lambda values: usual(values, approximate), x)


# The ONNX name of each Keras activation, and a function from Keras' arguments to ONNX's attributes.
_ACTIVATIONS: dict[str, tuple[str, Callable[..., dict[str, float]]]] = {
    "celu": ("Celu", lambda alpha=1.0: {"alpha": alpha}),
    "hard_shrink": ("Shrink", lambda threshold=0.5: {"lambd": threshold, "bias": 0.0}),
    "hard_sigmoid": ("HardSigmoid", lambda: {"alpha": 1 / 6, "beta": 0.5}),
    "hard_silu": ("HardSwish", lambda: {}),
    "soft_shrink": ("Shrink", lambda threshold=0.5: {"lambd": threshold, "bias": threshold}),
}


def _activation(
    operator: str,
    attributes: Callable[..., dict[str, float]],
    usual: Callable[..., Any],
    x: Any,
    *arguments: Any,
    **options: Any,
) -> Any:
    numbers: dict[str, Any] = {name: float(each) for name, each in attributes(*arguments, **options).items()}
    return _in_float32(operator, lambda values: usual(values, *arguments, **options), x, **numbers)


def _in_float32(
    operator: str,
    usual: Callable[..., Any],
    x: Any,
    shape: Sequence[int | None] | None = None,
    **attributes: Any,
) -> Any:
    """Returns the call of an operator on a float32 tensor; the usual result for any other dtype.

    Args:
        operator: The ONNX name of the operator.
        usual: The usual function.
        x: The input.
        shape: The shape of the result, if it differs from the shape of `x`.
        attributes: The attributes of the operator.
    """
    import keras

    x = keras.ops.convert_to_tensor(x)
    if x.dtype != "float32":
        return usual(x)

    def call(values: Any) -> Any:
        return call_operator(operator, [values], [values.shape if shape is None else shape], attributes)[0]

    return differentiable(call, usual, x)


def _obstacle(x: Any, parameters: list[Any], axis: Any) -> str | None:
    """Returns the reason why no operator normalizes these axes; None if one does."""
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


def rotary_embedding(usual: Callable[..., Any], x: Any, sin: Any, cos: Any, layout: str) -> Any:
    """Replaces `turn_pairs` by a RotaryEmbedding call if the layout of heads and pairs fits the operator."""
    if not _has_one_form(x, sin, cos, layout):
        return usual(x, sin, cos, layout)
    return differentiable(
        lambda *tensors: _call_rotary(layout, *tensors), lambda *tensors: usual(*tensors, layout), x, sin, cos
    )


def _rotary_of_hub(usual: Callable[..., Any], x: Any, cos: Any, sin: Any) -> Any:
    """Replaces the rotation of keras-hub's layers, whose pairs are the halves of the channels."""
    return rotary_embedding(lambda x, sin, cos, layout: usual(x, cos, sin), x, sin, cos, "halves")


def _has_one_form(x: Any, sin: Any, cos: Any, layout: str) -> bool:
    """Whether RotaryEmbedding can compute the rotation: of a 4-D tensor whose heads share their angles."""
    if layout not in ("halves", "interleaved") or any(each.dtype != "float32" for each in (x, sin, cos)):
        return False
    shape = (*(1,) * (4 - len(sin.shape)), *sin.shape)  # the shape after broadcasting
    is_shaped = len(x.shape) == len(shape) == 4 and shape[0] in (1, x.shape[0])
    return is_shaped and (_has_heads_third(x, sin) or shape[1] == 1)


def _has_heads_third(x: Any, sin: Any) -> bool:
    return sin.shape[-2] == 1 and x.shape[2] is not None


def _call_rotary(layout: str, x: Any, sin: Any, cos: Any) -> Any:
    import tensorflow as tf

    heads = 2 if _has_heads_third(x, sin) else 1
    batch, length, width = tf.shape(x)[0], tf.shape(x)[3 - heads], sin.shape[-1]
    # The operator takes one angle for each pair. Take the angle of the second channel.
    of_second = slice(1, None, 2) if layout == "interleaved" else slice(width // 2, None)
    without_heads = (tf.squeeze(each, heads - 4) if len(each.shape) >= 4 - heads else each for each in (cos, sin))
    angles = [tf.broadcast_to(each[..., of_second], (batch, length, width // 2)) for each in without_heads]
    rotated = width if width < x.shape[-1] else 0
    attributes = {"interleaved": int(layout == "interleaved"), "rotary_embedding_dim": rotated}
    if heads == 1:
        return call_operator("RotaryEmbedding", [x, *angles], [x.shape], attributes)[0]
    # Join the heads into one axis, as a projection returns them, which saves a transposition.
    flat = tf.reshape(x, (batch, length, x.shape[2] * x.shape[3]))
    attributes["num_heads"] = x.shape[2]
    return tf.reshape(call_operator("RotaryEmbedding", [flat, *angles], [flat.shape], attributes)[0], tf.shape(x))
