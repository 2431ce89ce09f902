"""An attribute or argument of the layer with another value, numbers that fit, a convention that is two of them."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, call, given, with_attributes, with_numbers
from keras_pe.export.parity.diagnosis.sites.other_values import UNTRIED, other_values, sibling
from keras_pe.export.results import Array, Cause

_CAUSES = {
    "layout": Cause.WRONG_LAYOUT,
    "start_index": Cause.START_INDEX_OFF,
    "endpoint": Cause.OTHER_CONVENTION,
    "max_timescale": Cause.OTHER_CONVENTION,
    "min_timescale": Cause.OTHER_CONVENTION,
}
_MOST_TOGETHER = 4  # numbers of a layer that are fitted together


def other_attributes(fault: LayerFault) -> Edits:
    """Yields the layer with each of its attributes changed; the activations last, since there are many of them."""
    layer = fault.call.layer
    if not (hasattr(layer, "get_config") and hasattr(layer, "variables")):
        return
    config = layer.get_config()
    for name, value in sorted(config.items(), key=lambda item: item[0].endswith("activation")):
        for said, other in other_values(name, value):
            text = f"with {name}={said} instead of {_said(value)}"
            yield Edit(_cause_of([name]), text, partial(with_attributes, change={name: other}))
    if (kind := sibling(layer)) is not None:
        yield Edit(Cause.OTHER_OPERATION, f"as a {kind.__name__}", partial(with_attributes, change={}, kind=kind))
    yield from _conventions(config)
    yield from _numbers(fault, config)
    yield from _within(config)


def _within(config: Mapping[str, Any]) -> Edits:
    """Attributes of the layers within, such as the two of a `Bidirectional`, in all that have them at once."""
    held = {name: value for name, value in config.items() if isinstance(value, dict) and "build_config" in value}
    names = dict.fromkeys(name for value in held.values() for name in value["config"])
    for name in sorted(names, key=lambda name: name.endswith("activation")):
        of_each = {key: value["config"][name] for key, value in held.items() if name in value["config"]}
        first = next(iter(of_each.values()))
        for said, other in other_values(name, first):
            change = {key: {**held[key], "config": {**held[key]["config"], name: other}} for key in of_each}
            text = f"holding layers of {name}={said} instead of {_said(first)}"
            yield Edit(_cause_of([name]), text, partial(with_attributes, change=change))


def _conventions(config: Mapping[str, Any]) -> Edits:
    """Two attributes of a position encoding at once: a convention is often both."""
    if not {"layout", "endpoint", "start_index"} <= set(config):
        return
    endpoint = {"endpoint": not config["endpoint"]}
    layouts = [layout for _, layout in other_values("layout", config["layout"])]
    changes = [{**endpoint, "layout": layout} for layout in layouts]
    if isinstance(config["start_index"], int):
        changes += [{**endpoint, "start_index": config["start_index"] + k} for k in (1, -1, 2)]
        changes += [{"layout": layout, "start_index": config["start_index"] + k} for layout in layouts for k in (1, -1)]
    for change in changes:
        said = ", ".join(f"{name}={value!r}" for name, value in change.items())
        yield Edit(Cause.OTHER_CONVENTION, f"with {said}", partial(with_attributes, change=change))


def _numbers(fault: LayerFault, config: Mapping[str, Any]) -> Edits:
    """Each number of the layer, those that it keeps for itself too, as it fits the artifact's numbers; then all."""
    own = {name: v for name, v in config.items() if isinstance(v, float) and name not in UNTRIED}
    private = {n: v for n, v in vars(fault.call.layer).items() if n.startswith("_") and isinstance(v, float)}
    values = {**own, **private}
    together = [tuple(values)] if 1 < len(values) <= _MOST_TOGETHER else []
    for names in [*((name,) for name in values), *together]:
        start = {name: values[name] for name in names}
        yield NumericEdit(start, with_numbers, _cause_of, partial(_said_of_numbers, start))


def _said_of_numbers(start: Mapping[str, float], moved: Mapping[str, str]) -> str:
    return "with " + " and ".join(f"{name}={value} instead of {start[name]:.6g}" for name, value in moved.items())


def _cause_of(names: list[str]) -> Cause:
    """Returns what other values of some attributes are called."""
    causes = {_CAUSES.get(name) for name in names}
    known = causes.pop() if len(causes) == 1 else None
    return known or Cause.attribute(*(name.strip("_") for name in names))


def _said(value: Any) -> str:
    """Returns an attribute in a word: a function that was described is said by its name."""
    described = isinstance(value, dict) and isinstance(value.get("config"), str)
    return repr(value["config"]) if described else repr(value)


def with_arguments(cause: Cause, said: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Edit:
    """Returns the edit that gives a call other arguments by name, which are made of those that it has."""

    def compute(fault: LayerFault) -> Array:
        arguments = given(fault)
        return call(fault.call.layer, {**arguments, **change(arguments)}, fault)

    return Edit(cause, said, compute)


def without(*names: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Returns what leaves arguments out."""
    return lambda _: dict.fromkeys(names)


def other_arguments(fault: LayerFault) -> Edits:
    """Yields the layer without each argument that it may go without, and as it computes in training."""
    import keras

    parameters = inspect.signature(fault.call.layer.call).parameters
    for name, value in given(fault).items():
        is_optional = parameters[name].default is None and "mask" not in name
        if is_optional and any(map(keras.ops.is_tensor, keras.tree.flatten(value))):
            yield with_arguments(Cause.DROPPED_INPUT, f"without `{name}`", without(name))
    if "training" in parameters:
        said = "as in training, by the statistics of the batch," if hasattr(fault.call.layer, "moving_mean") else ""
        yield with_arguments(Cause.TRAINING_MODE, said or "as in training", in_training)


def in_training(_: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what lets a layer compute as in training."""
    return {"training": True}
