"""Operations of Keras that ONNX has one operator for, traced as one call of it.

TensorFlow traces a layer normalization as nine elementwise operators, which no runtime recognizes any more.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from keras_pe.export.model.watch.keras_internals import replaced_attention, replaced_functions, replaced_operations
from keras_pe.export.onnx.attention import attention, attention_of_layer
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.operator_calls import call_operator, differentiable
from keras_pe.export.onnx.rotary_embedding import rotary_embedding
from keras_pe.export.onnx.unfused import Unfused

_SINCE = {"LayerNormalization": 17}  # the first operator set that has it


@contextlib.contextmanager
def named_operations(layers: Sequence[Any], opset: int, unfused: Unfused) -> Iterator[None]:
    """Lets `keras.ops`, and with it the layers, be traced so in this thread, where a runtime computes the same.

    Args:
        layers: The model and every layer in it.
        opset: ONNX's operator set that the file is of.
        unfused: Is told what stays several operators.
    """
    from keras_pe.layers import rotary_position_encoding

    normalization = partial(_layer_normalization, opset, unfused)
    usual = replaced_operations(
        nn={"gelu": _gelu, "hard_silu": _hard_silu, "dot_product_attention": partial(attention, opset, unfused)},
        normalizations={"layer_normalization": normalization, "rms_normalization": _rms_normalization},
    )
    has_rotary = opset >= opsets.ROTARY_VERSION
    own = [(rotary_position_encoding, "turn_pairs", rotary_embedding)] if has_rotary else []
    of_layers = replaced_attention(layers, partial(attention_of_layer, unfused))
    with usual, of_layers, replaced_functions(own):
        yield


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
    return _activation("Gelu", lambda values: usual(values, approximate), x)


def _hard_silu(usual: Callable[..., Any], x: Any) -> Any:
    return _activation("HardSwish", usual, x)


def _activation(operator: str, usual: Callable[..., Any], x: Any) -> Any:
    import keras

    x = keras.ops.convert_to_tensor(x)
    if x.dtype != "float32":
        return usual(x)
    return differentiable(lambda values: call_operator(operator, [values], [values.shape], {})[0], usual, x)


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
