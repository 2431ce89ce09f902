"""The layer at fault given something else: without its masks, padded already, past what is computed before it."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.again import (
    Variant,
    as_array,
    as_tensor,
    call,
    given,
    with_attributes,
    with_input,
)
from keras_pe.export.parity.diagnosis.alternatives import activations
from keras_pe.export.parity.diagnosis.fitting import fit_to_fault
from keras_pe.export.parity.diagnosis.probe import LayerFault
from keras_pe.export.parity.results import Array

_LIMITS = ((0.0, 1.0), (-1.0, 1.0), (0.0, 6.0), (0.0, np.inf))  # at which values are usually cut


def other_masks(fault: LayerFault) -> Iterator[Variant]:
    """The layer without its masks, all and then each; with and without a causal one."""
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
        said = " and ".join(f"`{name}`" for name in dropped)
        changed = {**arguments, **dict.fromkeys(dropped)}
        yield (
            "dropped mask",
            f"Without {said} the layer gives the artifact's numbers.",
            partial(call, layer, changed, fault),
        )
    for name in names:
        changed = {**arguments, name: keras.ops.logical_not(arguments[name])}
        text = f"With `{name}` inverted the layer gives the artifact's numbers."
        yield "inverted mask", text, partial(call, layer, changed, fault)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = "dropped causal mask" if not causal else "added causal mask"
        text = f"With use_causal_mask={causal} the layer gives the artifact's numbers."
        yield cause, text, partial(call, layer, {**arguments, "use_causal_mask": causal}, fault)


def other_paddings(fault: LayerFault) -> Iterator[Variant]:
    """A layer that pads by itself, given what is padded already, as other frameworks do."""
    config, image = fault.call.layer.get_config(), fault.call.inputs[0] if fault.call.inputs else np.zeros(())
    sizes = config.get("kernel_size") or config.get("pool_size")
    if config.get("padding") != "same" or not isinstance(sizes, list | tuple) or image.ndim != len(sizes) + 2:
        return
    dilations = config.get("dilation_rate") or (1,) * len(sizes)
    reach = [(size - 1) * step for size, step in zip(sizes, dilations, strict=True)]
    for said, widths in (
        ("as much before as after", [(r // 2, r // 2) for r in reach]),
        ("all of it before", [(r, 0) for r in reach]),
        ("all of it after", [(0, r) for r in reach]),
    ):
        padded = np.pad(image, [(0, 0), *widths, (0, 0)])
        text = f"Padded with zeros, {said}, the layer gives the artifact's numbers."
        yield "other padding", text, partial(_padded, fault, image, padded)


def _padded(fault: LayerFault, image: Array, padded: Array) -> Array:
    call_of_padded = replace(fault.call, arguments=(as_tensor(padded), *fault.call.arguments[1:]))
    return with_attributes(replace(fault, call=call_of_padded), {"padding": "valid"})


def altered_inputs(fault: LayerFault) -> Iterator[Variant]:
    """What a layer is given with something done to it on the way, as an artifact may that holds the right one too."""
    for number, array in enumerate(fault.call.inputs):
        if array.dtype.kind != "f" or fault.through is not None:
            continue
        given_so = "Given its input" if len(fault.call.inputs) == 1 else f"Given input {number}"
        ends = "the layer gives the artifact's numbers."
        for factor in fit_to_fault(fault, (1.0,), lambda factor, array=array: with_input(fault, array, factor * array)):
            yield (
                "scaled input",
                f"{given_so} times {factor:.6g} {ends}",
                partial(with_input, fault, array, factor * array),
            )
        for axis in range(1, array.ndim):
            turned = np.flip(array, axis)
            yield (
                "reversed input",
                f"{given_so} reversed along axis {axis} {ends}",
                partial(with_input, fault, array, turned),
            )
        for low, high in _LIMITS:
            cut = array.clip(low, high)
            yield (
                "clipped input",
                f"{given_so} cut at {low:g} and {high:g} {ends}",
                partial(with_input, fault, array, cut),
            )
        for name, function in activations().items() if not _is_recurrent(fault.call.layer) else ():
            said = f"{given_so} through {name} {ends}"
            yield "other activation", said, partial(_activated, fault, array, function, array)


def _is_recurrent(layer: Any) -> bool:
    """Whether a call of a layer goes step by step, and takes its time."""
    import keras

    return isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional)


def other_inputs(fault: LayerFault) -> Iterator[Variant]:
    """What the code of the layer around this one computes for it, left out, or with another activation."""
    for loose in fault.loose:
        for path, output in fault.before:
            text = f"the output of {path!r} in the place of what the code around it computes, the layer"
            numbers = "gives the artifact's numbers."
            yield "operation left out", f"Given {text} {numbers}", partial(with_input, fault, loose, output)
            for name, function in activations().items():
                said = f"Given {name} of {text} {numbers}"
                yield "other activation", said, partial(_activated, fault, loose, function, output)


def _activated(fault: LayerFault, loose: Array, function: Callable[[Any], Any], output: Array) -> Array:
    return with_input(fault, loose, as_array(function(as_tensor(output))))
