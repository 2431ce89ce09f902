"""Calls of ONNX operators in a traced TensorFlow graph, and the reasons why layers are exported without such a call."""

import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from keras_pe.export.artifacts.rewrite import Rewrite
from keras_pe.export.graph.trace import TRACERS
from keras_pe.export.model.watch.operations import users_line


class Unfused:
    """The layers that stay several operators, recorded during a trace."""

    def __init__(self) -> None:
        self._noted: list[Rewrite] = []

    def note(self, operator: str, reason: str) -> None:
        """Records that the currently traced layer becomes several operators instead of one."""
        import tensorflow as tf

        file, line = users_line(traceback.extract_stack(), TRACERS) or (None, None)
        self._noted.append(Rewrite(f"{tf.get_current_name_scope()}/", operator, reason, file, line))

    def rewrites(self, path_of: Callable[[str], str]) -> list[Rewrite]:
        """Returns the records.

        Args:
            path_of: Returns the path of the layer of a TensorFlow scope.
        """
        return [replace(each, layer=path_of(each.layer)) for each in self._noted]


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
