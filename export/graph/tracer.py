"""The one way in which a model is traced for an export."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from keras_pe.export.graph.control_flow import convertible_control_flow
from keras_pe.export.graph.time_steps import steps_as_rows
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import one_at_a_time
from keras_pe.export.model.watch.traceable import as_traceable

_Result = TypeVar("_Result")


def traced(
    layers: Sequence[Any],
    trace: Callable[[], _Result],
    control_flow: Callable[[], AbstractContextManager[None]] = convertible_control_flow,
) -> _Result:
    """Returns what a function that traces a model returns, in a form that converters know. It may be called twice.

    Args:
        layers: The model, then every layer in it.
        trace: Traces the model, in inference mode and for any size of the dynamic dimensions.
        control_flow: Brings loops and branches into that form.

    Raises:
        Exception: Whatever the layers raise where a size is not known.
    """
    with one_at_a_time, steps_as_rows(layers), control_flow():
        return as_traceable(layers, trace)


def input_specs(signature: Signature) -> list[Any]:
    """Returns a `tf.TensorSpec` for each input, by its name."""
    import tensorflow as tf

    shapes = [[None if isinstance(dim, str) else dim for dim in spec.shape] for spec in signature.inputs]
    return [tf.TensorSpec(shape, s.dtype, s.name) for shape, s in zip(shapes, signature.inputs, strict=True)]


def named_results(model: Any, signature: Signature, arrays: Sequence[Any]) -> dict[str, Any]:
    """Returns what the model returns for its inputs in order, by name: each a tensor of its own."""
    import tensorflow as tf

    results = signature.call(model, {s.name: x for s, x in zip(signature.inputs, arrays, strict=True)})
    return {spec.name: tf.identity(results[spec.name]) for spec in signature.outputs}
