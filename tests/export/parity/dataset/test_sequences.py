"""check_dataset runs recordings through a model with a state: in order, in calls, and anew with each recording."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from keras import layers
from onnx import helper

from keras_pe.cli import main
from keras_pe.export import Acceptance, Batching, Cause, check_dataset, export_onnx
from keras_pe.export.parity.work.executors import ProcessPool
from tests.export.counting import Counting

LENGTHS = [5, 9, 1, 30, 9, 17]


def save_recordings(path: Path) -> None:
    steps = np.random.default_rng(0).normal(size=(sum(LENGTHS), 3)).astype("float32")
    np.savez(path, recording=np.repeat(np.arange(6), LENGTHS), x=steps)


def make_gru() -> Any:
    keras.utils.set_random_seed(0)
    x = keras.Input(batch_shape=(1, None, 3), name="x")
    y = layers.GRU(4, stateful=True, return_sequences=True, name="gru")(x)
    return keras.Model(x, layers.Dense(2, name="y")(y), name="model")


@pytest.mark.slow
def test_recordings_pass_and_are_reused_and_a_state_that_is_lost_fails_with_its_cause(
    pool: ProcessPool, tmp_path: Path
) -> None:
    model = make_gru()
    model.save(tmp_path / "m.keras")
    artifact = export_onnx(model, tmp_path / "m.onnx", state="arguments")
    save_recordings(tmp_path / "data.npz")
    given: dict[str, Any] = {"batching": Batching(sequence="recording"), "checkpoint_dir": tmp_path / "kept"}
    report = check_dataset(tmp_path / "m.keras", artifact, tmp_path / "data.npz", workers=pool, **given)
    assert (report.passed, report.rows, report.reused_rows) == (True, 6, 0), str(report)
    again = check_dataset(model, artifact, tmp_path / "data.npz", workers=0, **given)
    assert (again.passed, again.results[0].statistics.rows) == (True, 6)
    resumed = check_dataset(tmp_path / "m.keras", artifact, tmp_path / "data.npz", workers=pool, **given)
    assert (resumed.passed, resumed.reused_rows) == (True, 6)
    options = ["--data", tmp_path / "data.npz", "--sequence", "recording", "--workers", "0"]
    ended = CliRunner().invoke(main, list(map(str, ["check", tmp_path / "m.keras", artifact.path, *options])))
    assert (ended.exit_code, "6 rows" in ended.output) == (0, True), ended.output

    proto = onnx.load(artifact.path)
    for node in proto.graph.node:
        node.input[:] = ["zero" if name == "gru_state_h" else name for name in node.input]
    proto.graph.node.insert(0, helper.make_node("Sub", ["gru_state_h", "gru_state_h"], ["zero"]))
    onnx.save(proto, tmp_path / "faulty.onnx")
    failed = check_dataset(model, tmp_path / "faulty.onnx", tmp_path / "data.npz", workers=0, **given)
    assert failed.results[0].statistics.failed == 5  # a recording of one step shows nothing
    assert failed.diagnosis is not None
    assert {each.cause for each in failed.diagnosis.findings} == {Cause.STATE_NOT_CARRIED}


@pytest.mark.slow
def test_each_row_is_a_sequence_by_default_and_each_step_a_call_of_a_model_without_length(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((3,), name="x"), Counting(name="count")], name="model")
    artifact = export_onnx(model, tmp_path / "m.onnx", state="arguments")
    rows = np.random.default_rng(0).normal(size=(4, 7, 3)).astype("float32")
    report = check_dataset(model, artifact, {"x": rows}, workers=0)
    assert (report.passed, report.rows) == (True, 4), str(report)
    with pytest.raises(ValueError, match="`precision` must be left out"):
        check_dataset(model, artifact, {"x": rows}, workers=0, acceptance=Acceptance(precision="float16"))
