"""A runtime that is right in single calls fails if it is wrong in a sequence of calls."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from keras import layers

from keras_pe.export import Border, check_parity, export_onnx, replay_bundle, write_bundle
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import Run
from keras_pe.export.comparison.streams import Stream, expected_streams
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.model.language_model_adapter import with_cache_as_arguments
from keras_pe.export.model.watch.temporary_patches import replaced_attributes
from keras_pe.export.parity.streamed import with_streams
from keras_pe.export.progress import Budget
from keras_pe.export.results import CaseStatus, Cause, RunStatus, RuntimeResult
from keras_pe.export.runtimes.runner import Names
from tests.export.counting import Counting
from tests.export.decoders.small_decoders import own_decoder

PASSED = RuntimeResult("m.onnx", "onnx", "onnxruntime", passed=True, status=RunStatus.COMPARED)
H, C = "lstm_state_h", "lstm_state_c"
Call = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@pytest.fixture(scope="module")
def reference() -> KerasReference:
    keras.utils.set_random_seed(0)
    x = keras.Input(batch_shape=(1, None, 2), name="x")
    y = layers.LSTM(3, stateful=True, return_sequences=True, name="lstm")(x)
    return KerasReference(Border(state="arguments").around(keras.Model(x, y, name="model")))


@pytest.fixture(scope="module")
def streams(reference: KerasReference) -> list[Stream]:
    return [*expected_streams(reference)]


class FaultyInSequences:
    """Calls a model rightly once, and changes the states that later calls of a sequence read.

    Args:
        call: Calls the model.
        change: Returns the states that a call reads, from the states passed to it and those of the call before.
    """

    def __init__(self, call: Call, change: Callable[..., Mapping[str, Any]]) -> None:
        self._call, self._change = call, change
        self._last: Mapping[str, Any] = {}

    def __call__(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        given = {name: inputs[name] for name in (H, C)}
        is_later = any(array.any() for array in given.values())
        read = self._change(given, self._last) if is_later else given
        self._last = given
        return self._call({**inputs, **read})


FAULTS: dict[Cause, Callable[..., Mapping[str, Any]]] = {
    Cause.STATE_NOT_CARRIED: lambda given, last: {name: 0 * array for name, array in given.items()},
    Cause.STATE_OF_ANOTHER_ROW: lambda given, last: {name: array[::-1] for name, array in given.items()},
    Cause.SHIFTED_STATE: lambda given, last: {**given, H: np.roll(given[H], 1, axis=1) * [0, 1, 1]},
    Cause.EXCHANGED_STATES: lambda given, last: {H: given[C], C: given[H]},
}


def result_of(call: Any, reference: KerasReference, streams: list[Stream]) -> RuntimeResult:
    runner: Any = SimpleNamespace(run=call, inputs=(), names=Names())
    return with_streams(PASSED, Run(PASSED, (), ()), runner, reference, streams, STRICT, Budget)


@pytest.mark.slow
def test_a_sound_runtime_passes_every_stream_in_float64(reference: KerasReference, streams: list[Stream]) -> None:
    names = ["step by step", "chunks of uneven length"]
    assert [each.expectation.case.name for each in streams] == names
    for each in streams:
        arrays = {**(each.expectation.outputs or {}), **(each.expectation.truth or {})}
        assert {name: array.dtype for name, array in arrays.items()} == dict.fromkeys(arrays, np.dtype("float64"))
        assert np.isclose(each.answer(reference.expect)[f"{H}_out"], arrays[f"{H}_out"]).all()
    sound = result_of(reference.expect, reference, streams)
    assert (sound.passed, [each.status for each in sound.cases]) == (True, [CaseStatus.PASSED] * 2)
    assert sound.recording is None


@pytest.mark.slow
@pytest.mark.parametrize("cause", FAULTS)
def test_a_fault_of_a_sequence_has_a_cause_and_a_recording_of_the_sequence(
    cause: Cause, reference: KerasReference, streams: list[Stream]
) -> None:
    found = result_of(FaultyInSequences(reference.expect, FAULTS[cause]), reference, streams)
    assert (found.passed, [each.cause for each in found.findings]) == (False, [cause])
    assert found.recording is not None
    assert found.recording.chunks == streams[0].chunks
    assert found.recording.inputs.keys() == {"x", H, C}
    assert found.recording.actual.keys() == found.recording.expected.keys()


@pytest.mark.slow
def test_a_state_that_a_runtime_keeps_after_a_sequence_is_not_reset(
    reference: KerasReference, streams: list[Stream]
) -> None:
    kept: dict[str, Any] = {}

    def run_with_old_state(inputs: Any) -> Any:
        """Runs the model with the state of the call before, whatever state it is passed."""
        outputs = reference.expect({**inputs, **kept})
        kept.update({name: outputs[f"{name}_out"] for name in (H, C)})
        return outputs

    stale = result_of(run_with_old_state, reference, streams)  # the first stream begins at zero, the second does not
    assert (stale.passed, [each.status for each in stale.cases]) == (False, [CaseStatus.PASSED, CaseStatus.FAILED])
    assert [each.cause for each in stale.findings] == [Cause.STATE_NOT_RESET]
    assert stale.recording is not None
    assert len(stale.recording.before) == len(streams[0].chunks.sizes)


@pytest.mark.slow
def test_a_bundle_replays_a_sequence_that_failed(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input(batch_shape=(1, None, 2), name="x"), Counting(name="count")], name="model")
    artifact = export_onnx(model, tmp_path / "m.onnx", state="arguments")
    proto = onnx.load(artifact.path)
    for record in proto.metadata_props:
        if record.key == "keras_pe.state":
            sound, record.value = record.value, record.value.replace('"initial": 0.0', '"initial": 1.0')
    assert record.value != sound
    onnx.save(proto, artifact.path)
    report = check_parity(model, artifact.path, runtimes="onnxruntime")
    assert [each.cause for each in report.findings] == [Cause.WRONG_INITIAL_STATE]
    write_bundle(report, tmp_path / "failure.npz")
    command = [sys.executable, str(tmp_path / "failure.npz")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "recorded 1" in ended.stdout) == (1, True), ended.stdout + ended.stderr
    replayed = replay_bundle(tmp_path / "failure.npz")
    assert [each.cause for each in replayed.findings] == [Cause.WRONG_INITIAL_STATE]


def test_a_model_without_state_has_no_streams() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    plain = KerasReference(model)
    assert (plain.states, [*expected_streams(plain)]) == ((), [])


@pytest.mark.slow
def test_the_logits_of_a_decoder_in_chunks_are_those_of_whole_calls() -> None:
    decoder = with_cache_as_arguments(own_decoder())
    reference = KerasReference(decoder, decoder.artifact_signature)
    streams = [*expected_streams(reference)]
    assert [each.chunks.growing for each in streams] == [{"attention_mask": 1}] * 4
    assert [int((each.expectation.case.inputs["attention_mask"] == 0).sum()) for each in streams] == [0, 0, 6, 6]
    assert all((each.expectation.truth or {})["logits"].dtype == np.float64 for each in streams)
    assert result_of(reference.expect, reference, streams).passed
    with contextlib.ExitStack() as stack:
        for model in (decoder, reference.float64_model):  # one of them alone would count as Keras' own error
            reverse = {"call_uncached": lambda tokens, context, own=model.model: own(tokens[:, ::-1])}
            stack.enter_context(replaced_attributes(model, reverse))
        other = [*expected_streams(reference)]
    assert len(other) == 4
    assert not result_of(reference.expect, reference, other).passed
