"""Calls of ONNX operators in a traced TensorFlow graph, and the reasons why layers are exported without such a call."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Unfused:
    """The reasons why layers stay several operators, recorded during a trace."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, str, str]] = []

    def note(self, operator: str, reason: str) -> None:
        """Records that the currently traced layer becomes several operators instead of one."""
        import tensorflow as tf

        self._noted.append((f"{tf.get_current_name_scope()}/", operator, reason))

    def to_json(self, path_of: Callable[[str], str], found: Mapping[str, Mapping[str, str]]) -> str | None:
        """Returns the reasons by layer and operator as metadata of a file; None without reasons.

        Args:
            path_of: Returns the path of the layer of a TensorFlow scope.
            found: The reasons that the rules report for the graph.
        """
        reasons = {path: dict(each) for path, each in found.items()}
        for scope, operator, reason in self._noted:
            reasons.setdefault(path_of(scope), {})[operator] = reason
        return json.dumps(reasons, sort_keys=True) if reasons else None


def call_operator(operator: str, inputs: Sequence[Any], shapes: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    """Returns the float32 results of a call in the traced graph, which a handler later replaces by an ONNX operator.

    Args:
        operator: The ONNX name of the operator.
        inputs: The inputs of the operator.
        shapes: The shape of each result.
        attributes: The attributes of the operator.
    """
    import tensorflow as tf

    token = json.dumps([operator, attributes])
    # `PyFuncStateless` accepts and returns any tensors, and TensorFlow's optimizer does not change it.
    results = tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=["float32"] * len(shapes))
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
