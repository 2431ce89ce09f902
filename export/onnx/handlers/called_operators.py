"""Handlers of calls that were traced as one named ONNX operator, see `call_operator`."""

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.handlers.handler_registry import Replacement, handler
from keras_pe.export.onnx.handlers.transposed_convolutions import transposed_convolution


def _recurrence(operator: str, ctx: Replacement, sequences: str, *others: str, **attributes: Any) -> list[str]:
    """Writes one recurrent operator, whose inputs have the steps first and an axis of one direction."""
    weights, states = others[:3], others[3:]  # no states if they begin as zeros
    inputs = [ctx.emit("Transpose", sequences, perm=(1, 0, 2)), *weights]
    inputs += ["", *(ctx.emit("Unsqueeze", state, [0]) for state in states)] if states else []  # no lengths
    outputs, *finals = ctx.emit_all(operator, *inputs, outputs=len(ctx.outputs), **attributes)
    steps = ctx.emit("Transpose", ctx.emit("Squeeze", outputs, [1]), perm=(1, 0, 2))
    return [steps, *(ctx.emit("Squeeze", final, [0]) for final in finals)]


def layer_normalization(ctx: Replacement, x: str, gamma: str, beta: str, axis: int, epsilon: float) -> str:
    """Writes the operator, or for an older opset a decomposition that no runtime fuses: some kernels are inexact."""
    if ctx.opset >= opsets.LAYER_NORMALIZATION_VERSION:
        return ctx.emit("LayerNormalization", x, gamma, beta, axis=axis, epsilon=epsilon)
    centered = ctx.emit("Sub", x, _mean(ctx, x, axis))
    squares = ctx.emit("Mul", centered, centered)
    return ctx.emit("Add", _normalize(ctx, centered, squares, gamma, axis, epsilon), beta)


def rms_normalization(ctx: Replacement, x: str, scale: str, axis: int, epsilon: float) -> str:
    """Writes the decomposition that ONNX Runtime fuses, whose square is a Pow. A later pass names the operator."""
    return _normalize(ctx, x, ctx.emit("Pow", x, 2), scale, axis, epsilon)


def _normalize(ctx: Replacement, x: str, squares: str, scale: str, axis: int, epsilon: float) -> str:
    """Writes a tensor over the root of the mean of the squares, times the scale."""
    variance = ctx.emit("Add", _mean(ctx, squares, axis), epsilon)
    return ctx.emit("Mul", ctx.emit("Div", x, ctx.emit("Sqrt", variance)), scale)


def _mean(ctx: Replacement, x: str, axis: int) -> str:
    return ctx.emit_reduction("ReduceMean", x, range(axis, 0))


def group_normalization(
    ctx: Replacement, x: str, gamma: str, beta: str, groups: int, epsilon: float, is_last: bool
) -> str:
    """Writes `InstanceNormalization` with each group as one channel: GroupNormalization has no kernel."""
    rank, (channels,) = ctx.rank(x), ctx.known_shape(gamma)
    x = ctx.emit("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]) if is_last else x
    if groups == channels:
        result = ctx.emit("InstanceNormalization", x, gamma, beta, epsilon=epsilon)
    else:
        ones, zeros = (ctx.constant(np.full(groups, number), "float32") for number in (1, 0))
        of_groups = ctx.emit("Reshape", x, [0, groups, -1])
        normal = ctx.emit("InstanceNormalization", of_groups, ones, zeros, epsilon=epsilon)
        normal = ctx.emit("Reshape", normal, ctx.emit("Shape", x))
        scale, shift = (ctx.emit("Unsqueeze", each, range(1, rank - 1)) for each in (gamma, beta))
        result = ctx.emit("Add", ctx.emit("Mul", normal, scale), shift)
    return ctx.emit("Transpose", result, perm=[0, *range(2, rank), 1]) if is_last else result


def gelu(ctx: Replacement, x: str, approximate: str | None = None) -> str:
    """Writes the operator if `approximate` is a string, else the decomposition that ONNX Runtime fuses.

    ONNX Runtime fuses a division by the root of two, but not a product with its inverse.
    """
    if approximate is not None:
        return ctx.emit_later("Gelu", x, approximate=approximate)[0]
    error = ctx.emit("Erf", ctx.emit("Div", x, math.sqrt(2)))
    return ctx.emit("Mul", ctx.emit("Mul", x, ctx.emit("Add", error, 1)), 0.5)


def resize(ctx: Replacement, images: str, times: list[int], is_last: bool, is_smooth: bool) -> str:
    """Writes one Resize with constant scales, whose images have channels first."""
    scales = ctx.constant([1, 1, *times], "float32")
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    places = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"} if is_smooth else nearest
    images = ctx.emit("Transpose", images, perm=[0, 3, 1, 2]) if is_last else images
    images = ctx.emit("Resize", images, "", scales, **places)
    return ctx.emit("Transpose", images, perm=[0, 2, 3, 1]) if is_last else images


def _emit(operator: str, domain: str, ctx: Replacement, *inputs: str, **attributes: Any) -> str:
    return ctx.emit(operator, *inputs, domain=domain, **attributes)


# Each function accepts the inputs of the operator, and its attributes by name.
FORMS: dict[str, Callable[..., str | list[str]]] = {
    **{operator: partial(_recurrence, operator) for operator in ("LSTM", "GRU", "RNN")},
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "GroupNormalization": group_normalization,
    "Gelu": gelu,
    "ConvTranspose": transposed_convolution,
    **{operator: partial(_emit, operator, "") for operator in ("Celu", "HardSigmoid", "HardSwish", "Shrink")},
    "Resize": resize,
    **{operator: partial(_emit, operator, opsets.LATER_DOMAIN) for operator in ("RotaryEmbedding", "TensorScatter")},
}


@handler("PyFuncStateless")
def named_operator(ctx: Replacement, *inputs: str) -> str | list[str]:
    """Writes the operator, or its fastest decomposition."""
    try:
        operator, attributes = json.loads(ctx.attribute("token"))
    except json.JSONDecodeError:  # a `tf.numpy_function` of the model
        raise ValueError("Only Python runs its code.") from None
    return FORMS[operator](ctx, *inputs, **attributes)
