"""An ONNX operator as one call in the graph that TensorFlow traces, and the reasons where there is none."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Unfused:
    """The reasons, noted while a model is traced."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, str, str]] = []

    def note(self, operator: str, reason: str) -> None:
        """Notes that the layer which is traced now computes an operator in several."""
        import tensorflow as tf

        self._noted.append((f"{tf.get_current_name_scope()}/", operator, reason))

    def to_json(self, path_of: Callable[[str], str], found: Mapping[str, Mapping[str, str]]) -> str | None:
        """Returns the metadata of a file: reasons by operator by layer; None where there are none.

        Args:
            path_of: Returns the path of the layer that a scope of TensorFlow's belongs to.
            found: The reasons that rules have found in the graph.
        """
        reasons = {path: dict(each) for path, each in found.items()}
        for scope, operator, reason in self._noted:
            reasons.setdefault(path_of(scope), {})[operator] = reason
        return json.dumps(reasons, sort_keys=True) if reasons else None


def call_operator(operator: str, inputs: Sequence[Any], shapes: Sequence[Any], attributes: dict[str, Any]) -> list[Any]:
    """Returns the results of an operator, in float32, as a call in the traced graph which a handler turns into it.

    Args:
        operator: ONNX's name.
        inputs: What it takes.
        shapes: The shape of each of its results.
        attributes: Its attributes.
    """
    import tensorflow as tf

    token = json.dumps([operator, attributes])
    # Of all that TensorFlow has, this takes and returns any tensors, and its optimizer leaves it as it is.
    results = tf.raw_ops.PyFuncStateless(input=inputs, token=token, Tout=["float32"] * len(shapes))
    return [tf.ensure_shape(result, shape) for result, shape in zip(results, shapes, strict=True)]


def differentiable(call: Callable[..., Any], usual: Callable[..., Any], *tensors: Any) -> Any:
    """Returns what a call returns, with the derivative of the usual function: a model may ask for it.

    What is computed eagerly while a graph is traced, such as a constant, is so by the usual function.
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
