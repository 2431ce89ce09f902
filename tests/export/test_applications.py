"""Every model of `keras.applications` arrives, at sizes that its export did not look at, with trained statistics."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx
from tests.export.zoo.applications import NAMES, TRIALS, compare, make

SAMPLE = ("MobileNet", "ResNet50V2")  # the slow run takes these, and .ci/run with it


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A file that goes after the test: together they would fill a disk."""
    path = tmp_path / "model.onnx"
    yield path
    path.unlink(missing_ok=True)
    keras.utils.clear_session()


@pytest.mark.parametrize("kind", TRIALS)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in SAMPLE else pytest.mark.exhaustive) for n in NAMES],
)
def test_an_application_agrees_with_keras(name: str, kind: str, file: Path) -> None:
    model = make(name, kind)
    artifact = export_onnx(model, file)
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    (spec,) = artifact.inputs

    def run(images: np.ndarray) -> np.ndarray:
        (result,) = session.run(None, {spec.name: images})
        return result

    compare(model, run, kind)


def test_no_application_is_left_out() -> None:
    constructors = inspect.getmembers(keras.applications, inspect.isfunction)
    assert sorted(NAMES) == sorted(name for name, _ in constructors)
