"""What several layers of a model may have become at once: they are given no masks, or compute as in training."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from keras_pe.export.model.watch.keras_internals import all_layers, replaced_attributes
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.sites.attention_scores import without_masks
from keras_pe.export.parity.diagnosis.sites.attributes import in_training
from keras_pe.export.results import Array, Cause

_Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns other arguments by name for those that a layer is given."""


def several_layers(fault: LayerFault) -> Edits:
    """Yields a model without its masks, and with all of its normalizations as in training."""
    import keras

    layers = all_layers(fault.call.layer.model)
    masking = [each for each in layers if getattr(each, "mask_zero", False) or isinstance(each, keras.layers.Masking)]
    if masking:
        given = [(layer, names) for layer in layers if (names := _masks(layer))]
        changes = [(layer, partial(without_masks, names)) for layer, names in given]
        yield _edit(Cause.DROPPED_MASK, f"without the masks of {_named(masking)}", changes)
    normalizations = [layer for layer in layers if hasattr(layer, "moving_mean")]
    if len(normalizations) > 1:
        said = f"with {_named(normalizations)} as in training, by the statistics of the batch,"
        yield _edit(Cause.TRAINING_MODE, said, [(layer, in_training) for layer in normalizations])


def _named(layers: Sequence[Any]) -> str:
    return ", ".join(repr(layer.name) for layer in layers)


def _masks(layer: Any) -> list[str]:
    """Returns the names of a layer's arguments that are masks."""
    return [name for name in inspect.signature(layer.call).parameters if "mask" in name]


def _edit(cause: Cause, said: str, changes: Sequence[tuple[Any, _Change]]) -> Edit:
    """Returns the edit that calls layers with other arguments."""

    def compute(fault: LayerFault) -> Array:
        with ExitStack() as stack:
            for layer, change in changes:
                stack.enter_context(replaced_attributes(layer, {"call": partial(_called, layer.call, change)}))
            return as_array(fault.call.layer.call())

    return Edit(cause, said, compute, of="the model")


def _called(usual: Callable[..., Any], change: _Change, *args: Any, **keywords: Any) -> Any:
    bound = inspect.signature(usual).bind(*args, **keywords)
    bound.arguments.update(change(bound.arguments))
    return usual(*bound.args, **bound.kwargs)
