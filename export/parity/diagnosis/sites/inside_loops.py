"""Edits of the loops in a layer's code: fewer iterations, one more, or the first one left out."""

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace, syntax_tree
from keras_pe.export.model.watch.operations import Operation, again, tensors_in
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inside_calls import Tape, Tapes, replaced_arguments
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.results import Array, Cause

_MOST_FEWER = 3  # iterations to leave out at the end

_Key = tuple[tuple[CodePlace, ...], int]
"""The calls that lead to an operation of an iteration, and the number of equal calls before it in the iteration."""

_Run = list[dict[_Key, int]]
"""The iterations of one run of a loop, with the numbers of their operations."""

_Carried = Mapping[tuple[_Key, int], tuple[_Key, int]]
"""The results that the next iteration reads, each with the operand that has the value before the iteration."""

_Replaced = Callable[[Tape, _Run, _Carried, dict[int, Any]], Mapping[int, Callable[[], list[Any]]]]
"""Returns functions for the results of some operations of a run, from the tensors that are replaced so far."""


def other_iterations(tapes: Tapes, tape: Tape, places: Collection[CodePlace]) -> Edits:
    """Yields other numbers of iterations of each loop around some places. The statement of the loop is the place."""
    runs_of = cache(_runs)  # the edits share the runs of each case
    for place, runs in runs_of(tape).items():
        inside = {tape.operations[number].place for run in runs for each in run for number in each.values()}
        if inside.isdisjoint(places):
            continue
        edits: dict[str, _Replaced] = {"without its first iteration": _without_first}
        for count in range(1, min(_MOST_FEWER + 1, max(map(len, runs)))):
            edits[f"with {count} {'iterations' if count > 1 else 'iteration'} fewer"] = partial(_without_last, count)
        edits["with 1 iteration more"] = _with_another
        for description, change in edits.items():
            compute = partial(_replay, place, change, tapes, runs_of)
            yield Edit(Cause.attribute("iterations"), description, compute, places=(place,))


def _replay(
    place: CodePlace,
    change: _Replaced,
    tapes: Tapes,
    runs_of: Callable[[Tape], Mapping[CodePlace, list[_Run]]],
    fault: LayerFault,
) -> Array:
    """Returns the layer's output with a change of each run of a loop."""
    tape, current = tapes(fault.call), dict[int, Any]()
    numbers = {id(operation): number for number, operation in enumerate(tape.operations)}
    runs = runs_of(tape)[place]
    carried = _find_carried(tape, max(runs, key=len))
    results = {number: made for run in runs for number, made in change(tape, run, carried, current).items()}

    def result(operation: Operation, arguments: Any, names: Any) -> Any:
        made = again(operation, arguments, names)
        number = numbers[id(operation)]
        if number not in results:
            return made
        current.update({id(old): new for old, new in zip(operation.outputs, tensors_in(made), strict=True)})
        return results[number]()

    return tape.replay({tape.operations[number].place: result for number in results}, fault.index, current)


def _find_carried(tape: Tape, run: _Run) -> _Carried:
    """Returns the results of an iteration that the next one reads, each with the operand before the iteration."""
    first, second = run[:2]
    made = {
        id(output): (key, place)
        for key, number in first.items()
        for place, output in enumerate(tape.operations[number].outputs)
    }
    return {
        made[id(operand)]: (key, place)
        for key, number in second.items()
        for place, operand in enumerate(tape.operations[number].operands)
        if id(operand) in made and key in first
    }


def _without_last(
    count: int, tape: Tape, run: _Run, carried: _Carried, current: dict[int, Any]
) -> Mapping[int, Callable[[], list[Any]]]:
    """Replaces the results of the last iteration by those of an earlier one, or by the values before the loop."""
    last = run[-1]
    if count >= len(run):
        return {last[key]: partial(_before, tape, run[0], carried, current, key) for key in last}
    end = run[-1 - count]
    return {number: partial(_now, tape, current, end[key]) for key, number in last.items() if key in end}


def _without_first(
    tape: Tape, run: _Run, carried: _Carried, current: dict[int, Any]
) -> Mapping[int, Callable[[], list[Any]]]:
    """Replaces the results of the first iteration that the second one reads by the values before the loop."""
    return {number: partial(_before, tape, run[0], carried, current, key) for key, number in run[0].items()}


def _before(
    tape: Tape, iteration: Mapping[_Key, int], carried: _Carried, current: Mapping[int, Any], key: _Key
) -> list[Any]:
    """Returns the values before an iteration of the results that the next one reads, and the other results."""
    entering = list[Any]()
    for place, output in enumerate(tape.operations[iteration[key]].outputs):
        reader, operand = carried.get((key, place), (None, 0))
        entering.append(output if reader is None else tape.operations[iteration[reader]].operands[operand])
    return [current.get(id(each), each) for each in entering]


def _with_another(
    tape: Tape, run: _Run, carried: _Carried, current: dict[int, Any]
) -> Mapping[int, Callable[[], list[Any]]]:
    """Replaces the results of the last iteration by those of one more, which reads the results of the last one."""
    last = run[-1]

    def results() -> list[Any]:
        own = {id(each) for number in last.values() for each in tape.operations[number].outputs}
        now = {each: tensor for each, tensor in current.items() if each not in own}
        for (key, place), (reader, operand) in carried.items():
            before = tape.operations[last[reader]].operands[operand]
            now[id(before)] = _now(tape, current, last[key])[place]
        for operation in (tape.operations[number] for number in sorted(last.values())):
            made = tensors_in(again(operation, *replaced_arguments(operation, now)))
            now |= zip(map(id, operation.outputs), made, strict=True)
        current.update({each: now[each] for each in own})
        return _now(tape, current, max(last.values()))

    return {max(last.values()): results}


def _now(tape: Tape, current: Mapping[int, Any], number: int) -> list[Any]:
    """Returns the results of an operation after the replacements so far."""
    return [current.get(id(each), each) for each in tape.operations[number].outputs]


def _runs(tape: Tape) -> dict[CodePlace, list[_Run]]:
    """Returns the runs of each loop of at least two iterations that make equal calls, by the statement of the loop."""
    calls = dict[tuple[CodePlace, tuple[CodePlace, ...]], list[tuple[int, tuple[CodePlace, ...]]]]()
    for number, operation in enumerate(tape.operations):
        levels = {loop: level for level, place in enumerate(operation.places) for loop in _loops_around(place)}
        for loop, level in levels.items():
            around, inside = operation.places[level + 1 :], operation.places[: level + 1]
            calls.setdefault((loop, around), []).append((number, inside))
    found = dict[CodePlace, list[_Run]]()
    for (loop, _), own in calls.items():
        ends = [0, *(n for n, (one, other) in enumerate(pairwise(own), 1) if other[0] > one[0] + 1), len(own)]
        for begin, end in pairwise(ends):
            found.setdefault(loop, []).append(_iterations(own[begin:end]))
    # A run of one iteration is known by a longer run of the same loop.
    known = {
        loop: [run for run in runs if all(each.keys() <= run[0].keys() == longest for each in run)]
        for loop, runs in found.items()
        for longest in [max(runs, key=len)[0].keys()]
    }
    return {loop: runs for loop, runs in known.items() if max(map(len, runs), default=0) > 1}


def _iterations(calls: Sequence[tuple[int, tuple[CodePlace, ...]]]) -> _Run:
    """Returns the iterations of a run. Each begins with the first call of the run."""
    run: _Run = []
    counts = dict[tuple[CodePlace, ...], int]()
    for number, inside in calls:
        if inside == calls[0][1]:
            run.append({})
            counts = {}
        run[-1][inside, counts.setdefault(inside, 0)] = number
        counts[inside] += 1
    return run


def _loops_around(place: CodePlace) -> Iterator[CodePlace]:
    """Yields the statements of the loops around a place in its function."""
    for node in _loops(syntax_tree(place.file)):
        if node.body[0].lineno <= place.line <= (node.body[-1].end_lineno or 0):
            yield CodePlace(place.file, node.lineno, place.function, _header(node), node.col_offset)


@lru_cache(maxsize=64)
def _loops(tree: ast.Module) -> list[ast.For | ast.While]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]


def _header(node: ast.For | ast.While) -> str:
    if isinstance(node, ast.While):
        return f"while {ast.unparse(node.test)}"
    return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
