"""Compares an exact explanation of a layer with changes in other lines, and drops its line if one explains as much."""

import ast
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace, syntax_tree
from keras_pe.export.parity.diagnosis.code_findings import Inside
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.explanation import Explanation, explains_as_much
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.layer_code import LayerCode
from keras_pe.export.parity.diagnosis.relations import is_number, is_short
from keras_pe.export.parity.diagnosis.sites.inside_statements import OTHER_EXPRESSION
from keras_pe.export.results import Cause, OtherValue

_OF_CALLS = {Cause.OTHER_INPUT, Cause.OPERATION_LEFT_OUT}
_OF_MASKS = {Cause.OPERATION_LEFT_OUT, Cause.DROPPED_MASK}
_OF_NUMBERS = {Cause.OTHER_PADDING, Cause.attribute("iterations")}
_OF_SIGNS = {Cause.FLIPPED_SIGN, Cause.OTHER_OPERATION}
_OF_TENSORS = {Cause.OTHER_INPUT, Cause.EXCHANGED_INPUTS, Cause.OTHER_ORDER, Cause.SHIFTED_ROWS}


def finding_inside(code: LayerCode, exact: Explanation) -> Inside:
    """Returns the finding of an exact explanation. Other layers that it explains follow from it."""
    if exact.finding.line is None and exact.finding.file and exact.finding.cause != OTHER_EXPRESSION:
        exact = _by_one_of_its_lines(code, exact)
    if exact.finding.cause != OTHER_EXPRESSION:  # or the search has compared it
        for compare in (_with_alike_operations, _with_statements_of_values, _with_statements_of_operations):
            exact = compare(code, exact)
    follows = code.layers_beside if exact.is_of_all else ()
    finding = replace(exact.finding, absent=(*exact.finding.absent, *follows))
    return Inside((finding,), True, exact.is_of_all)


def _by_one_of_its_lines(code: LayerCode, exact: Explanation) -> Explanation:
    """Returns the explanation by an expression in one of the lines that an explanation may have."""
    statements = map(code.by_statement, ((), code.candidates.unproved, code.candidates.involved))
    other = next(filter(None, statements), None)
    return other if explains_as_much(other, exact) and _is_in(exact.lines, *other.line) else exact


def _is_in(lines: Collection[tuple[str, int]], file: str | None, number: int | None) -> bool:
    """Whether a line is one of some lines, or in a function that begins in one of them."""
    if file is None or number is None:
        return False
    functions = (each for each in ast.walk(syntax_tree(file)) if isinstance(each, ast.FunctionDef))
    around = (each.lineno for each in functions if each.lineno <= number <= (each.end_lineno or 0))
    return any((file, each) in lines for each in (number, *around))


def _with_alike_operations(code: LayerCode, exact: Explanation) -> Explanation:
    """Compares a factor or a summand, a call of a user's function, and a mask, with others of their kind."""
    finding = exact.finding
    added = {each.name for each in finding.parameters} & {"factor", "offset"}
    if not added and finding.cause not in _OF_CALLS | _OF_MASKS:
        return exact
    own = finding.file, finding.line
    chains = [operation.places for operation in code.tape.operations]
    around = {place for chain in chains for place in chain if own in map(_line, chain)}
    calls = {caller for _, *callers in chains for caller in callers} - around

    def is_alike(edit: Edit | NumericEdit) -> bool:
        if isinstance(edit, NumericEdit):
            return edit.start.keys() == added
        if {finding.cause, edit.cause} == _OF_MASKS:
            return True
        return {finding.cause, edit.cause} <= _OF_CALLS and not calls.isdisjoint(edit.places)

    def equal_edits(fault: LayerFault) -> Edits:
        alike = filter(is_alike, code.candidates.site(fault))
        return (each for each in alike if each.places and own not in map(_line, each.places))

    return exact.beside(code.explain(equal_edits))


def _with_statements_of_values(code: LayerCode, exact: Explanation) -> Explanation:
    """Compares the number or the table of an operation with the statements that may compute the value."""
    if exact.finding.line is not None and any(map(_is_fitted, exact.finding.parameters)):
        found = map(code.by_statement, ((), code.candidates.unproved))
        other = next((each for each in found if explains_as_much(each, exact)), None)
        if other is None:
            return exact.without_line("Nobody writes this number, so another line may compute a part of it.")
        return exact if other.line == exact.line else other
    if exact.finding.cause in _OF_NUMBERS:
        return exact.beside(code.by_statement(beside=[exact.line]))
    fixed, is_table = _table_around(code, exact.line)
    is_left_out = exact.finding.cause == Cause.OPERATION_LEFT_OUT and not _reads_weights(code, fixed)
    if not fixed or not (is_table or is_left_out):
        return exact
    statements = (code.by_statement(numbers, beside=[exact.line]) for numbers in ((), fixed))
    other = next((each for each in statements if each is not None and each.finding.cause == OTHER_EXPRESSION), None)
    return exact.beside(other)


def _is_fitted(value: OtherValue) -> bool:
    """Whether a number that a person writes has become one that a person does not write."""
    return (
        is_number(value.model) and is_number(value.artifact) and is_short(value.model) and not is_short(value.artifact)
    )


def _table_around(code: LayerCode, line: tuple[str | None, int | None]) -> tuple[set[int], bool]:
    """Returns the operations of other lines that lead to the tables in a line, and whether the line makes a table.

    A table does not depend on the layer's inputs. Other statements make the arrays among the arguments.
    """
    tape = code.tape
    own = [number for number, operation in enumerate(tape.operations) if _line(operation.place) == line]
    read = {source for number in own for source, _ in tape.sources(number) if source >= 0}
    made = {number for number in own if not tape.depends_on_inputs(number)}
    tables = {number for number in made | read if not tape.depends_on_inputs(number)}
    outside = set[int]().union(*(tape.before((number, 0)) for number in tables), tables) - set(own)
    constants = (each.value for number in own for each in tape.operations[number].constants)
    is_array = any(isinstance(value, np.ndarray) for value in constants)
    return outside or (set(own) if is_array else set()), len(made) == len(own)


def _reads_weights(code: LayerCode, numbers: Collection[int]) -> bool:
    """Whether one of some operations reads a weight."""
    import keras

    return any(isinstance(leaf, keras.Variable) for number in numbers for leaf in code.tape.operations[number].leaves)


def _with_statements_of_operations(code: LayerCode, exact: Explanation) -> Explanation:
    """Compares another operand or sign with expressions in all lines that no tensor of the artifact proves right.

    An expression is a simpler change than that of the tensors which it reads.
    """
    is_of_tensors = exact.finding.cause in _OF_TENSORS
    if exact.finding.line is None or not (is_of_tensors or exact.finding.cause in _OF_SIGNS):
        return exact
    numbers = code.candidates.unproved if is_of_tensors else code.candidates.suspected
    if code.first_located >= 0:  # its tensor shows that no later operation is at fault, and no call around it
        numbers = numbers & {code.first_located, *code.tape.before((code.first_located, 0))}
    lines = [list(map(_line, operation.places)) for operation in code.tape.operations]
    beside = {line for each in lines if exact.line in each for line in each[each.index(exact.line) :]}
    other = code.by_statement(numbers, beside=beside) if numbers else None
    is_clear = is_of_tensors and explains_as_much(other, exact) and other.finding.line is not None
    same = [number for number, each in enumerate(lines) if exact.line in each]
    if other is not None and is_clear and code.by_statement(same) is None:
        return other
    return exact.beside(other)


def _line(place: CodePlace) -> tuple[str | None, int | None]:
    return place.file, place.line
