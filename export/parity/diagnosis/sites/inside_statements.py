"""Edits of the statements in a layer's code without operations, such as sizes, and tables that NumPy computes."""

import ast
import contextlib
import inspect
import numbers
from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.changed_code import (
    ChangedCode,
    assigned_attributes,
    assigned_by,
    changed_code,
    changed_statement,
    functions_run,
)
from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.temporary_patches import one_at_a_time
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inside_calls import Tape, Tapes, owner_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.results import Array, Cause


def other_statements(tapes: Tapes, tape: Tape, fault: LayerFault) -> Edits:
    """Yields one other expression in each statement without operations that a call of the layer runs.

    The statements are those of the functions that the call runs, and those that make the arrays which the layer keeps.
    """
    layer, owner = fault.call.layer, owner_of(fault)
    kept = [place for place in tape.statements if _keeps_numbers(owner, place)]
    lines = {(place.file, place.line) for operation in tape.operations for place in operation.places}
    cause = Cause.attribute("constant")
    for function in functions_run(partial(_run, layer, fault, owner, kept)):
        for change in changed_code(function, partial(_is_without, function.__code__.co_filename, lines)):
            compute = partial(_compute_changed, tapes, owner, kept, change)
            description = f"with `{change.text}` instead of `{change.place.text}`"
            yield Edit(cause, description, compute, places=(change.place,))
    for place in kept:
        for own, text, changed in changed_statement(place):
            compute = partial(_compute_changed, tapes, owner, [changed], None)
            yield Edit(cause, f"with `{text}` instead of `{own.text}`", compute, places=(own,))


def _keeps_numbers(owner: Any, place: CodePlace) -> bool:
    """Whether a statement gives a layer numbers or arrays and nothing else, and may run again."""
    values = [getattr(owner, name, None) for name in assigned_attributes(place)]
    return bool(values) and all(map(_is_number, values)) and bool(_computed_again(owner, [place]))


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_number, value))
    return isinstance(value, numbers.Number | np.ndarray | np.generic)


def _is_without(file: str, lines: Collection[tuple[str, int]], statement: ast.stmt) -> bool:
    """Whether no operation is in the lines of a statement, or in the header of a loop."""
    last = statement.iter.end_lineno if isinstance(statement, ast.For) else statement.end_lineno
    return all((file, line) not in lines for line in range(statement.lineno, (last or statement.lineno) + 1))


def _run(layer: Any, fault: LayerFault, owner: Any, kept: Collection[CodePlace]) -> None:
    with state_left_alone():
        layer.call(*fault.call.arguments, **fault.call.keywords)
    _computed_again(owner, kept)


def _computed_again(owner: Any, kept: Collection[CodePlace]) -> dict[str, Any]:
    """Returns the attributes that some statements of a layer give it, computed again."""
    names, found = inspect.unwrap(type(owner).call).__globals__, dict[str, Any]()
    for place in kept:
        with contextlib.suppress(Exception):  # a statement may read what only its function knows
            found |= assigned_by(place, owner, names)
    return found


def _compute_changed(
    tapes: Tapes, owner: Any, kept: Collection[CodePlace], change: ChangedCode | None, fault: LayerFault
) -> Array:
    before = dict(vars(owner))
    with one_at_a_time, contextlib.nullcontext() if change is None else change.run():
        try:
            vars(owner).update(_computed_again(owner, kept))
            return tapes(fault.call).output_again(fault.call, fault.index)
        finally:
            for name in vars(owner).keys() - before.keys():
                del vars(owner)[name]
            vars(owner).update(before)
