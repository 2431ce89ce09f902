"""The layer at fault given something else: without its masks, padded already, past what is computed before it."""

import inspect
import itertools
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
from keras_pe.export.results import Array

_PADDINGS = ("reflect", "symmetric", "edge", "wrap")  # NumPy's names
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
    yield from _shifted_masks(fault, arguments, names)
    if "use_causal_mask" in inspect.signature(layer.call).parameters:
        causal = not arguments.get("use_causal_mask", False)
        cause = "dropped causal mask" if not causal else "added causal mask"
        text = f"With use_causal_mask={causal} the layer gives the artifact's numbers."
        yield cause, text, partial(call, layer, {**arguments, "use_causal_mask": causal}, fault)


def _shifted_masks(fault: LayerFault, arguments: dict[str, Any], names: list[str]) -> Iterator[Variant]:
    """Masks of one step for another that let through one step less or more, the causal one too."""
    import keras

    layer, shifted = fault.call.layer, dict[str, dict[str, Any]]()
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
    for said, change in shifted.items():
        text = f"With {said} the layer gives the artifact's numbers."
        yield "shifted mask", text, partial(call, layer, {**arguments, **change}, fault)


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
        yield "other padding", text, partial(_padded, fault, padded)
    around = [(0, 0), *((r // 2, r - r // 2) for r in reach), (0, 0)]
    for mode in _PADDINGS:
        text = f"Padded by {mode!r} the layer gives the artifact's numbers."
        yield "other padding", text, partial(_padded_by, fault, image, around, mode)


def _padded_by(fault: LayerFault, image: Array, widths: list[tuple[int, int]], mode: Any) -> Array:
    return _padded(fault, np.pad(image, widths, mode))


def _padded(fault: LayerFault, padded: Array) -> Array:
    call_of_padded = replace(fault.call, arguments=(as_tensor(padded), *fault.call.arguments[1:]))
    return with_attributes(replace(fault, call=call_of_padded), {"padding": "valid"})


def altered_inputs(fault: LayerFault) -> Iterator[Variant]:
    """What a layer is given with something done to it on the way, as an artifact may that holds the right one too."""
    if fault.through is not None:
        return
    ends = "the layer gives the artifact's numbers."
    for number, array in enumerate(fault.call.inputs):
        which = "its input" if len(fault.call.inputs) == 1 else f"input {number}"
        changes = _of_integers(fault, array) if array.dtype.kind in "iu" else _of_floats(fault, array)
        for cause, said, other in changes if array.dtype.kind in "iuf" else ():
            yield cause, f"Given {which} {said} {ends}", partial(with_input, fault, array, other)
        for name, function in activations().items() if _may_be_bent(fault, array) else ():
            text = f"Given {which} through {name} {ends}"
            yield "other activation", text, partial(_activated, fault, array, function, array)
        for other in (other for place, other in fault.reordered if place == number):
            yield "reordered input", f"Given {which} in another order {ends}", partial(with_input, fault, array, other)
        for path, other in _taken_instead(fault, array):
            yield (
                "other input",
                f"Given {path} in the place of {which} {ends}",
                partial(with_input, fault, array, other),
            )


def _of_floats(fault: LayerFault, array: Array) -> Iterator[tuple[str, str, Array]]:
    for factor in fit_to_fault(fault, (1.0,), lambda factor: with_input(fault, array, factor * array)):
        yield "scaled input", f"times {factor:.6g}", factor * array
    for axis in range(1, array.ndim):
        yield "reversed input", f"reversed along axis {axis}", np.flip(array, axis)
    for low, high in _LIMITS:
        yield "clipped input", f"cut at {low:g} and {high:g}", array.clip(low, high)


def _of_integers(fault: LayerFault, array: Array) -> Iterator[tuple[str, str, Array]]:
    last = getattr(fault.call.layer, "input_dim", 2**31) - 1
    for step in (1, -1):
        yield "shifted input", f"{'plus' if step > 0 else 'minus'} 1", (array.astype(np.int64) + step).clip(0, last)


def _taken_instead(fault: LayerFault, array: Array) -> Iterator[tuple[str, Array]]:
    """Yields what a layer may have been given instead: what others returned, one of its steps, or their mean."""
    for path, output in fault.before:
        if output.shape == array.shape:
            if not np.array_equal(output, array):
                yield f"the output of {path!r}", output
        else:
            for said, step in (("first", output[:, 0]), ("last", output[:, -1])):
                yield f"the {said} step of the output of {path!r}", step
            yield f"the mean over the steps of the output of {path!r}", output.mean(1)


def _may_be_bent(fault: LayerFault, array: Array) -> bool:
    return array.dtype.kind == "f" and not _is_recurrent(fault.call.layer)


def _is_recurrent(layer: Any) -> bool:
    """Whether a call of a layer goes step by step, and takes its time."""
    import keras

    return isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional)


def other_inputs(fault: LayerFault) -> Iterator[Variant]:
    """What the code of the layer around this one computes for it, left out, or with another activation."""
    for loose in fault.loose:
        for path, output in fault.before:
            if output.shape != loose.shape:
                continue
            text = f"the output of {path!r} in the place of what the code around it computes, the layer"
            numbers = "gives the artifact's numbers."
            yield "operation left out", f"Given {text} {numbers}", partial(with_input, fault, loose, output)
            for name, function in activations().items():
                said = f"Given {name} of {text} {numbers}"
                yield "other activation", said, partial(_activated, fault, loose, function, output)


def _activated(fault: LayerFault, loose: Array, function: Callable[[Any], Any], output: Array) -> Array:
    return with_input(fault, loose, as_array(function(as_tensor(output))))
