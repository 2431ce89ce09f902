"""TimeDistributed over a dynamic number of steps: all steps in one call, as rows of a longer batch.

Keras 3.15 traces as many steps as the batch has rows there; a fixed number it takes one by one. In inference a layer
treats each row by itself, so that one call of all rows of all steps returns the same; what mixes rows is found out when
the artifact is run beside Keras.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from keras_pe.export.model.watch.keras_internals import replaced_functions


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
