"""Edits of states: other rows, other states, other places along an axis, or 16 bits."""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.artifacts.state import State
from keras_pe.export.results import HALF, Array, Cause
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

_SHIFTS = (1, -1, 2, -2)
_FAR_SHIFTS = (3, -3, 4, -4)  # only for several states at once, or near the fault: a deep decoder has many single ones
_NEAR = 2  # a file may exchange two states of one layer, or of two adjacent layers
_RANK = 4  # axes of a cache: batch, heads, rows and channels

Change = Callable[[Mapping[str, Array], Mapping[str, Array]], Arrays]
"""Returns the changed states by input, from the states, and from values at places that the change leaves free."""


@dataclass(frozen=True)
class StateEdit:
    """A change of the states of a call.

    Attributes:
        cause: The cause if the change explains an artifact.
        description: The sentence about the change, with `{}` for the verb.
        states: The inputs of the changed states.
        change: The change.
    """

    cause: Cause
    description: str
    states: tuple[str, ...]
    change: Change


def state_edits(
    states: Sequence[State], cases: Sequence[Mapping[str, Array]], wrong: Collection[str]
) -> Iterator[StateEdit]:
    """Yields the changes of states, the change of all states before the change of one.

    Args:
        states: The states.
        cases: The inputs of each case, the case with most rows first. A cache may have another length in each.
        wrong: The outputs that differ.
    """
    inputs = cases[0]
    every = tuple(each.input for each in states)
    roles = _roles(every)
    groups = [*dict.fromkeys([every, *roles, *((name,) for name in every)])]
    near = _near_fault(states, wrong)
    several = [names for names in groups if len(names) > 1 or near.issuperset(names)]
    rows = [tuple(s.input for s in states if s.input in group and _has_rows(s, inputs)) for group in groups]
    for names in dict.fromkeys(filter(None, rows)):
        yield from _other_orders(names, inputs, 0, "row", Cause.STATE_OF_ANOTHER_ROW)
    for names in several if all(inputs[name].ndim == _RANK for name in every) else ():
        yield from _other_orders(names, inputs, 1, "head", Cause.EXCHANGED_STATES)
    for description, source in _orders_of_states(every, roles):
        arrays = [(inputs[name], inputs[other]) for name, other in source.items()]
        if all(one.shape == other.shape and one.dtype == other.dtype for one, other in arrays):
            yield StateEdit(Cause.EXCHANGED_STATES, f"It {{}} {description}.", tuple(source), _exchange(source))
    for names in groups:
        description = f"It {{}} {quote_names(names)} as before the first call."
        start = {s.input: s for s in states if s.input in names}
        yield StateEdit(Cause.STATE_NOT_CARRIED, description, names, _restart(start))
    for names in groups:
        are_alike = len({inputs[name].shape for name in names}) == 1
        has_rows = any(_has_rows(each, inputs) for each in states if each.input in names)
        shapes = [case[names[0]].shape for case in cases] if are_alike else []
        axes, sizes = _axes_of_tokens(states, names), enumerate(map(max, zip(*shapes, strict=True)))
        for axis, size in ((axis, size) for axis, size in sizes if not axes or axis in axes):
            shifts = _SHIFTS + (_FAR_SHIFTS if names in several else ())
            for steps in () if axis == 0 and has_rows else (each for each in shifts if abs(each) < size):
                description = f"It {{}} {quote_names(names)} shifted by {steps} along axis {axis}."
                yield StateEdit(Cause.SHIFTED_STATE, description, names, _shift(names, axis, steps))


def rounded_states(states: Sequence[State], inputs: Mapping[str, Array]) -> Iterator[StateEdit]:
    """Yields the changes of states that a file keeps in 16 bits."""
    names = tuple(each.input for each in states if inputs[each.input].dtype == np.float32)
    for dtype in HALF if names else ():
        description = f"It {{}} {quote_names(names)} rounded to {dtype}."
        yield StateEdit(Cause.HALF_PRECISION, description, names, _round(names, dtype))


def _axes_of_tokens(states: Sequence[State], names: Sequence[str]) -> set[int]:
    """Returns the axes along which states have a row for each token; empty for states without such an axis."""
    shapes = [each.shape for each in states if each.input in names]
    return {
        axis for shape in shapes for axis, size in enumerate(shape) if axis and (isinstance(size, str) or size == 0)
    }


def _near_fault(states: Sequence[State], wrong: Collection[str]) -> set[str]:
    """Returns the states of the layer at fault, if the states are in the order of the layers.

    A layer that reads a wrong state may return the right one. The first wrong one is its own, or that of a later layer.
    """
    places = (place for place, each in enumerate(states) if each.output in wrong)
    first = next(places, len(states))
    return {each.input for each in states[max(first - _NEAR, 0) : first + 1]}


def _other_orders(
    names: tuple[str, ...], inputs: Mapping[str, Array], axis: int, noun: str, cause: Cause
) -> Iterator[StateEdit]:
    """Yields the other orders of states along an axis, each once."""
    size = min(inputs[name].shape[axis] for name in names)
    distinct = {tuple(order(size)): text for text, order in [*_ORDERS.items()][::-1]} if size > 1 else {}
    for text, order in ((text, _ORDERS[text]) for text in _ORDERS if text in distinct.values()):
        change = _each(names, lambda array, _, order=order: array.take(order(array.shape[axis]), axis))  # type: ignore[misc]
        yield StateEdit(cause, f"It {{}} {quote_names(names)} with {text.format(noun)}.", names, change)


def _roles(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the names of states in groups with one role each, such as the keys or the values of all layers."""
    ends = [re.split(r"[./]", name)[-1] for name in names]
    return [tuple(name for name, end in zip(names, ends, strict=True) if end == own) for own in dict.fromkeys(ends)]


def _orders_of_states(
    names: Sequence[str], roles: Sequence[tuple[str, ...]]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields a description of each wrong order of states, and the state that is read in place of another."""
    for one, other in itertools.combinations(roles, 2):
        if len(one) == len(other) > 1:
            source = dict(zip(one + other, other + one, strict=True))
            yield f"{quote_names(one)} exchanged with {quote_names(other)}", source
    for steps in (1, -1) if any(len(role) > 1 for role in roles) else ():
        moved = {name: role[(place + steps) % len(role)] for role in roles for place, name in enumerate(role)}
        yield f"the states of the {'next' if steps > 0 else 'previous'} layer in each layer", moved
    for place, name in enumerate(names):
        for near in names[place + 1 : place + 1 + _NEAR]:
            yield f"{name!r} and {near!r} exchanged", {name: near, near: name}


def _has_rows(state: State, inputs: Mapping[str, Array]) -> bool:
    """Returns whether the first axis of a state is the batch, with several rows."""
    array = inputs[state.input]
    others = [each for name, each in inputs.items() if name != state.input and each.ndim]
    return array.ndim > 0 and len(array) > 1 and any(len(each) == len(array) for each in others)


_ORDERS: Mapping[str, Callable[[int], Array]] = {
    "its {}s moved by 1": lambda size: np.roll(np.arange(size), 1),
    "its {}s moved by -1": lambda size: np.roll(np.arange(size), -1),
    "its {}s reversed": lambda size: np.arange(size)[::-1],
    "its first {0} in every {0}": lambda size: np.zeros(size, np.int64),
    "its last {0} in every {0}": lambda size: np.full(size, size - 1),
}
"""The rows or heads that a file may read instead of its own ones, from their number."""


def _each(names: Sequence[str], change: Callable[[Array, Array | None], Array]) -> Change:
    return lambda values, free: {**values, **{name: change(values[name], free.get(name)) for name in names}}


def _exchange(source: Mapping[str, str]) -> Change:
    return lambda values, _: {**values, **{name: values[other] for name, other in source.items()}}


def _round(names: Sequence[str], dtype: str) -> Change:
    def round_to(array: Array, _: Array | None) -> Array:
        with np.errstate(over="ignore"):  # values beyond the range are infinite in the file too
            return array.astype(as_dtype(dtype)).astype(array.dtype)

    return _each(names, round_to)


def _restart(states: Mapping[str, State]) -> Change:
    def start(values: Mapping[str, Array], _: Mapping[str, Array]) -> Arrays:
        own = {name: state.start(len(values[name]) if values[name].ndim else 1) for name, state in states.items()}
        return {**values, **own}

    return start


def _shift(names: Sequence[str], axis: int, steps: int) -> Change:
    """Returns a shift. The places without a value are zero, unless they are free."""

    def shift(array: Array, free: Array | None) -> Array:
        moved = np.roll(array, steps, axis)
        edge = (*[slice(None)] * axis, slice(None, steps) if steps > 0 else slice(steps, None))
        moved[edge] = 0 if free is None or free.shape != array.shape else free[edge]
        return moved

    return _each(names, shift)


def quote_names(names: Sequence[str] | Mapping[str, object]) -> str:
    quoted = [repr(name) for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
