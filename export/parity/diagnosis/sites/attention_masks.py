"""The masks of a call: left out, inverted, one step off; the causal one too."""

import inspect
import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edits
from keras_pe.export.parity.diagnosis.layer_call import as_array, as_tensor, given
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.sites.arguments import with_arguments
from keras_pe.export.results import Cause


def other_masks(fault: LayerFault) -> Edits:
    """Yields the layer without its masks, all and then each, with others; with and without a causal one."""
    import keras

    layer = fault.call.layer
    try:
        arguments = given(fault)
    except TypeError:
        return

    names = [
        name
        for name, value in arguments.items()
        if "mask" in name and value is not None and any(map(keras.ops.is_tensor, keras.tree.flatten(value)))
    ]
    for dropped in [names, *([name] for name in names)] if len(names) > 1 else [names] if names else []:
        said = f"without {' and '.join(f'`{name}`' for name in dropped)}"
        yield with_arguments(Cause.DROPPED_MASK, said, partial(without_masks, dropped))
    for name in names:
        yield with_arguments(Cause.INVERTED_MASK, f"with `{name}` inverted", partial(_inverted, name))
    yield from _shifted(arguments, names)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = Cause.ADDED_CAUSAL_MASK if causal else Cause.DROPPED_CAUSAL_MASK
        yield with_arguments(cause, f"with use_causal_mask={causal}", lambda _: {"use_causal_mask": causal})


def _shifted(arguments: Mapping[str, Any], names: list[str]) -> Edits:
    """Yields masks of one step for another that let through one step less or more, the causal one too."""
    import keras

    tensors = [name for name in names if keras.ops.is_tensor(arguments[name]) and len(arguments[name].shape) > 2]
    for name, step in itertools.product(tensors, (-1, 1)):
        rolled = partial(_rolled, name=name, step=step)
        yield with_arguments(Cause.SHIFTED_MASK, f"with `{name}` shifted by {step}", rolled)
    if arguments.get("use_causal_mask") and {"query", "value"} <= set(arguments):
        for step in (-1, 1):
            said = f"with a causal mask shifted by {step}"
            yield with_arguments(Cause.SHIFTED_MASK, said, partial(_causal, step=step))


def without_masks(names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments without some masks, nor those that Keras keeps on tensors, where layers inside find them."""
    import keras

    def plain(leaf: Any) -> Any:
        return as_tensor(as_array(leaf)) if keras.ops.is_tensor(leaf) else leaf

    return {**keras.tree.map_structure(plain, dict(arguments)), **dict.fromkeys(names)}


def _inverted(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import keras

    return {name: keras.ops.logical_not(arguments[name])}


def _rolled(arguments: Mapping[str, Any], name: str, step: int) -> dict[str, Any]:
    mask = np.roll(as_array(arguments[name]), step, -1)
    mask[..., -1 if step < 0 else 0] = step > 0
    return {name: as_tensor(mask)}


def _causal(arguments: Mapping[str, Any], step: int) -> dict[str, Any]:
    mask = np.tri(arguments["query"].shape[1], arguments["value"].shape[1], step, dtype=bool)[None]
    return {"use_causal_mask": False, "attention_mask": as_tensor(mask)}
