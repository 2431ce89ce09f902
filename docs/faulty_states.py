"""Faults of the gallery in states: files and a runtime that read, return or keep the state of a model wrongly."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from fault_examples import Example, seeded
from keras import layers as L  # noqa: N812
from mistaken_runtimes import Remembering
from onnx import helper, numpy_helper
from right_files import faulty_runtime

from keras_pe.export import Cause, check_parity, export_onnx

_H, _C = "memory_state_h", "memory_state_c"


def _model() -> keras.Model:
    x = keras.Input((None, 4), batch_size=2, name="x")
    y = L.LSTM(6, stateful=True, return_sequences=True, name="memory")(x)
    return seeded(keras.Model(x, L.Dense(2, name="score")(y), name="model"))


def _edit(change: Callable[[Any], Any]) -> Callable[[Path], keras.Model]:
    """Returns a function that exports a model with a state, and changes the file."""

    def make(path: Path) -> keras.Model:
        model = _model()
        export_onnx(model, path, state="arguments")
        proto = onnx.load(path)
        change(proto)
        onnx.save(proto, path)
        return model

    return make


def _read(names: Mapping[str, str], *nodes: Any) -> Callable[[Any], Any]:
    """Returns a change: the file reads other tensors instead of some of its inputs, from some new nodes."""

    def change(proto: Any) -> None:
        for node in proto.graph.node:
            for place, name in enumerate(node.input):
                node.input[place] = names.get(name, name)
        for node in reversed(nodes):
            proto.graph.node.insert(0, node)

    return change


def _reverse_rows(proto: Any) -> None:
    flipped = [
        helper.make_node("ReverseSequence", [name, "rows"], [f"{name}_flipped"], time_axis=0, batch_axis=1)
        for name in (_H, _C)
    ]
    _read({name: f"{name}_flipped" for name in (_H, _C)}, *flipped)(proto)
    # ReverseSequence takes the number of rows for each of the six units.
    shape = helper.make_node("Shape", [_H], ["rows_only"], start=0, end=1)
    proto.graph.initializer.append(numpy_helper.from_array(np.array([6], np.int64), "units"))
    proto.graph.node.insert(0, helper.make_node("Expand", ["rows_only", "units"], ["rows"]))
    proto.graph.node.insert(0, shape)


def _shift(proto: Any) -> None:
    """Moves the units of a state by one, and leaves the first one zero."""
    for name, value in (("from", [0]), ("to", [5]), ("axis", [1]), ("pads", [0, 1, 0, 0])):
        proto.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), f"shift_{name}"))
    cut = helper.make_node("Slice", [_H, "shift_from", "shift_to", "shift_axis"], ["memory_cut"])
    _read({_H: "memory_moved"}, cut, helper.make_node("Pad", ["memory_cut", "shift_pads"], ["memory_moved"]))(proto)


def _zero(proto: Any) -> None:
    zeros = [helper.make_node("Sub", [name, name], [f"{name}_zero"]) for name in (_H, _C)]
    _read({name: f"{name}_zero" for name in (_H, _C)}, *zeros)(proto)


def _other_start(proto: Any) -> None:
    record = next(each for each in proto.metadata_props if each.key == "keras_pe.state")
    record.value = json.dumps([{**state, "initial": 0.5} for state in json.loads(record.value)])


def _whole(path: Path) -> keras.Model:
    model = _model()
    export_onnx(model, path, state="arguments")
    return model


FAULTY_STATES: Mapping[Cause, Example] = {
    Cause.STATE_NOT_RESET: Example(
        "The runtime has one session, which keeps the state of the last user for the next.",
        _whole,
        partial(check_parity, runtimes=faulty_runtime(Remembering)),
    ),
    Cause.STATE_NOT_CARRIED: Example("The file begins each call at zero.", _edit(_zero)),
    Cause.STATE_OF_ANOTHER_ROW: Example("The rows of the states are reversed.", _edit(_reverse_rows)),
    Cause.SHIFTED_STATE: Example("The units of a state are moved by one.", _edit(_shift)),
    Cause.EXCHANGED_STATES: Example("The two states were connected by their order.", _edit(_read({_H: _C, _C: _H}))),
    Cause.WRONG_INITIAL_STATE: Example("The record of the first values was changed.", _edit(_other_start)),
}
"""The fault of each cause that concerns a state."""
