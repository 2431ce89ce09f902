"""Edits of the calls of a user's function inside a layer: another tensor as an argument."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.model.watch.operations import Operation
from keras_pe.export.parity.diagnosis.code_graph import Source
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inside_calls import Tape, Tapes
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.operation_changes import with_leaf
from keras_pe.export.parity.diagnosis.sites.inside_operands import MOST_SOURCES, earlier_results, inputs_of
from keras_pe.export.results import Array, Cause


def other_arguments(tapes: Tapes, tape: Tape, caller: CodePlace) -> Edits:
    """Yields a call given another tensor, which several of its operations read."""
    first = tape.calls_at(caller)[0]
    given, count = _given_tensors(tape, first), len(tape.operations)
    read = Counter(source for number in first for source in tape.sources(number))
    for place, old in enumerate(given):
        for new in _arguments_like(tape, first[0], tape.tensor(old)) if read[old] > 1 else ():
            compute, call = partial(_with_other, tapes, caller, place, new, count), tape.left_out_call(old, new, first)
            if call is None:
                description = f"given {tape.name(new)} instead of {tape.name(old)}"
                yield Edit(Cause.OTHER_INPUT, description, compute, places=(caller,))
            else:
                yield Edit(Cause.OPERATION_LEFT_OUT, f"replaced by {tape.name(new)}", compute, places=(call,))


def _with_other(tapes: Tapes, caller: CodePlace, place: int, new: Source, count: int, fault: LayerFault) -> Array:
    """Returns the layer's output with another tensor as the argument at a place of each call."""
    tape, current = tapes(fault.call).within(caller), dict[int, Any]()
    if len(tape.operations) != count:
        raise ValueError("This call of the layer has other operations.")
    old = {
        id(tape.operations[number]): tape.tensor(given[place])
        for call in tape.calls_at(caller)
        for given in [_given_tensors(tape, call)]
        for number in call
    }

    def change(operation: Operation, arguments: Any, names: Any) -> Any:
        own, now = (current.get(id(each), each) for each in (old[id(operation)], tape.tensor(new)))
        return with_leaf(own, now, operation, arguments, names)

    places = (operation.place for operation in tape.operations if tape.is_in_scope(operation))
    return tape.replay(dict.fromkeys(places, change), fault.index, current)


def _given_tensors(tape: Tape, call: Sequence[int]) -> list[Source]:
    """Returns the tensors that a call is given, in the order in which its operations read them."""
    read = (source for number in call for source in tape.sources(number) if source[0] not in call)
    return list(dict.fromkeys(read))


def _arguments_like(tape: Tape, number: int, argument: Any) -> Iterator[Source]:
    """Yields inputs of the layer and earlier tensors that can replace an argument of a function, of any size."""
    others = ((each, tape.tensor(each)) for each in (*inputs_of(tape), *earlier_results(tape, number)))
    same = (source for source, each in others if each is not argument and each.dtype == argument.dtype)
    alike = (source for source in same if len(tape.tensor(source).shape) == len(argument.shape))
    return itertools.islice(alike, MOST_SOURCES)
