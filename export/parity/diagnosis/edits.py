"""Edits of a call, which a site proposes in one case, and proposals for a changed array of a call."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, on_arrays, with_inputs
from keras_pe.export.parity.diagnosis.relations.scaling import cause_of_factor
from keras_pe.export.results import Array, Cause, OtherValue

Compute = Callable[[LayerFault], Array | None]
"""Returns the output of an edited call; None if it has another shape than the output."""


_LARGEST_EPSILON = 0.1  # the defaults of libraries go up to 0.01
_LIMITS = ((0.0, 1.0), (-1.0, 1.0), (0.0, 6.0), (0.0, np.inf))  # usual limits of clipping


@dataclass(frozen=True)
class Edit:
    """One change of a call.

    Attributes:
        cause: The cause of the finding.
        description: The change, as in "with epsilon=0.1 instead of 0.001"; for an output, the values that replace it.
        compute: Returns the output of the edited call, for the call of any case.
        is_output: Whether the edit replaces the output, without a call of the layer.
        of: The name of the called object in the sentence.
        parameters: The parameters of the layer that the edit changes.
        layer: The path of the layer to report; None for the layer of the call.
        places: The places in a user's code that may be at fault; empty if the edit changes the layer as a whole.
    """

    cause: Cause
    description: str
    compute: Compute
    is_output: bool = False
    of: str = "the layer"
    parameters: tuple[OtherValue, ...] = ()
    layer: str | None = None
    places: tuple[CodePlace, ...] = ()

    def __str__(self) -> str:
        if self.places:
            return f"The artifact's numbers follow from {' or '.join(map(str, self.places))}, {self.description}."
        if self.is_output:
            return f"The artifact has {self.description}."
        return f"{self.description[:1].upper()}{self.description[1:]}, {self.of} returns the artifact's numbers."


@dataclass(frozen=True)
class NumericEdit:
    """A change of a call by numbers that are fitted.

    Attributes:
        start: The model's numbers.
        compute: Returns the output with other numbers.
        cause: Returns the cause for changed numbers.
        description: Returns the change in words, with each number as text. By default, the words name both values of
            each number.
        is_output: As in `Edit`.
        places: As in `Edit`.
        note: The end of the default words.
    """

    start: Mapping[str, float]
    compute: Callable[[LayerFault, Mapping[str, float]], Array | None]
    cause: Callable[[Mapping[str, float]], Cause]
    description: Callable[[Mapping[str, str]], str] | None = None
    is_output: bool = False
    places: tuple[CodePlace, ...] = ()
    note: str = ""

    def describe(self, numbers: Mapping[str, str]) -> str:
        """Returns the change in words."""
        if self.description is not None:
            return self.description(numbers)
        pairs = (f"{name}={value} instead of {self.start[name]:.6g}" for name, value in numbers.items())
        return f"with {' and '.join(pairs)}{self.note}"

    def edit(self, numbers: Mapping[str, float]) -> Edit:
        """Returns the edit with fitted numbers."""
        description = self.describe({name: f"{value:.6g}" for name, value in numbers.items()})
        values = tuple(OtherValue(name, self.start[name], value) for name, value in numbers.items())
        compute = partial(_at_numbers, self, numbers)
        return Edit(self.cause(numbers), description, compute, self.is_output, parameters=values, places=self.places)


def _at_numbers(edit: NumericEdit, numbers: Mapping[str, float], fault: LayerFault) -> Array | None:
    """Returns the output with fitted numbers; None with too large an epsilon, which fits changed weights by chance."""
    if any("epsilon" in name and not 0 <= value <= _LARGEST_EPSILON for name, value in numbers.items()):
        return None
    return edit.compute(fault, {**edit.start, **numbers})


Edits = Iterator[Edit | NumericEdit]
Site = Callable[[LayerFault], Edits]
"""A function that yields edits of one part of a call."""


def edits_of_makers(fault: LayerFault, site: Callable[[LayerFault], Iterator[Edit]], kinds: str) -> Edits:
    """Yields edits of the calls that returned the inputs, as edits of the call that takes the inputs.

    Args:
        fault: The call.
        site: Yields the edits of a call that returned an input.
        kinds: The kinds of the inputs' types, as in NumPy.
    """
    for number, maker in fault.around.made_by.items():
        if fault.call.inputs[number].dtype.kind in kinds:
            for edit in site(replace(fault, call=maker, index=0)):
                yield replace(edit, compute=partial(_after_maker, number, edit.compute), layer=maker.layer_path)


def _after_maker(number: int, compute: Compute, fault: LayerFault) -> Array | None:
    """Returns the layer's output if the call that made an input returned something else of equal size."""
    maker, own = fault.around.made_by.get(number), fault.call.inputs[number]
    array = None if maker is None else compute(replace(fault, call=maker, index=0))
    return None if array is None or array.size != own.size else with_inputs(fault, [(own, array.reshape(own.shape))])


@dataclass(frozen=True)
class Proposal:
    """A possible change of an array, to be tested by the values that are computed from it.

    Attributes:
        cause: The cause of the finding.
        template: The change in words, with the array's name in braces.
        change: Returns the changed array from the correct array.
        numbers: The numbers of the change, such as an axis, by name.
    """

    cause: Cause
    template: str
    change: Callable[[Array], Array]
    numbers: Mapping[str, Any] = field(default_factory=dict)


NEUTRAL = (
    Proposal(Cause.MISSING_VALUES, "{} at zero", np.zeros_like),
    Proposal(Cause.MISSING_VALUES, "{} at one", np.ones_like),
)
"""An array that was left out of an addition, and of a multiplication."""

DOUBLED = Proposal(Cause.ADDED_TWICE, "{} added twice", lambda array: 2 * array)
INVERTED = Proposal(Cause.INVERTED_MASK, "{} inverted", np.logical_not)
ALL_TRUE = Proposal(Cause.DROPPED_MASK, "{} true everywhere", np.ones_like)
FIRST_ROW = Proposal(
    Cause.REPEATED_ROW,
    "the first row of {} instead of every row",
    lambda array: np.broadcast_to(array[:1], array.shape),
)
CLIPPED = tuple(
    Proposal(
        Cause.CLIPPED_INPUT,
        f"{{}} clipped at {low:g} and {high:g}",
        partial(np.clip, a_min=low, a_max=high),
        {"low": low, "high": high},
    )
    for low, high in _LIMITS
)


def exchanged_axes(array: Array) -> Iterator[Proposal]:
    """Yields an array with two axes of equal size exchanged."""
    for one, other in itertools.combinations(range(array.ndim), 2):
        if array.shape[one] == array.shape[other] > 1:
            swapped = partial(np.swapaxes, axis1=one, axis2=other)
            description = f"axes {one} and {other} of {{}} exchanged"
            yield Proposal(Cause.TRANSPOSED_AXES, description, swapped, {"axes": (one, other)})


def backwards(array: Array, first_axis: int = 0, cause: Cause = Cause.REVERSED_VALUES) -> Iterator[Proposal]:
    """Yields an array reversed along each axis."""
    for axis in range(first_axis, array.ndim):
        yield Proposal(cause, f"{{}} reversed along axis {axis}", partial(np.flip, axis=axis), {"axis": axis})


def rolls(array: Array) -> Iterator[Proposal]:
    """Yields an array whose values are moved by one along an axis, the last to the first or the reverse."""
    for axis, shift in itertools.product((axis for axis, size in enumerate(array.shape) if size > 2), (1, -1)):
        change = partial(np.roll, shift=shift, axis=axis)
        description = f"{{}} rolled by {shift} along axis {axis}"
        yield Proposal(Cause.SHIFTED_ROWS, description, change, {"axis": axis, "shift": shift})


def block_orders(array: Array) -> Iterator[Proposal]:
    """Yields an array with the values of an axis in blocks, instead of interleaved."""
    for axis, size in enumerate(array.shape):
        for count in (each for each in range(2, size) if size % each == 0):
            order = np.arange(size).reshape(-1, count).T.ravel()
            description = f"{{}} in {count} blocks along axis {axis}, instead of with every {count}th value together"
            change = partial(np.take, indices=order, axis=axis)
            yield Proposal(Cause.OTHER_ORDER, description, change, {"axis": axis, "blocks": count})


def powers(array: Array) -> Iterator[Proposal]:
    """Yields the root and the square, for a variance that replaces a deviation or the reverse."""
    if (array > 0).all():
        yield Proposal(Cause.CHANGED_VALUES, "the root of {}", np.sqrt)
        yield Proposal(Cause.CHANGED_VALUES, "the square of {}", np.square)


def integer_steps(first: float = -np.inf, last: float = np.inf) -> Iterator[Proposal]:
    """Yields integers that are one larger or smaller, limited to a first and a last value."""
    for step, description in ((1, "plus"), (-1, "minus")):
        change = partial(_step_integers, step=step, first=first, last=last)
        yield Proposal(Cause.SHIFTED_INPUT, f"{{}} {description} 1", change, {"step": step})


def through(functions: Mapping[str, Callable[[Any], Any]], cause: Cause) -> Iterator[Proposal]:
    """Yields an array after each of some functions of tensors."""
    for name, function in functions.items():
        yield Proposal(cause, f"{{}} through {name}", on_arrays(function), {"function": name})


def _step_integers(array: Array, step: int, first: float, last: float) -> Array:
    return (array.astype(np.int64) + step).clip(first, last)


@dataclass(frozen=True)
class Place:
    """An array of a call.

    Attributes:
        how: The relation of the layer to the array, as in "with" or "given"; empty for an output.
        name: The name of the array in a sentence.
        apply: Returns the layer's output after a function has changed the array.
        is_output: As in `Edit`.
        code: The operation that the array belongs to, as `places` in `Edit`.
    """

    how: str
    name: str
    apply: Callable[[Callable[[Array], Array], LayerFault], Array | None]
    is_output: bool = False
    code: tuple[CodePlace, ...] = ()

    def edits(self, proposals: Iterable[Proposal]) -> Edits:
        """Yields an edit for each proposal."""
        for each in proposals:
            description = f"{self.how} {each.template.format(self.name)}".lstrip()
            parameters = tuple(OtherValue(name, None, value) for name, value in each.numbers.items())
            compute = partial(self.apply, each.change)
            yield Edit(each.cause, description, compute, self.is_output, parameters=parameters, places=self.code)

    def replacement(self, cause: Cause, description: str, other: Callable[[LayerFault], Array]) -> Edit:
        """Returns the edit that replaces the array by another one."""
        return Edit(cause, description, lambda fault: self.apply(lambda _: other(fault), fault), self.is_output)

    def scaling_edit(self, cause: Cause) -> NumericEdit:
        """Returns the edit that multiplies the array by a number. A factor of -1 has its own cause."""

        def cause_of(numbers: Mapping[str, float]) -> Cause:
            return cause_of_factor(numbers["factor"]) if cause is Cause.SCALED_VALUES else cause

        return self._numeric("factor", 1.0, np.multiply, "times", cause_of)

    def offset_edit(self) -> NumericEdit:
        """Returns the edit that adds a number to the array."""
        return self._numeric("offset", 0.0, np.add, "plus", lambda _: Cause.OFFSET_VALUES)

    def _numeric(
        self,
        name: str,
        start: float,
        function: Callable[[Array, float], Array],
        word: str,
        cause: Callable[[Mapping[str, float]], Cause],
    ) -> NumericEdit:
        return NumericEdit(
            {name: start},
            lambda fault, numbers: self.apply(lambda array: function(array, numbers[name]), fault),
            cause,
            lambda numbers: f"{self.how} {self.name} {word} {numbers[name]}".lstrip(),
            self.is_output,
            self.code,
        )


def output_called(name: str) -> Place:
    """Returns the place of a call's output, under a name."""
    return Place("", name, lambda function, fault: function(fault.expected), is_output=True)
