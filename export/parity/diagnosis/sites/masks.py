"""The masks of a call: left out, inverted, one step off; the causal one too."""

import inspect
import itertools
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import as_array, as_tensor, call, given
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.results import Cause


def other_masks(fault: LayerFault) -> Edits:
    """Yields the layer without its masks, all and then each, with others; with and without a causal one."""
    import keras

    layer = fault.call.layer
    try:
        arguments = given(fault)
    except TypeError:
        return

    def edit(cause: Cause, said: str, change: dict[str, Any]) -> Edit:
        return Edit(cause, said, partial(call, layer, {**arguments, **change}, fault))

    names = [
        name
        for name, value in arguments.items()
        if "mask" in name and value is not None and any(map(keras.ops.is_tensor, keras.tree.flatten(value)))
    ]
    for dropped in [names, *([name] for name in names)] if len(names) > 1 else [names] if names else []:
        said = f"without {' and '.join(f'`{name}`' for name in dropped)}"
        yield edit(Cause.DROPPED_MASK, said, dict.fromkeys(dropped))
    for name in names:
        yield edit(Cause.INVERTED_MASK, f"with `{name}` inverted", {name: keras.ops.logical_not(arguments[name])})
    for said, change in _shifted(arguments, names).items():
        yield edit(Cause.SHIFTED_MASK, f"with {said}", change)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = Cause.ADDED_CAUSAL_MASK if causal else Cause.DROPPED_CAUSAL_MASK
        yield edit(cause, f"with use_causal_mask={causal}", {"use_causal_mask": causal})


def _shifted(arguments: dict[str, Any], names: list[str]) -> dict[str, dict[str, Any]]:
    """Returns masks of one step for another that let through one step less or more, the causal one too."""
    import keras

    shifted = dict[str, dict[str, Any]]()
    tensors = [name for name in names if keras.ops.is_tensor(arguments[name]) and len(arguments[name].shape) > 2]
    for name, step in itertools.product(tensors, (-1, 1)):
        mask = as_array(arguments[name])
        other = np.roll(mask, step, -1)
        other[..., -1 if step < 0 else 0] = step > 0
        shifted[f"`{name}` shifted by {step}"] = {name: as_tensor(other)}
    query, value = arguments.get("query"), arguments.get("value")
    if arguments.get("use_causal_mask") and query is not None and value is not None:
        for step in (-1, 1):
            mask = np.tri(query.shape[1], value.shape[1], step, dtype=bool)[None]
            change = {"use_causal_mask": False, "attention_mask": as_tensor(mask)}
            shifted[f"a causal mask shifted by {step}"] = change
    return shifted
