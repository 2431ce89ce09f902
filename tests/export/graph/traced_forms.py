"""Traces functions of TensorFlow in the forms of LiteRT, and compares them with TensorFlow."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_pe.export.graph.litert_forms import litert_forms


def trace_forms(function: Callable[..., Any], specs: Sequence[tf.TensorSpec], *options: Any) -> Any:
    """Returns a function traced for inputs of these shapes and types, with the options of `litert_forms`."""
    with litert_forms(*options):
        return tf.function(function, input_signature=list(specs), autograph=False).get_concrete_function()


def operator_types(traced: Any) -> set[str]:
    return {operator.type for operator in traced.graph.get_operations()}


def assert_traced_agrees(traced: Any, expected: Any, inputs: Sequence[np.ndarray], *, atol: Any = 0.0) -> None:
    """Fails unless a traced function returns the expected arrays, or those of the function that was traced."""
    tensors = [tf.constant(x) for x in inputs]
    truths = tf.nest.flatten(expected(*tensors) if callable(expected) else expected)
    for number, (actual, truth) in enumerate(zip(tf.nest.flatten(traced(*tensors)), truths, strict=True)):
        allowed = atol(truth) if callable(atol) else atol
        np.testing.assert_allclose(actual, truth, rtol=0, atol=allowed, err_msg=f"output {number}")
