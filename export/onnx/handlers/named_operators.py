"""What was traced as a call of one ONNX operator, see `call_operator`."""

import functools
import json
import math
from collections.abc import Callable
from typing import Any

from keras_pe.export.onnx.handlers.replacement import Replacement, handler


def _recurrence(operator: str, ctx: Replacement, attributes: dict[str, Any]) -> None:
    """One operator, its steps first instead of the batch, and with an axis for its one direction."""
    sequences, weights, states = ctx.inputs[0], ctx.inputs[1:4], ctx.inputs[4:]
    inputs = [ctx.emit("Transpose", sequences, perm=(1, 0, 2)), *weights, ""]  # no lengths
    inputs += [ctx.emit("Unsqueeze", state, ctx.integers(0)) for state in states]
    outputs, *finals = ctx.emit_all(operator, *inputs, outputs=1 + len(states), **attributes)
    steps = ctx.emit("Transpose", ctx.emit("Squeeze", outputs, ctx.integers(1)), perm=(1, 0, 2))
    ctx.finish(steps, *(ctx.emit("Squeeze", final, ctx.integers(0)) for final in finals))


lstm, gru, rnn = (functools.partial(_recurrence, operator) for operator in ("LSTM", "GRU", "RNN"))


_LAYER_NORMALIZATION = 17  # the first opset that has it


def layer_normalization(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """The operator, or its meaning in a spelling that no runtime takes for it: not every release computes it well."""
    x, gamma, beta = ctx.inputs
    if ctx.opset >= _LAYER_NORMALIZATION:
        ctx.finish(ctx.emit("LayerNormalization", x, gamma, beta, **attributes))
        return
    centered = ctx.emit("Sub", x, _mean(ctx, x, attributes))
    squares = ctx.emit("Mul", centered, centered)
    ctx.finish(ctx.emit("Add", _scaled(ctx, centered, squares, gamma, attributes), beta))


def rms_normalization(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """In the spelling that ONNX Runtime fuses, with a power: the standard's own operator is of opset 23."""
    x, scale = ctx.inputs
    squares = ctx.emit("Pow", x, ctx.constant_like(2, x))
    ctx.finish(_scaled(ctx, x, squares, scale, attributes))


def gelu(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """In the spelling that ONNX Runtime fuses, which divides by the root: a product with its inverse is not known."""
    (x,) = ctx.inputs
    error = ctx.emit("Erf", ctx.emit("Div", x, ctx.constant_like(math.sqrt(2), x)))
    doubled = ctx.emit("Mul", x, ctx.emit("Add", error, ctx.constant_like(1, x)))
    ctx.finish(ctx.emit("Mul", doubled, ctx.constant_like(0.5, x)))


def hard_swish(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """The operator itself."""
    ctx.finish(ctx.emit("HardSwish", *ctx.inputs))


def repeated_pixels(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """One Resize, which takes images channels first."""
    (images,), is_last = ctx.inputs, attributes["is_last"]
    scales = ctx.constant([1, 1, *attributes["times"]], "float32")
    places = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    images = ctx.emit("Transpose", images, perm=[0, 3, 1, 2]) if is_last else images
    images = ctx.emit("Resize", images, "", scales, **places)
    ctx.finish(ctx.emit("Transpose", images, perm=[0, 2, 3, 1]) if is_last else images)


def _scaled(ctx: Replacement, x: str, squares: str, scale: str, attributes: dict[str, Any]) -> str:
    """Returns a tensor over its root mean square, times the scale."""
    variance = ctx.emit("Add", _mean(ctx, squares, attributes), ctx.constant_like(attributes["epsilon"], x))
    return ctx.emit("Mul", ctx.emit("Div", x, ctx.emit("Sqrt", variance)), scale)


def _mean(ctx: Replacement, x: str, attributes: dict[str, Any]) -> str:
    axes = range(attributes["axis"], 0)
    return ctx.emit_reduction("ReduceMean", x, axes)


def _rotary_embedding(ctx: Replacement, attributes: dict[str, Any]) -> None:
    (rotated,) = ctx.emit_later("RotaryEmbedding", *ctx.inputs, **attributes)
    ctx.finish(rotated)


def _attention(ctx: Replacement, attributes: dict[str, Any]) -> None:
    """The operator, of heads that lie side by side: as a projection returns them, so that none is moved."""
    heads = [ctx.known_shape(tensor)[2:] for tensor in ctx.inputs[:3]]
    flat = [
        ctx.emit("Reshape", tensor, ctx.integers(0, 0, math.prod(each)))
        for tensor, each in zip(ctx.inputs[:3], heads, strict=True)
    ]
    (query, _), (pairs, _), (_, width) = heads
    attributes |= {"q_num_heads": query, "kv_num_heads": pairs}
    (result,) = ctx.emit_later("Attention", *flat, *ctx.inputs[3:], **attributes)
    ctx.finish(ctx.emit("Reshape", result, ctx.integers(0, 0, query, width)))


FORMS: dict[str, Callable[[Replacement, dict[str, Any]], None]] = {
    "LSTM": lstm,
    "GRU": gru,
    "RNN": rnn,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "Gelu": gelu,
    "HardSwish": hard_swish,
    "Resize": repeated_pixels,
    "RotaryEmbedding": _rotary_embedding,
    "Attention": _attention,
}


@handler("PyFuncStateless")
def named_operator(ctx: Replacement) -> None:
    """Writes the operator, or the form of it that runs fastest."""
    try:
        operator, attributes = json.loads(ctx.attribute("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model's own
        raise ValueError("Only Python runs its code.") from None
    FORMS[operator](ctx, attributes)
