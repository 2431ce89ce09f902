"""A runtime that is right in single calls fails if it is wrong in a sequence of calls."""

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_pe.export import Border
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.streams import expected_streams
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.parity.streamed import with_streams
from keras_pe.export.results import CaseStatus, RunStatus, RuntimeResult

PASSED = RuntimeResult("m.onnx", "onnx", "onnxruntime", passed=True, status=RunStatus.COMPARED)


@pytest.mark.slow
def test_a_runtime_that_keeps_a_state_of_its_own_fails_in_a_stream_alone() -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input(batch_shape=(1, None, 2), name="x")
    y = layers.SimpleRNN(2, stateful=True, return_sequences=True, name="rnn")(x)
    reference = KerasReference(Border(state="arguments").around(keras.Model(x, y, name="model")))
    streams = [*expected_streams(reference)]
    names = ["step by step", "chunks of uneven length"]
    assert [each.expectation.case.name for each in streams] == names
    for each in streams:
        arrays = {**(each.expectation.outputs or {}), **(each.expectation.truth or {})}
        assert {name: array.dtype for name, array in arrays.items()} == dict.fromkeys(arrays, np.dtype("float64"))
        assert np.isclose(each.answer(reference.expect)["rnn_state_h_out"], arrays["rnn_state_h_out"]).all()

    def result_of(run: Any) -> RuntimeResult:
        return with_streams(PASSED, SimpleNamespace(run=run), streams, STRICT)  # type: ignore[arg-type]

    sound = result_of(reference.expect)
    assert (sound.passed, [each.status for each in sound.cases]) == (True, [CaseStatus.PASSED] * 2)
    kept: dict[str, Any] = {}

    def run_with_old_state(inputs: Any) -> Any:
        """Runs the model with the state of the call before, whatever state it is passed."""
        outputs = reference.expect({**inputs, **kept})
        kept["rnn_state_h"] = outputs["rnn_state_h_out"]
        return outputs

    stale = result_of(run_with_old_state)  # the first stream begins at zero, and the second one does not
    assert (stale.passed, [each.status for each in stale.cases]) == (False, [CaseStatus.PASSED, CaseStatus.FAILED])
    assert [each.evidence for each in stale.findings if names[1] in each.evidence]


def test_a_model_without_state_has_no_streams() -> None:
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    reference = KerasReference(model)
    assert (reference.states, [*expected_streams(reference)]) == ((), [])
