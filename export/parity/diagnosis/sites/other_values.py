"""The edit that makes a layer again with other values of its attributes: its cause, its sentence and its parameters."""

import dis
import inspect
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit
from keras_pe.export.parity.diagnosis.layer_call import with_attributes
from keras_pe.export.results import Cause, OtherValue

_CAUSES = {
    "layout": Cause.WRONG_LAYOUT,
    "endpoint": Cause.OTHER_CONVENTION,
    "max_timescale": Cause.OTHER_CONVENTION,
    "min_timescale": Cause.OTHER_CONVENTION,
}
_MOST_REPORTED = 64  # numbers of a reported list
_MOST_WRITTEN = 4  # numbers of a list in a sentence


def other_values(
    model: Mapping[str, Any],
    artifact: Mapping[str, Any],
    change: Mapping[str, Any] | None = None,
    cause: Cause | None = None,
    note: str = "",
) -> Edit:
    """Returns the edit that makes a layer again with other values of its attributes.

    Args:
        model: The model's values, by the names to report.
        artifact: The other values, by name.
        change: The attributes of the new layer, if they have other names or forms than the reported values.
        cause: The cause; by default the one that follows from the names.
        note: The end of the sentence.
    """
    parameters = tuple(
        OtherValue(name, _reported_value(model[name]), _reported_value(value)) for name, value in artifact.items()
    )
    pairs = (f"{name}={_text_of(value)} instead of {_text_of(model[name])}" for name, value in artifact.items())
    compute = partial(with_attributes, change=artifact if change is None else change)
    description = f"with {' and '.join(pairs)}{note}"
    return Edit(cause or cause_of(artifact), description, compute, parameters=parameters)


def other_value(name: str, model: Any, artifact: Any, *options: Any, **named: Any) -> Edit:
    """Returns the edit for one attribute; see `other_values`."""
    return other_values({name: model}, {name: artifact}, *options, **named)


def cause_of(names: Iterable[str]) -> Cause:
    """Returns the cause of other values of some attributes."""
    causes = {_CAUSES.get(name) for name in names}
    known = causes.pop() if len(causes) == 1 else None
    own = [name.strip("_") for name in names]
    return known or (Cause.attribute(*own) if _known_attributes().issuperset(own) else Cause.USERS_ATTRIBUTE)


@cache
def _known_attributes() -> frozenset[str]:
    """Returns the names of the attributes that layers and operations of Keras and of this package take or set."""
    import keras

    import keras_pe

    found = (getattr(package, name) for package in (keras.layers, keras_pe) for name in dir(package))
    layers = [each for each in found if isinstance(each, type) and issubclass(each, keras.Layer)]
    operations = (each for each in keras.Operation.__subclasses__() if each.__module__.startswith("keras."))
    parents = {parent for each in layers for parent in each.__mro__ if issubclass(parent, keras.Layer)}
    classes = parents.union(operations)
    arguments = {name for each in classes for name in inspect.signature(each).parameters}
    makers = [vars(each)[name] for each in classes for name in ("__init__", "build") if name in vars(each)]
    steps = (step for each in makers if inspect.isfunction(each) for step in dis.get_instructions(each))
    return frozenset(arguments.union(step.argval.strip("_") for step in steps if step.opname == "STORE_ATTR"))


def _reported_value(value: Any) -> Any:
    """Returns an attribute as numbers, texts and tuples of these, or a serialized function by its name."""
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(map(_reported_value, list(value)[:_MOST_REPORTED]))
    if isinstance(value, np.generic):
        return value.item()
    return value if is_plain(value) else _name_of(value)


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, a boolean or None."""
    return value is None or isinstance(value, bool | int | float | str)


def _name_of(value: Any) -> str:
    is_serialized = isinstance(value, dict) and isinstance(value.get("config"), str)
    return value["config"] if is_serialized else repr(value)


def _text_of(value: Any) -> str:
    """Returns an attribute in a sentence: floats in six digits, and the first numbers of a long list."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | np.ndarray) and len(value) > _MOST_WRITTEN:
        return f"({', '.join(map(_text_of, value[:_MOST_WRITTEN]))}, ...)"
    return repr(value) if is_plain(value) or not isinstance(value, dict) else repr(_name_of(value))
