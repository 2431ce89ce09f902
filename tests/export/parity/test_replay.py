"""The replay bundle: a failure comes back in a fresh process, with one command, without the model."""

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from keras_pe.cli import main
from keras_pe.export import check_parity, replay_bundle, write_bundle
from keras_pe.export.artifacts.read_artifact import hash_files
from keras_pe.export.parity import replay as replay_module
from keras_pe.export.parity.bundle import read_bundle
from keras_pe.export.parity.parity_report import ParityReport
from keras_pe.export.parity.replay import replay_command
from keras_pe.export.progress import Budget
from keras_pe.export.results import Finding, Recording, RuntimeResult
from keras_pe.export.runtimes.runtime import RuntimeSpec
from tests.cli.test_check import write_scale
from tests.full_disk import full_disk

FORGETFUL = RuntimeSpec("forgetful", "onnx", "tests.export.parity.faulty_runtimes:Forgetful", "numpy", "pip install x")


@pytest.fixture
def failed(tmp_path):
    """A folder with a bundle of an artifact that is wrong by 0.1 per cent, and the report of it."""
    right, wrong = write_scale(tmp_path / "right.onnx", 2.0), write_scale(tmp_path / "wrong.onnx", 2.002)
    report = check_parity(right, wrong, runtimes=["onnxruntime[all]"])
    write_bundle(report, tmp_path / "failure.npz")
    return tmp_path, report


@pytest.mark.slow
def test_a_failure_comes_back_in_a_fresh_process_without_the_model_tensorflow_or_keras(failed):
    folder, report = failed
    (folder / "right.onnx").unlink()
    for name in ("tensorflow", "keras"):
        (folder / f"{name}.py").write_text(f"raise ImportError('{name} must not be needed')")
    command = [sys.executable, "-m", "keras_pe", "check", "--replay", "failure.npz", "--json"]
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    (comparison,) = json.loads(done.stdout)["results"][0]["cases"][0]["comparisons"]
    assert comparison["max_abs_diff"] == report.results[0].worst[1].max_abs_diff


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 100, 1000])
def test_on_a_full_disk_it_is_said_and_the_old_bundle_stays(failed, size):
    folder, report = failed
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with (
        full_disk(size),
        pytest.raises(OSError, match=r"The bundle could not be written to .*What stood there stays\."),
    ):
        write_bundle(report, folder / "failure.npz")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.slow
def test_a_repaired_artifact_passes_and_the_report_says_that_it_has_changed(failed):
    folder, _ = failed
    again = replay_bundle(folder / "failure.npz")
    assert not again.passed
    assert "changed" not in again.reference
    write_scale(folder / "wrong.onnx", 2.0)
    again = replay_bundle(folder / "failure.npz")
    assert again.passed
    assert "changed since: wrong.onnx" in again.reference


@pytest.mark.slow
def test_the_cause_that_was_found_with_the_model_is_kept_while_the_artifact_is_the_same(failed):
    folder, report = failed
    cause = Finding("wrong layout", "interleaved fits", "encode")
    write_bundle(
        dataclasses.replace(report, results=(dataclasses.replace(report.results[0], findings=(cause,)),)),
        folder / "failure.npz",
    )
    assert replay_bundle(folder / "failure.npz").findings == (cause,)
    write_scale(folder / "wrong.onnx", 2.004)
    assert cause not in replay_bundle(folder / "failure.npz").findings


@pytest.mark.slow
def test_bundle_and_artifact_can_move_together_and_a_lost_artifact_is_named(failed):
    folder, _ = failed
    (folder / "new").mkdir()
    (folder / "failure.npz").rename(folder / "new" / "failure.npz")
    (folder / "wrong.onnx").rename(folder / "new" / "wrong.onnx")
    assert not replay_bundle(folder / "new" / "failure.npz").passed
    (folder / "new" / "wrong.onnx").unlink()
    with pytest.raises(FileNotFoundError, match=r"No artifact at .*wrong\.onnx"):
        replay_bundle(folder / "new" / "failure.npz")


@pytest.mark.slow
def test_a_difference_that_only_the_float64_truth_shows_comes_back(tmp_path):
    x = np.ones((2, 3), np.float32)
    artifact = write_scale(tmp_path / "wrong.onnx", 1 + 4e-6)  # within 1e-5, but 8 times the floor of 4.8e-7 is less
    truth = x.astype(np.float64)
    recording = Recording("case", {"x": x}, {"y": x}, {"y": x * np.float32(1 + 4e-6)}, {"y": truth})
    result = RuntimeResult(str(artifact), "onnx", "onnxruntime[all]", False, "compared", recording=recording)
    write_bundle(ParityReport("m", "b", (), (result,)), tmp_path / "failure.npz")
    assert not replay_bundle(tmp_path / "failure.npz").passed
    without = dataclasses.replace(result, recording=dataclasses.replace(recording, truth={}))
    write_bundle(ParityReport("m", "b", (), (without,)), tmp_path / "failure.npz")
    assert replay_bundle(tmp_path / "failure.npz").passed


@pytest.mark.slow
def test_outputs_of_another_type_come_back_as_such(tmp_path):
    right, wrong = write_scale(tmp_path / "right.onnx", 2.0), write_scale(tmp_path / "wrong.onnx", 2.0)
    wide = onnx.load(wrong)
    wide.graph.node[-1].output[0] = "narrow"
    wide.graph.node.append(onnx.helper.make_node("Cast", ["narrow"], ["y"], to=onnx.TensorProto.DOUBLE))
    wide.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    onnx.save(wide, wrong)
    report = check_parity(right, wrong, runtimes="onnxruntime[all]")
    assert [finding.cause for finding in report.findings] == ["other dtype"]
    write_bundle(report, tmp_path / "failure.npz")
    assert not replay_bundle(tmp_path / "failure.npz").passed


@pytest.mark.slow
def test_a_failure_of_the_third_question_comes_back_because_the_first_two_are_asked_again(tmp_path):
    artifact = write_scale(tmp_path / "artifact.onnx", 1.0)
    cases = [{"x": np.full((2, 3), value, np.float32)} for value in (1, 2, 3)]
    report = check_parity(artifact, artifact, inputs=cases, runtimes=[FORGETFUL])
    assert [case.status for case in report.results[0].cases] == ["passed", "passed", "failed"]
    write_bundle(report, tmp_path / "failure.npz")
    assert not replay_bundle(tmp_path / "failure.npz", runtimes=FORGETFUL).passed


@pytest.mark.slow
def test_a_runtime_of_another_python_comes_back_once_the_caller_names_it(tmp_path):
    elsewhere = f"onnxruntime@{sys.executable}"
    right, wrong = write_scale(tmp_path / "right.onnx", 2.0), write_scale(tmp_path / "wrong.onnx", 2.002)
    bundle = tmp_path / "failure.npz"
    report = check_parity(right, wrong, runtimes=elsewhere)
    write_bundle(report, bundle)
    with pytest.raises(ValueError, match=r"If you trust it, name it: --runtime onnxruntime@") as refusal:
        replay_bundle(bundle)
    again = replay_bundle(bundle, runtimes=elsewhere)
    assert [each.runtime for each in again.results] == [elsewhere]
    assert not again.passed
    command = shlex.split(replay_command(report, bundle))
    assert command == ["keras-pe", "check", "--replay", str(bundle), "--runtime", elsewhere]
    assert shlex.join(command[-2:]) in str(refusal.value)
    done = CliRunner().invoke(main, [*command[1:], "--json"])
    assert done.exit_code == 1, done.output


@pytest.mark.slow
def test_a_runtime_that_is_not_installed_is_skipped_and_nothing_passes(failed, monkeypatch):
    absent = dataclasses.replace(FORGETFUL, name="onnxruntime[all]", package="no_such_package")
    monkeypatch.setattr(replay_module, "known_runtimes", lambda: (absent,))
    again = replay_bundle(failed[0] / "failure.npz")
    assert not again.passed
    assert [each.runtime for each in again.skipped] == ["onnxruntime[all]"]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3, dtype=np.int64),
        np.array([[0.1, 7.0]], ml_dtypes.bfloat16),
        np.array(["a", "ключ"], object),
        np.array([b"a", b"bc"], object),
        np.zeros((0, 4), np.float32),
    ],
)
def test_every_kind_of_array_comes_back_as_it_was(tmp_path, array):
    artifact = write_scale(tmp_path / "a.onnx", 1.0)
    recording = Recording("case", {"x/y": array}, {"y": array}, {}, before=({"x/y": array[:1]},))
    result = RuntimeResult(str(artifact), "onnx", "onnxruntime[all]", False, "crashed", recording=recording)
    write_bundle(ParityReport("m", "b", (), (result,)), tmp_path / "bundle.npz")
    (failure,) = read_bundle(tmp_path / "bundle.npz").failures
    read = failure.recording
    for found, wanted in ((read.inputs["x/y"], array), (read.before[0]["x/y"], array[:1]), (read.expected["y"], array)):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    assert read.actual == {}


def test_external_weights_are_part_of_what_must_not_have_changed(tmp_path):
    import onnx

    artifact = write_scale(tmp_path / "a.onnx", 1.0)
    onnx.save(onnx.load(artifact), artifact, save_as_external_data=True, location="weights", size_threshold=0)
    recording = Recording("case", {"x": np.ones((1, 2), np.float32)}, {"y": np.ones((1, 2), np.float32)}, {})
    result = RuntimeResult(str(artifact), "onnx", "onnxruntime[all]", False, "crashed", recording=recording)
    write_bundle(ParityReport("m", "b", (), (result,)), tmp_path / "bundle.npz")
    (failure,) = read_bundle(tmp_path / "bundle.npz").failures
    assert set(failure.hashes) == {"a.onnx", "weights"}


@pytest.mark.slow
def test_the_search_for_a_cause_may_take_the_seconds_that_are_given(failed, monkeypatch):
    given = []
    monkeypatch.setattr(replay_module, "Budget", lambda seconds: given.append(seconds) or Budget(seconds))
    replay_bundle(failed[0] / "failure.npz", diagnosis_seconds=7.0)
    assert given == [7.0]


@pytest.mark.slow
def test_each_artifact_is_hashed_once_in_a_replay(failed, monkeypatch):
    hashed = []
    monkeypatch.setattr(replay_module, "hash_files", lambda path: hashed.append(path.name) or hash_files(path))
    replay_bundle(failed[0] / "failure.npz")
    assert hashed == ["wrong.onnx"]


def test_an_onnx_file_is_hashed_without_its_weights_in_memory(tmp_path):
    import onnx
    from onnx import numpy_helper

    artifact = write_scale(tmp_path / "a.onnx", 1.0)
    model = onnx.load(artifact)
    weights = np.zeros(8 * 2**20, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "large"))
    onnx.save(model, artifact)
    tracemalloc.start()
    try:
        assert set(hash_files(artifact)) == {"a.onnx"}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < weights.nbytes / 8  # read in blocks, of the file as of the message


@pytest.mark.slow
def test_a_path_that_is_not_a_bundle_or_needs_no_replay_is_refused(tmp_path, failed):
    Path(tmp_path / "text.npz").write_text("no bundle")
    np.savez(tmp_path / "arrays.npz", x=np.ones(2))
    for name in ("text.npz", "arrays.npz"):
        with pytest.raises(ValueError, match=r"must be an \.npz file"):
            read_bundle(tmp_path / name)
    with pytest.raises(ValueError, match="no artifact failed"):
        write_bundle(ParityReport("m", "b", (), ()), tmp_path / "bundle.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        write_bundle(failed[1], tmp_path / "bundle.zip")
