"""Calls of ONNX operators in a traced graph, which handlers turn into them."""

import json
from collections.abc import Callable, Sequence
from typing import Any


def call_operator(
    operator: str, inputs: Sequence[Any], shapes: Sequence[Any], attributes: dict[str, Any], dtype: str = "float32"
) -> list[Any]:
    """Returns the results of an operator.

    Args:
        operator: ONNX's name.
        inputs: What it takes.
        shapes: The shape of each of its results.
        attributes: Its attributes.
        dtype: The type of its results.
    """
    import tensorflow as tf

    token = json.dumps([operator, attributes])
    # Of all that TensorFlow has, this takes and returns any tensors, and its optimizer leaves it as it is.
    results = tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=[dtype] * len(shapes))
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
