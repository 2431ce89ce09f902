"""If a runtime ends or refuses a batch, only the faulty rows are lost."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.parity.data.array_files import open_mapping
from keras_pe.export.parity.data.batching import Batching
from keras_pe.export.parity.work.target_runner import Answer, TargetRunner
from keras_pe.export.parity.work.worker_input import Acceptance, Job, OpenedModel, Target
from keras_pe.export.parity.work.worker_session import close_session, session_of
from tests.cli.test_check_data import write_model
from tests.export.parity.work.lookup_runtime import DEADLY, UNWANTED, spec


@contextmanager
def runner(name: str) -> Iterator[TargetRunner]:
    found = TargetRunner(Target(Path("nothing"), spec(name), name), 60.0)
    try:
        yield found
    finally:
        found.worker.close()


def rows(count: int, **values: float) -> dict[str, np.ndarray]:
    x = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2) + 1000
    for row, value in values.items():
        x[int(row.removeprefix("row"))] = value
    return {"x": x}


def reasons_without_answer(target: TargetRunner, inputs: dict[str, np.ndarray]) -> dict[int, str]:
    """Returns the rows without an answer and why, after looking at those with one."""
    return looked_at(inputs, target.run(inputs))


def looked_at(inputs: dict[str, np.ndarray], answers: list[Answer]) -> dict[int, str]:
    missing: dict[int, str] = {}
    seen: list[int] = []
    for answer in answers:
        places = range(len(inputs["x"]))[answer.rows]
        seen += places
        if answer.outputs is None:
            missing |= dict.fromkeys(places, answer.message)
        else:
            np.testing.assert_array_equal(answer.outputs["y"], 2 * inputs["x"][answer.rows])
    assert seen == list(range(len(inputs["x"])))
    return missing


def test_a_sound_runtime_answers_the_batch_as_it_is() -> None:
    with runner("Doubling") as target:
        assert len(target.run(rows(9))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("value", [UNWANTED, DEADLY], ids=["refused", "killed"])
def test_a_batch_that_fails_does_not_affect_the_others(value: float) -> None:
    batches = [rows(4), rows(8, row5=value), rows(1)]
    with runner("Dying") as target:
        found = target.run_all(batches)
        assert [list(looked_at(*pair)) for pair in zip(batches, found, strict=True)] == [[], [5], []]
        sound = target.run_all([rows(4), rows(3)])
        assert [len(answers) for answers in sound] == [1, 1]


@pytest.mark.slow
def test_the_row_that_kills_the_process_is_found_and_the_others_are_answered() -> None:
    with runner("Dying") as target:
        missing = reasons_without_answer(target, rows(8, row5=DEADLY))
        assert list(missing) == [5]
        assert "signal 9" in missing[5]
        assert reasons_without_answer(target, rows(3)) == {}


def test_rows_that_are_refused_are_found() -> None:
    with runner("Dying") as target:
        missing = reasons_without_answer(target, rows(16, row3=UNWANTED, row12=UNWANTED))
        assert missing == dict.fromkeys((3, 12), "ValueError: unwanted")


def test_a_batch_refused_at_both_ends_is_refused_as_a_whole() -> None:
    with runner("Dying") as target:
        assert len(reasons_without_answer(target, rows(6, row0=UNWANTED, row5=UNWANTED))) == 6


def test_a_batch_of_one_size_only_is_filled_up() -> None:
    with runner("Static") as target:
        for count in (3, 4, 10):
            (answer,) = target.run(rows(count))
            np.testing.assert_array_equal(answer.outputs["y"], 2 * rows(count)["x"])


@pytest.mark.slow
def test_a_cached_runtime_keeps_no_time_limit(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx", None)
    source = open_mapping({"x": np.zeros((1, 4), np.float32)})
    target = Target(model, spec("Slow"), "slow")
    given = (OpenedModel(model, str(model)), (target,), source, Batching(), Acceptance(), None)
    for timeout, is_answered in ((60.0, True), (2.0, False)):
        with session_of(Job(*given, timeout)) as session:
            (answer,) = session.targets["slow"].run(rows(1))
            assert (answer.outputs is not None) == is_answered
    close_session()


def load_error(path: Path) -> str:
    """Returns what a worker says that cannot load a model."""
    source = open_mapping({"x": np.zeros((1, 4), np.float32)})
    job = Job(OpenedModel(path, str(path)), (), source, Batching(), Acceptance(), None, 60.0)
    with pytest.raises(ValueError, match=path.name) as told, session_of(job):
        pass
    return str(told.value)


@pytest.mark.parametrize("damage", ["no configuration", "cut configuration", "flipped weights"])
def test_a_worker_reports_the_damage_of_a_model_file_and_nothing_of_layers(tmp_path: Path, damage: str) -> None:
    import keras

    whole, path = tmp_path / "whole.keras", tmp_path / "damaged.keras"
    inputs = keras.Input((4,), name="x")
    keras.Model(inputs, keras.layers.Dense(2)(inputs)).save(whole)
    with zipfile.ZipFile(whole) as file, zipfile.ZipFile(path, "w") as damaged:
        for name in file.namelist():
            content = file.read(name)
            if name == "config.json" and damage == "no configuration":
                continue
            damaged.writestr(name, content[:50] if name == "config.json" and damage == "cut configuration" else content)
    if damage == "flipped weights":
        content = bytearray(path.read_bytes())
        content[content.find(b"HDF") + 300] ^= 255
        path.write_bytes(content)
    said = load_error(path)
    assert said.startswith(f"{path} could not be loaded: ")
    assert "layers" not in said


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("theirs", "Could not locate class 'Theirs'"),
        ("keras_cv.theirs", "Could not deserialize class 'Theirs' because its parent module keras_cv.theirs cannot be"),
    ],
)
def test_a_worker_names_the_way_out_if_the_code_of_a_model_is_elsewhere(
    tmp_path: Path, module: str, reason: str
) -> None:
    import keras

    class Theirs(keras.layers.Layer):
        def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
            return inputs

    Theirs.__module__, Theirs.__qualname__ = module, "Theirs"
    inputs = keras.Input((4,), name="x")
    keras.Model(inputs, Theirs()(inputs)).save(tmp_path / "model.keras")
    said = load_error(tmp_path / "model.keras")
    assert f"which does not ({reason}" in said
    assert "config" not in said
    assert "workers=0" in said
