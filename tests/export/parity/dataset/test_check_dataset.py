"""Every row goes through the model and the artifact, and the verdict says what a user asks."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from keras_pe.export import Acceptance, Batching
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.watch.keras_internals import python_code_allowed
from keras_pe.export.parity.data.array_files import open_mapping
from keras_pe.export.parity.data.batching import Feed
from keras_pe.export.parity.data.shards import shards_of
from keras_pe.export.parity.data.source import SHARD_ROWS, DataSource
from keras_pe.export.parity.dataset import check_dataset as door
from keras_pe.export.parity.dataset.check_dataset import check_dataset
from keras_pe.export.parity.statistics.runtime_statistics import Severity, WorstRow
from keras_pe.export.parity.work.executors import ProcessPool
from keras_pe.export.parity.work.worker_session import close_session
from keras_pe.export.records import DatasetReport
from keras_pe.export.runtimes import registry
from keras_pe.export.runtimes.runtime import RuntimeSpec
from tests.cli.test_check_data import write_model
from tests.export.parity.dataset.conftest import Files, draw
from tests.export.parity.dataset.own_layer import Twice
from tests.export.parity.work.lookup_runtime import DEADLY, spec

ROWS = 20_000


def save_data(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


@pytest.mark.slow
def test_a_sound_artifact_changes_no_decision(files: Files, pool: ProcessPool, tmp_path: Path) -> None:
    report = check_dataset(files.model, files.onnx, save_data(tmp_path, x=draw(ROWS)), workers=pool)
    assert report.passed, str(report)
    (result,) = report.results
    assert (report.rows, report.total, result.statistics.rows, result.statistics.failed) == (ROWS, ROWS, ROWS, 0)
    assert 0 < result.factor < 8
    assert result.outputs[0].decision == "argmax"
    assert result.upper_bound_95 == pytest.approx(-np.log(0.05) / ROWS, rel=1e-3)
    assert "fewer than 1.5 in 10,000" in " ".join(str(report).split())
    assert report.diagnosis is None


@pytest.mark.slow
def test_one_wrong_row_is_found_named_and_looked_into(
    files: Files, pool: ProcessPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[object] = []
    look = door.check_parity
    monkeypatch.setattr(
        door, "check_parity", lambda *a, **k: limits.append(k.get("diagnosis_seconds")) or look(*a, **k)
    )
    data = save_data(tmp_path, x=draw(ROWS, magic=12_345))
    report = check_dataset(files.model, files.planted, data, workers=pool, diagnosis_seconds=45.0)
    assert set(limits) == {45.0}
    assert not report.passed
    (result,) = report.results
    assert (result.statistics.failed, result.changed) == (1, 1)
    worst = result.statistics.worst[0]
    assert worst.row == 12_345
    assert worst.inputs["x"].tolist() == draw(ROWS, magic=12_345)[12_345].tolist()
    assert worst.actual["p"].argmax() == 2 != worst.expected["p"].argmax()
    assert "row 12,345" in str(report)
    assert report.diagnosis is not None
    assert report.diagnosis.findings
    allowed = check_dataset(files.model, files.planted, data, workers=pool, acceptance=Acceptance(allow_changed=1e-4))
    assert allowed.passed


@pytest.mark.slow
def test_the_same_call_goes_on_and_a_changed_artifact_is_another(
    files: Files, pool: ProcessPool, tmp_path: Path
) -> None:
    data, folder = save_data(tmp_path, x=draw(ROWS)), tmp_path / "checkpoint"
    first = check_dataset(files.model, files.onnx, data, workers=pool, checkpoint_dir=folder)
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3
    (folder / names[1]).unlink()
    again = check_dataset(files.model, files.onnx, data, workers=pool, checkpoint_dir=folder)
    assert again.reused_rows == 8192 + ROWS - 2 * 8192
    assert sorted(path.name for path in folder.iterdir()) == names
    assert again.results[0].statistics.to_bytes() == first.results[0].statistics.to_bytes()
    other = check_dataset(files.model, files.planted, data, workers=pool, checkpoint_dir=folder)
    assert other.reused_rows == 0
    assert len(list(folder.iterdir())) == 6


@pytest.mark.slow
def test_it_stops_where_enough_rows_fail_and_keeps_what_was_done(
    files: Files, pool: ProcessPool, tmp_path: Path
) -> None:
    x = draw(ROWS, magic=3)
    x[:100, 0] = x[3, 0]
    report = check_dataset(
        files.model,
        files.planted,
        save_data(tmp_path, x=x),
        workers=pool,
        acceptance=Acceptance(stop_after=50, allow_changed=1.0),
        checkpoint_dir=tmp_path / "kept",
    )
    assert report.stopped_early
    assert not report.passed
    assert report.rows < ROWS
    assert list((tmp_path / "kept").iterdir())
    assert "stopped: after" in str(report)


@pytest.mark.slow
def test_a_model_of_this_process_is_run_in_it(files: Files) -> None:
    import keras

    model = keras.saving.load_model(files.model)
    seen: list[tuple[int, int | None]] = []
    report = check_dataset(
        model, [files.onnx], {"x": draw(300)}, workers=0, progress=lambda done, total, what: seen.append((done, total))
    )
    assert report.passed, str(report)
    assert seen[0] == (0, 300)
    assert seen[-1] == (300, 300)


@pytest.mark.slow
def test_a_runtime_that_is_not_installed_is_a_line_of_the_report(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = RuntimeSpec("absent", "onnx", "absent:Runtime", "no_such_package", "pip install absent")
    known = registry.known_runtimes()
    monkeypatch.setattr(registry, "known_runtimes", lambda: (*known, absent))
    report = check_dataset(files.model, files.onnx, {"x": draw(4)}, workers=0)
    assert report.passed, str(report)
    assert [(each.runtime, each.artifact) for each in report.skipped] == [("absent", str(files.onnx))]
    assert "absent. Install it with: pip install absent" in str(report)
    assert report.to_dict()["skipped"][0]["runtime"] == "absent"


@pytest.mark.slow
def test_a_registered_layer_is_found_by_the_workers(pool: ProcessPool, tmp_path: Path) -> None:
    import keras

    from keras_pe.export import export_onnx

    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(3, name="y")(Twice()(inputs)))
    export_onnx(model, tmp_path / "model.onnx")
    model.save(tmp_path / "model.keras")
    for given in (model, tmp_path / "model.keras"):
        report = check_dataset(
            given, tmp_path / "model.onnx", {"x": draw(50)[:, :4]}, workers=pool, runtimes=["onnxruntime[all]"]
        )
        assert report.passed, str(report)


@pytest.mark.slow
def test_a_worker_loads_the_code_of_lambdas_where_its_caller_does(pool: ProcessPool, tmp_path: Path) -> None:
    import keras

    from keras_pe.export import export_onnx

    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Lambda(lambda x: x * 2, name="y")])
    artifact, path = export_onnx(model, tmp_path / "model.onnx"), tmp_path / "model.keras"
    model.save(path)

    def check(given: object) -> DatasetReport:
        return check_dataset(given, artifact, {"x": draw(50)[:, :4]}, workers=pool, runtimes=["onnxruntime[all]"])

    assert check(model).passed  # it is the caller's own
    with pytest.raises(ValueError, match="code of a Lambda layer"):
        check(path)
    with python_code_allowed():
        assert check(path).passed


@pytest.mark.slow
def test_why_there_is_no_float64_rebuild_is_told(tmp_path: Path) -> None:
    import keras

    @keras.saving.register_keras_serializable("here")
    class Insists(keras.layers.Layer):
        def call(self, inputs: object) -> object:
            if keras.backend.standardize_dtype(inputs.dtype) != "float32":
                raise TypeError("only float32 will do")
            return inputs

    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(3, name="y")(Insists()(inputs)), name="strict")
    artifact = write_model(tmp_path / "model.onnx", None)
    report = check_dataset(model, artifact, {"x": draw(5)[:, :4]}, workers=0, acceptance=Acceptance(atol={"y": 1.0}))
    assert report.reference.startswith("strict, tolerance by dtype (no float64 rebuild is possible: ")
    assert "Insists" in report.reference


@pytest.mark.slow
def test_an_output_that_the_model_has_not_is_no_part_of_the_report(tmp_path: Path) -> None:
    model, other = write_model(tmp_path / "model.onnx", None), tmp_path / "other.onnx"
    proto = onnx.load(model)
    proto.graph.node[-1].CopyFrom(onnx.helper.make_node("ArgMax", ["sound"], ["q"], axis=1))
    proto.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("q", onnx.TensorProto.INT64, ["batch", 1]))
    onnx.save(proto, other)
    report = check_dataset(model, other, {"x": draw(5)[:, :4]}, workers=0)
    assert not report.passed
    assert "output 'p' of a row: missing" in str(report)
    assert "output 'q' of a row: extra" in str(report)
    assert [each.output for each in report.results[0].outputs] == ["p"]


@pytest.mark.slow
def test_this_process_is_enough_where_processors_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    model = write_model(tmp_path / "model.onnx", None)
    assert check_dataset(model, model, {"x": np.zeros((2, 4), np.float32)}, workers=0).passed


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Acceptance(allow_changed=2), "`allow_changed` must be a share"),
        (lambda: Acceptance(stop_after=0), "`stop_after` must be at least 1"),
        (lambda: Acceptance(decisions={"p": "best"}), "`decisions` must be"),
        (lambda: Batching(batch_size=0), "`batch_size` must be at least 1"),
        (lambda: check_dataset("model", "artifact", "data", workers=-1), "`workers` must be"),
        (lambda: Acceptance(stop_after=1.5), "`stop_after` must be at least 1 row. Received: stop_after=1.5"),
        (lambda: Batching(batch_size=2.5), "`batch_size` must be at least 1 row. Received: batch_size=2.5"),
        (lambda: check_dataset("model", "artifact", "data", workers=1.5), "`workers` must be"),
        (lambda: check_dataset("model", __file__, {"x": draw(3)}, runtimes=["onnx"]), "`runtimes` must be known"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_anything_runs(make: Callable, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_decisions_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(TypeError, match=r"`decisions` must be a mapping from names\. Received: decisions='argmax'"):
        Acceptance(decisions="argmax")  # type: ignore[arg-type]


@pytest.mark.slow
def test_options_about_what_is_no_output_are_refused(files: Files) -> None:
    with pytest.raises(ValueError, match=r"`atol` must be of outputs: p\. Received: q"):
        check_dataset(files.model, files.onnx, {"x": draw(3)}, workers=0, acceptance=Acceptance(atol={"q": 1.0}))


@pytest.mark.slow
def test_a_check_in_this_process_leaves_the_environment_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "3")
    before = dict(os.environ)
    model = write_model(tmp_path / "model.onnx", 4.5)  # no other test uses this file, since loaded models are cached
    report = check_dataset(model, model, {"x": np.zeros((2, 4), np.float32)}, workers=0)
    close_session()
    assert report.passed
    assert dict(os.environ) == before


@pytest.mark.slow
def test_a_result_of_a_killed_worker_is_made_again(files: Files, pool: ProcessPool, tmp_path: Path) -> None:
    """The pool goes on in a new process, and no row counts twice."""
    killed: list[int] = []
    gate = threading.Event()

    class Gated(ProcessPool):
        """Keeps shards after the first waiting until the gate opens, so that work is left when the worker dies."""

        submitted = 0

        def submit(self, fn: Callable, /, *args: Any, **kwargs: Any) -> Future:
            self.submitted += 1
            if self.submitted == 3:  # after the calibration and the first shard
                self._threads.submit(gate.wait)
            return super().submit(fn, *args, **kwargs)

    own = Gated(1)

    def kill_once(done: int, total: int | None, what: str) -> None:
        if done and not killed:
            killed.extend(own.pids)
            os.kill(killed[0], signal.SIGKILL)
            gate.set()

    data = save_data(tmp_path, x=draw(ROWS))
    try:
        report = check_dataset(files.onnx, files.onnx, data, workers=own, progress=kill_once)
        assert killed
        assert killed != own.pids
    finally:
        own.shutdown()
    assert (report.rows, report.results[0].statistics.rows) == (ROWS, ROWS)
    sound = check_dataset(files.onnx, files.onnx, data, workers=pool)
    assert report.results[0].statistics.to_bytes() == sound.results[0].statistics.to_bytes()


@pytest.mark.slow
def test_a_model_that_takes_few_values_is_opened_with_what_its_artifact_tells(tmp_path: Path) -> None:
    import keras

    from keras_pe.export import export_onnx

    class Year(keras.layers.Layer):
        def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
            if hasattr(x, "numpy") and x.numpy().min() < 1900:
                raise ValueError("no year")
            return x - 1900.0

    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, Year(name="y")(inputs))
    rows = np.random.default_rng(0).integers(1900, 2000, (50, 3)).astype("float32")
    artifact = export_onnx(model, tmp_path / "model.onnx", inputs={"x": rows[:2]})
    assert check_dataset(model, artifact, save_data(tmp_path, x=rows), workers=0).passed


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("damage", ["empty", "truncated", "no model"])
def test_a_model_that_is_damaged_where_it_waits_for_the_workers_is_written_again(
    files: Files, pool: ProcessPool, tmp_path: Path, damage: str
) -> None:
    import keras

    model = keras.saving.load_model(files.model)
    check = {"artifacts": files.onnx, "data": {"x": draw(20)}, "workers": pool, "checkpoint_dir": tmp_path}
    assert check_dataset(model, **check).passed
    (kept,) = tmp_path.glob("*.keras")
    whole = kept.read_bytes()
    kept.write_bytes({"empty": b"", "truncated": whole[:-99], "no model": b"PK"}[damage])
    assert check_dataset(model, **check).reused_rows == 20


@pytest.mark.slow
def test_a_model_that_cannot_be_saved_is_refused_with_the_way_out(tmp_path: Path) -> None:
    import keras

    class Held(keras.layers.Layer):
        def __init__(self, array: object, **options: object) -> None:
            super().__init__(**options)
            self.array = array

        def call(self, inputs: object) -> object:
            return inputs * 2.0

    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, Held(object())(inputs), name="net")
    artifact = write_model(tmp_path / "model.onnx", None)
    with pytest.raises(ValueError, match=r"must be one that Keras can save.*'net'.*workers=0"):
        check_dataset(model, artifact, {"x": draw(5)[:, :4]}, workers=1)


@pytest.mark.slow
@pytest.mark.parametrize("in_pool", [False, True])
def test_a_model_in_the_old_format_is_opened_and_its_layers_are_found(
    pool: ProcessPool, tmp_path: Path, in_pool: bool
) -> None:
    import keras

    from keras_pe.export import export_onnx

    inputs = keras.Input((4,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(3, name="y")(Twice()(inputs)))
    artifact = export_onnx(model, tmp_path / "model.onnx")
    model.save(tmp_path / "model.h5")
    workers = pool if in_pool else 0
    report = check_dataset(tmp_path / "model.h5", artifact, {"x": draw(50)[:, :4]}, workers=workers)
    assert report.passed, str(report)


@pytest.mark.slow
def test_a_runtime_that_dies_on_every_row_of_a_half_precision_model_is_a_result(tmp_path: Path) -> None:
    import keras

    inputs = keras.Input((2,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(2, name="y", dtype="mixed_float16")(inputs))
    (tmp_path / "model.onnx").write_bytes(write_model(tmp_path / "other.onnx", None).read_bytes())
    data = {"x": np.full((3, 2), DEADLY, np.float32)}
    report = check_dataset(model, tmp_path / "model.onnx", data, runtimes=[spec("Dying")], workers=0)
    assert not report.passed
    assert report.results[0].statistics.unanswered == 3


def readings(*sizes: int, change: float = 0.0) -> DataSource:
    """Returns a source that yields as many rows as the first size at its first reading, then as the second."""
    left = list(sizes)

    def read(locator: object, most: int, columns: object) -> Iterator[dict[str, np.ndarray]]:
        if not left:
            raise RuntimeError("the pipeline is exhausted")
        rows = np.arange(left.pop(0), dtype=np.float32)[:, np.newaxis]
        yield {"x": rows + change * (len(sizes) - len(left) - 1)}

    return DataSource("pipeline", ("x",), read)


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        (readings(SHARD_ROWS + 5, SHARD_ROWS + 5), True),
        (readings(SHARD_ROWS + 5, SHARD_ROWS), False),
        (readings(SHARD_ROWS + 5, SHARD_ROWS + 5, change=1.0), False),
        (readings(SHARD_ROWS + 5), False),
    ],
)
def test_the_batch_of_the_worst_row_is_fed_only_if_the_data_can_be_read_twice(
    source: DataSource, is_found: bool
) -> None:
    assert len(list(shards_of(source))) == 2
    feed = Feed((TensorInfo("x", ("batch", 1), "float32"),), Batching(columns={"x": "x"}))
    row = SHARD_ROWS + 3
    worst = WorstRow(row, "pipeline", 1, 0, Severity.FAILED, 2.0, {"x": np.array([row], np.float32)}, {}, {})
    batch = door._batch_of(worst, source, feed)
    assert (batch is not None) == is_found
    assert batch is None or worst.inputs["x"] in batch["x"]


def test_the_batch_of_a_row_of_one_text_is_found() -> None:
    source = open_mapping({"x": np.array(["a", "b"], object)})
    feed = Feed((TensorInfo("x", ("batch",), "string"),), Batching(columns={"x": "x"}))
    worst = WorstRow(1, "memory", 0, 0, Severity.FAILED, 2.0, {"x": np.array("b")}, {}, {})
    assert door._batch_of(worst, source, feed) is not None
    assert door._batch_of(replace(worst, inputs={"x": np.array("c")}), source, feed) is None
