"""Edits of the statements in a layer's code: another expression, as in a size, or in a table that NumPy computes."""

import ast
import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from numbers import Number
from types import FunctionType
from typing import Any

import numpy as np

from keras_pe.export.model.watch.changed_code import ChangedCode, changed_code, functions_run, other_numbers
from keras_pe.export.model.watch.code_places import CodePlace, is_users_module
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.operations import tensors_in
from keras_pe.export.model.watch.temporary_patches import one_at_a_time
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.inside_calls import Tape, owner_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, made_without_weights, trial
from keras_pe.export.results import Array, Cause

OTHER_EXPRESSION = Cause.attribute("expression")
_OTHER_CONSTANT = Cause.attribute("constant")

Numbers = dict[str, Any]
"""Attributes of a layer with numbers, by name."""
Line = tuple[str, int]
"""A file, and the number of a line."""


def other_statements(
    tape: Tape, fault: LayerFault, suspects: Collection[Line] = (), *, is_larger: bool = False
) -> Edits:
    """Yields one other expression in a statement of the functions that make the layer, or that its call runs.

    Args:
        tape: The operations of the call.
        fault: The call.
        suspects: The lines whose statements change. By default, all statements without operations change.
        is_larger: Whether to yield the larger changes, as `changed_code`, and other fractional numbers.
    """
    layer, kept = fault.call.layer, cache(_kept_numbers)
    lines = {(place.file, place.line) for operation in tape.operations for place in operation.places}

    def is_changed(file: str, numbers: range) -> bool:
        of_statement = {(file, number) for number in numbers}
        return not of_statement.isdisjoint(suspects) if suspects else of_statement.isdisjoint(lines)

    makers, parts = defaultdict[FunctionType, list[int]](list), users_layers(owner_of(fault))
    for position, part in enumerate(parts):
        for function in functions_run(partial(_numbers_made, part, contextlib.nullcontext())) if kept(part) else ():
            makers[function].append(position)
    names = {name for part in parts for name in kept(part)}
    called = functions_run(partial(_run, layer, fault))
    for find in (partial(changed_code, is_larger=True), other_numbers) if is_larger else (changed_code,):
        for function in dict.fromkeys((*makers, *called)):
            is_file_changed, positions = partial(is_changed, function.__code__.co_filename), makers.get(function, [])
            own = _Changes(kept, positions, function in called)
            for change in find(function, partial(_may_change, is_file_changed, names if positions else ())):
                yield own.edit(change) if isinstance(change, ChangedCode) else own.fitted_number(*change)


@dataclass(frozen=True)
class _Changes:
    """The edits by changes in the code of a function.

    Attributes:
        kept: Returns the attributes of a layer that still have the numbers of its constructor.
        positions: The positions, among the user's layers, of those that the function makes.
        is_called: Whether the call runs the function.
    """

    kept: Callable[[Any], Numbers]
    positions: Sequence[int]
    is_called: bool

    def edit(self, change: ChangedCode) -> Edit:
        """Returns the edit by a change."""
        made = cache(partial(_changed_numbers, self.kept, change, self.positions))
        compute = partial(_compute_changed, change, made, is_called=self.is_called)
        description = f"with `{change.text}` instead of `{change.places[0].text}`"
        return Edit(OTHER_EXPRESSION, description, compute, places=change.places)

    def fitted_number(self, place: CodePlace, own: float, change: Callable[[float], ChangedCode | None]) -> NumericEdit:
        """Returns the edit by another number, of at most four digits, as a person writes it."""

        def compute(fault: LayerFault, numbers: Mapping[str, float]) -> Array | None:
            changed = change(float(f"{numbers['constant']:.4g}"))
            return None if changed is None else self.edit(changed).compute(fault)

        return NumericEdit({"constant": own}, compute, lambda _: _OTHER_CONSTANT, places=(place,))


def users_layers(owner: Any) -> list[Any]:
    """Returns a layer and its inner layers, without those of libraries."""
    layers = all_layers(owner) if hasattr(owner, "_flatten_layers") else [owner]  # an operation has none
    return [each for each in layers if is_users_module(type(each).__module__)]


def _numbers_made(part: Any, context: contextlib.AbstractContextManager[None]) -> Numbers:
    """Returns the attributes with numbers of a layer that is made like another one; nothing if that fails."""
    with contextlib.suppress(Exception), context, trial():  # a user's constructor may raise any error
        made = made_without_weights(part, {}, type(part))
        return {name: value for name, value in vars(made).items() if _is_number(value)}
    return {}


def _kept_numbers(part: Any) -> Numbers:
    """Returns the attributes of a layer that still have the numbers of its constructor."""
    made = _numbers_made(part, contextlib.nullcontext())
    return {name: value for name, value in made.items() if _is_equal(value, getattr(part, name, None))}


def _changed_numbers(
    kept: Callable[[Any], Numbers], change: ChangedCode, positions: Sequence[int], owner: Any
) -> list[tuple[Any, Numbers]]:
    """Returns the attributes that a change in the code gives other numbers, for some of the layers in a layer."""
    found = list[tuple[Any, Numbers]]()
    for part in (each for position, each in enumerate(users_layers(owner)) if position in positions):
        own, made = kept(part), _numbers_made(part, change.run())
        changed = {name: made[name] for name in own.keys() & made.keys() if not _is_equal(made[name], own[name])}
        found += [(part, changed)] if changed else []
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_number, value))
    return isinstance(value, Number | np.ndarray | np.generic)


def _copy_arrays(value: Any) -> Any:
    """Returns copies of arrays and lists. A deep copy of a list of Keras also copies its layer."""
    import keras

    return keras.tree.map_structure(copy.copy, value)


def _is_equal(one: Any, other: Any) -> bool:
    import keras

    parts = [keras.tree.flatten(each) for each in (one, other)]
    return len(parts[0]) == len(parts[1]) and all(map(np.array_equal, *parts))


def _may_change(is_changed: Callable[[range], bool], kept: Collection[str], statement: ast.stmt) -> bool:
    """Whether a statement is in lines that change, computes something, and gives a layer numbers alone."""
    head = {ast.For: "iter", ast.If: "test"}.get(type(statement))
    last = getattr(statement, head).end_lineno if head else statement.end_lineno
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    given = {each.attr for each in targets if isinstance(each, ast.Attribute)}
    is_copy = bool(given) and isinstance(getattr(statement, "value", None), ast.Name)
    is_computed = given <= {*kept} and not is_copy
    return is_computed and is_changed(range(statement.lineno, (last or statement.lineno) + 1))


def _run(layer: Any, fault: LayerFault) -> Any:
    """Calls a layer with copies of the lists among its arguments, which changed code may append to."""
    import keras

    given = keras.tree.map_structure(lambda leaf: leaf, (list(fault.call.arguments), dict(fault.call.keywords)))
    with trial():
        return layer.call(*given[0], **given[1])


def _compute_changed(
    change: ChangedCode, made: Callable[[Any], list[tuple[Any, Numbers]]], fault: LayerFault, *, is_called: bool
) -> Array:
    """Returns the output of a call with a change in its code, and with the numbers that the changed code makes."""
    owner = owner_of(fault)
    given = made(owner)
    if not given and not is_called:
        return fault.expected
    before = [(each, dict(vars(each))) for each in users_layers(owner)]
    with one_at_a_time, change.run():
        try:
            for part, own in before:  # changed code may write to an array
                vars(part).update({name: _copy_arrays(value) for name, value in own.items() if _is_number(value)})
            for part, numbers in given:
                vars(part).update(numbers)
            return as_array(tensors_in(_run(fault.call.layer, fault))[fault.index])
        finally:
            for part, own in before:
                for name in vars(part).keys() - own.keys():
                    del vars(part)[name]
                vars(part).update(own)
