"""Edits of the statements in a layer's code: another expression, as in a size, or in a table that NumPy computes."""

import ast
import contextlib
import numbers
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.changed_code import ChangedCode, changed_code, functions_run
from keras_pe.export.model.watch.operations import tensors_in
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.temporary_patches import one_at_a_time
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inside_calls import Tape, owner_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, made_without_weights
from keras_pe.export.results import Array, Cause

Numbers = dict[str, Any]
Line = tuple[str, int]
"""A file, and the number of a line."""


def other_statements(tape: Tape, fault: LayerFault, suspects: Collection[Line] = ()) -> Edits:
    """Yields one other expression in a statement of the functions that make the layer, or that its call runs.

    Args:
        tape: The operations of the call.
        fault: The call.
        suspects: The lines whose statements change. By default, all statements without operations change.
    """
    layer, owner = fault.call.layer, owner_of(fault)
    kept = cache(_kept_numbers)
    names = kept(owner).keys()
    lines = {(place.file, place.line) for operation in tape.operations for place in operation.places}

    def is_changed(file: str, numbers: range) -> bool:
        of_statement = {(file, number) for number in numbers}
        return not of_statement.isdisjoint(suspects) if suspects else of_statement.isdisjoint(lines)

    makers = functions_run(partial(_numbers_made, owner, contextlib.nullcontext())) if names else []
    called = functions_run(partial(_run, layer, fault))
    for function in dict.fromkeys((*makers, *called)):
        file, is_maker = function.__code__.co_filename, function in makers
        for change in changed_code(
            function, partial(_may_change, partial(is_changed, file), names if is_maker else ())
        ):
            made = cache(partial(_changed_numbers, kept if is_maker else _no_numbers, change))
            compute = partial(_compute_changed, change, made, is_called=function in called)
            description = f"with `{change.text}` instead of `{change.place.text}`"
            yield Edit(Cause.attribute("constant"), description, compute, places=(change.place,))


def _numbers_made(owner: Any, context: contextlib.AbstractContextManager[None]) -> Numbers:
    """Returns the attributes with numbers of a layer that is made like another one; nothing if that fails."""
    with contextlib.suppress(Exception), context, state_left_alone():  # a user's constructor may raise any error
        made = made_without_weights(owner, {}, type(owner))
        return {name: value for name, value in vars(made).items() if _is_number(value)}
    return {}


def _no_numbers(_: Any) -> Numbers:
    return {}


def _kept_numbers(owner: Any) -> Numbers:
    """Returns the attributes of a layer that still have the numbers of its constructor."""
    made = _numbers_made(owner, contextlib.nullcontext())
    return {name: value for name, value in made.items() if _is_equal(value, getattr(owner, name, None))}


def _changed_numbers(kept: Callable[[Any], Numbers], change: ChangedCode, owner: Any) -> Numbers:
    """Returns the attributes that a change in the code gives other numbers."""
    own = kept(owner)
    made = _numbers_made(owner, change.run()) if own else {}
    return {name: made[name] for name in own.keys() & made.keys() if not _is_equal(made[name], own[name])}


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_number, value))
    return isinstance(value, numbers.Number | np.ndarray | np.generic)


def _is_equal(one: Any, other: Any) -> bool:
    import keras

    parts = [keras.tree.flatten(each) for each in (one, other)]
    return len(parts[0]) == len(parts[1]) and all(map(np.array_equal, *parts))


def _may_change(is_changed: Callable[[range], bool], kept: Collection[str], statement: ast.stmt) -> bool:
    """Whether a statement in some lines changes, since it computes something and gives a layer only numbers."""
    last = statement.iter.end_lineno if isinstance(statement, ast.For) else statement.end_lineno
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    given = {each.attr for each in targets if isinstance(each, ast.Attribute)}
    is_copy = bool(given) and isinstance(getattr(statement, "value", None), ast.Name)
    is_computed = given <= {*kept} and not is_copy
    return is_computed and is_changed(range(statement.lineno, (last or statement.lineno) + 1))


def _run(layer: Any, fault: LayerFault) -> Any:
    with state_left_alone():
        return layer.call(*fault.call.arguments, **fault.call.keywords)


def _compute_changed(
    change: ChangedCode, made: Callable[[Any], Numbers], fault: LayerFault, *, is_called: bool
) -> Array:
    """Returns the output of a call with a change in its code, and with the numbers that the changed code makes."""
    owner = owner_of(fault)
    given = made(owner)
    if not given and not is_called:
        return fault.expected
    before = dict(vars(owner))
    with one_at_a_time, change.run():
        try:
            vars(owner).update(given)
            return as_array(tensors_in(_run(fault.call.layer, fault))[fault.index])
        finally:
            for name in vars(owner).keys() - before.keys():
                del vars(owner)[name]
            vars(owner).update(before)
