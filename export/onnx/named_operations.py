"""Operations of Keras that ONNX has one operator for, traced as one call of it.

TensorFlow traces a layer normalization as nine elementwise operators, which no runtime recognizes any more.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

from keras_pe.export.model.watch.keras_internals import replaced_operations
from keras_pe.export.onnx.attention import attention
from keras_pe.export.onnx.operator_calls import call_operator


def named_operations() -> contextlib.AbstractContextManager[None]:
    """Lets `keras.ops`, and with it the layers, be traced so in this thread, where a runtime computes the same."""
    return replaced_operations(
        nn={"gelu": _gelu, "hard_silu": _hard_silu, "dot_product_attention": attention},
        normalizations={"layer_normalization": _layer_normalization, "rms_normalization": _rms_normalization},
    )


def _layer_normalization(
    usual: Callable[..., Any],
    x: Any,
    gamma: Any = None,
    beta: Any = None,
    axis: Any = -1,
    epsilon: float | None = None,
    rms_scaling: bool = False,
) -> Any:
    sizes = _normalized_sizes(x, axis)
    if sizes is None or rms_scaling or not _are_of_rank([gamma, beta], len(sizes)):
        return usual(x, gamma, beta, axis, epsilon, rms_scaling)
    return _normalization("LayerNormalization", usual, x, [gamma, beta], sizes, epsilon)


def _rms_normalization(
    usual: Callable[..., Any], x: Any, scale: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Any:
    sizes = _normalized_sizes(x, axis)
    if sizes is None or not _are_of_rank([scale], len(sizes)):
        return usual(x, scale, axis, epsilon)
    return _normalization("RMSNormalization", usual, x, [scale], sizes, epsilon)


def _normalization(
    operator: str, usual: Callable[..., Any], x: Any, parameters: list[Any], sizes: list[int], epsilon: float | None
) -> Any:
    """Returns the call of an operator that normalizes the last axes, each of which has a parameter's."""
    import keras
    import tensorflow as tf

    epsilon = keras.config.epsilon() if epsilon is None else float(epsilon)
    defaults = [tf.ones(sizes), tf.zeros(sizes)]
    given = [
        default if parameter is None else keras.ops.convert_to_tensor(parameter, "float32")
        for parameter, default in zip(parameters, defaults, strict=False)
    ]
    axes = tuple(range(-len(sizes), 0))
    attributes = {"axis": axes[0], "epsilon": epsilon}
    return _differentiable(
        lambda *tensors: call_operator(operator, tensors, [x.shape], attributes)[0],
        lambda values, *tensors: usual(values, *tensors, axis=axes, epsilon=epsilon),
        keras.ops.convert_to_tensor(x),
        *given,
    )


def _gelu(usual: Callable[..., Any], x: Any, approximate: bool = True) -> Any:
    if approximate:  # ONNX Runtime recognizes this one in the operators that TensorFlow traces
        return usual(x, approximate)
    return _activation("Gelu", lambda values: usual(values, approximate), x)


def _hard_silu(usual: Callable[..., Any], x: Any) -> Any:
    return _activation("HardSwish", usual, x)


def _activation(operator: str, usual: Callable[..., Any], x: Any) -> Any:
    import keras

    x = keras.ops.convert_to_tensor(x)
    if x.dtype != "float32":
        return usual(x)
    return _differentiable(lambda values: call_operator(operator, [values], [values.shape], {})[0], usual, x)


def _differentiable(call: Callable[..., Any], usual: Callable[..., Any], *tensors: Any) -> Any:
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


def _normalized_sizes(x: Any, axis: Any) -> list[int] | None:
    """Returns the sizes of the axes that are normalized; None unless they are known, and the last of float32."""
    import keras

    if keras.backend.standardize_dtype(x.dtype) != "float32" or x.shape is None or getattr(x.shape, "rank", 1) is None:
        return None
    rank = len(x.shape)
    axes = sorted(each % rank for each in ([axis] if isinstance(axis, int) else axis)) if rank else []
    sizes = list(x.shape[-len(axes) :]) if axes else []
    if not axes or axes != list(range(rank - len(axes), rank)) or None in sizes or math.prod(sizes) == 0:
        return None
    return sizes


def _are_of_rank(parameters: list[Any], rank: int) -> bool:
    return all(parameter is None or len(parameter.shape) == rank for parameter in parameters)
