"""The one way in which a model is traced for an export, and what every trace tells of its sizes.

All steps of a TimeDistributed layer are one call. Keras 3.15 traces as many steps as the batch has rows there; a fixed
number it takes one by one. In inference a layer treats each row by itself, so that one call of all rows of all steps
returns the same; what mixes rows is found out when the artifact is run beside Keras.
"""

import contextlib
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from keras_pe.export.graph.control_flow import convertible_control_flow
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import one_at_a_time, replaced_functions
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


def steps_as_rows(layers: Iterable[Any]) -> contextlib.AbstractContextManager[None]:
    """Lets the TimeDistributed layers be traced so, where the number of steps is dynamic."""
    import keras

    wrappers = [layer for layer in layers if isinstance(layer, keras.layers.TimeDistributed)]
    return replaced_functions((each, "call", functools.partial(_call, each.layer)) for each in wrappers)


def _call(inner: Any, usual: Callable[..., Any], inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
    import keras
    from keras import ops

    if inputs.shape[1] is not None:
        return usual(inputs, training=training, mask=mask)
    batch, steps = ops.shape(inputs)[:2]

    def rows(tensor: Any) -> Any:
        return ops.reshape(tensor, (-1, *ops.shape(tensor)[2:]))

    parameters = inspect.signature(inner.call).parameters
    given = {"training": training, "mask": None if mask is None or len(mask.shape) < 2 else rows(mask)}
    options = {name: value for name, value in given.items() if name in parameters and value is not None}
    outputs = inner.call(rows(inputs), **options)
    return keras.tree.map_structure(lambda y: ops.reshape(y, (batch, steps, *ops.shape(y)[1:])), outputs)


_SIZED_BY_VALUES = re.compile("Where|Unique.*|NonMaxSuppression.*|ListDiff|DynamicPartition|StringSplit.*")


def with_sizes_of_values(signature: Signature, outputs: Mapping[str, Any]) -> Signature:
    """Returns the signature, with a dimension in place of each constant of an output that may follow from values.

    Such are as many as a condition selects, or as differ from each other. A model that was called at a few sizes may
    have returned as many each time; the graph tells that this is no constant.

    Args:
        signature: The model's, whose sizes were measured.
        outputs: The tensors of the traced graph, by name.
    """
    specs = []
    for spec in signature.outputs:
        tensor = outputs[spec.name]
        rank = len(spec.shape)
        known = [None] * rank if tensor.shape.rank is None else tensor.shape.as_list()
        doubtful = {i for i in range(rank) if known[i] is None and isinstance(spec.shape[i], int)}
        if doubtful and _is_sized_by_values(tensor):
            shape = tuple(f"{spec.name}_axis_{i}" if i in doubtful else dim for i, dim in enumerate(spec.shape))
            spec = dataclasses.replace(spec, shape=shape)
        specs.append(spec)
    return dataclasses.replace(signature, outputs=tuple(specs))


def _is_sized_by_values(tensor: Any) -> bool:
    seen, waiting = set(), [tensor.op]
    while waiting:
        operator = waiting.pop()
        if _SIZED_BY_VALUES.fullmatch(operator.type):
            return True
        if operator.name not in seen:
            seen.add(operator.name)
            waiting += [each.op for each in operator.inputs]
    return False
