"""Calls of ONNX operators in a traced TensorFlow graph."""

import json
from collections.abc import Callable, Sequence
from typing import Any


def call_operator(
    operator: str,
    inputs: Sequence[Any],
    shapes: Sequence[Any],
    attributes: dict[str, Any],
    dtype: Any = "float32",
) -> list[Any]:
    """Returns the results of a call in the traced graph, which a handler later replaces by an ONNX operator.

    Args:
        operator: The ONNX name of the operator.
        inputs: The inputs of the operator.
        shapes: The shape of each result.
        attributes: The attributes of the operator.
        dtype: The dtype of every result.
    """
    import tensorflow as tf

    token = json.dumps([operator, attributes])
    # `PyFuncStateless` accepts and returns any tensors, and TensorFlow's optimizer does not change it.
    results = tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=[dtype] * len(shapes))
    return [tf.ensure_shape(result, shape) for result, shape in zip(results, shapes, strict=True)]


def differentiable(call: Callable[..., Any], usual: Callable[..., Any], *tensors: Any) -> Any:
    """Returns the result of a call, with the gradient of the usual function: a model may compute gradients.

    In eager execution, such as that of constants during a trace, the usual function is called instead.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        return usual(*tensors)

    def function(*values: Any) -> Any:
        def gradient(upstream: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(values)
                result = usual(*values)
            return tape.gradient(result, values, upstream)

        return call(*values), gradient

    return tf.custom_gradient(function)(*tensors)
