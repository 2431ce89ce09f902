"""Normalizations of the last axes, and the activations that ONNX names."""

import math
from typing import Any

from keras_pe.export.onnx.handlers.replacement import Replacement

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


def _scaled(ctx: Replacement, x: str, squares: str, scale: str, attributes: dict[str, Any]) -> str:
    """Returns a tensor over its root mean square, times the scale."""
    variance = ctx.emit("Add", _mean(ctx, squares, attributes), ctx.constant_like(attributes["epsilon"], x))
    return ctx.emit("Mul", ctx.emit("Div", x, ctx.emit("Sqrt", variance)), scale)


def _mean(ctx: Replacement, x: str, attributes: dict[str, Any]) -> str:
    axes = range(attributes["axis"], 0)
    return ctx.emit_reduction("ReduceMean", x, axes)
