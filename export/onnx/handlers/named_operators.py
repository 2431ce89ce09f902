"""What was traced as a call of one ONNX operator, see `call_operator`."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.handlers.convolutions import transposed_convolution
from keras_pe.export.onnx.handlers.replacement import Replacement, handler


def _recurrence(operator: str, ctx: Replacement, sequences: str, *others: str, **attributes: Any) -> list[str]:
    """One operator, its steps first instead of the batch, and with an axis for its one direction."""
    weights, states = others[:3], others[3:]
    inputs = [ctx.emit("Transpose", sequences, perm=(1, 0, 2)), *weights, ""]  # no lengths
    inputs += [ctx.emit("Unsqueeze", state, [0]) for state in states]
    outputs, *finals = ctx.emit_all(operator, *inputs, outputs=1 + len(states), **attributes)
    steps = ctx.emit("Transpose", ctx.emit("Squeeze", outputs, [1]), perm=(1, 0, 2))
    return [steps, *(ctx.emit("Squeeze", final, [0]) for final in finals)]


def layer_normalization(ctx: Replacement, x: str, gamma: str, beta: str, axis: int, epsilon: float) -> str:
    """The operator, or its meaning in a spelling that no runtime takes for it: not every release computes it well."""
    if ctx.opset >= opsets.LAYER_NORMALIZATION_VERSION:
        return ctx.emit("LayerNormalization", x, gamma, beta, axis=axis, epsilon=epsilon)
    centered = ctx.emit("Sub", x, _mean(ctx, x, axis))
    squares = ctx.emit("Mul", centered, centered)
    return ctx.emit("Add", _scaled(ctx, centered, squares, gamma, axis, epsilon), beta)


def rms_normalization(ctx: Replacement, x: str, scale: str, axis: int, epsilon: float) -> str:
    """In the spelling that ONNX Runtime fuses, with a power: the standard's own operator is of opset 23."""
    return _scaled(ctx, x, ctx.emit("Pow", x, 2), scale, axis, epsilon)


def _scaled(ctx: Replacement, x: str, squares: str, scale: str, axis: int, epsilon: float) -> str:
    """Writes a tensor over its root mean square, times the scale."""
    variance = ctx.emit("Add", _mean(ctx, squares, axis), epsilon)
    return ctx.emit("Mul", ctx.emit("Div", x, ctx.emit("Sqrt", variance)), scale)


def _mean(ctx: Replacement, x: str, axis: int) -> str:
    return ctx.emit_reduction("ReduceMean", x, range(axis, 0))


def gelu(ctx: Replacement, x: str) -> str:
    """In the spelling that ONNX Runtime fuses, which divides by the root: a product with its inverse is not known."""
    error = ctx.emit("Erf", ctx.emit("Div", x, math.sqrt(2)))
    return ctx.emit("Mul", ctx.emit("Mul", x, ctx.emit("Add", error, 1)), 0.5)


def repeated_pixels(ctx: Replacement, images: str, times: list[int], is_last: bool) -> str:
    """One Resize, which takes images channels first."""
    scales = ctx.constant([1, 1, *times], "float32")
    places = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    images = ctx.emit("Transpose", images, perm=[0, 3, 1, 2]) if is_last else images
    images = ctx.emit("Resize", images, "", scales, **places)
    return ctx.emit("Transpose", images, perm=[0, 2, 3, 1]) if is_last else images


def attention(ctx: Replacement, *inputs: str, **attributes: Any) -> str:
    """The operator, of heads that lie side by side: as a projection returns them, so that none is moved."""
    heads = [ctx.known_shape(tensor)[2:] for tensor in inputs[:3]]
    flat = [
        ctx.emit("Reshape", tensor, [0, 0, math.prod(each)]) for tensor, each in zip(inputs[:3], heads, strict=True)
    ]
    (query, _), (pairs, _), (_, width) = heads
    attributes |= {"q_num_heads": query, "kv_num_heads": pairs}
    (result,) = ctx.emit_later("Attention", *flat, *inputs[3:], **attributes)
    return ctx.emit("Reshape", result, [0, 0, query, width])


# Each takes the operator's inputs, and its attributes by name.
FORMS: dict[str, Callable[..., str | list[str]]] = {
    **{operator: partial(_recurrence, operator) for operator in ("LSTM", "GRU", "RNN")},
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "Gelu": gelu,
    "ConvTranspose": transposed_convolution,
    "HardSwish": lambda ctx, x: ctx.emit("HardSwish", x),
    "Resize": repeated_pixels,
    "RotaryEmbedding": lambda ctx, *inputs, **attributes: ctx.emit_later("RotaryEmbedding", *inputs, **attributes),
    "Attention": attention,
}


@handler("PyFuncStateless")
def named_operator(ctx: Replacement, *inputs: str) -> str | list[str]:
    """Writes the operator, or the form of it that runs fastest."""
    try:
        operator, attributes = json.loads(ctx.attribute("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model's own
        raise ValueError("Only Python runs its code.") from None
    return FORMS[operator](ctx, *inputs, **attributes)
