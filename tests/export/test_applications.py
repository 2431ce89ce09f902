"""Every model of `keras.applications` arrives, at sizes that its export did not look at, with trained statistics."""

import inspect
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import keras
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx
from tests.export.zoo.applications import NAMES, REFUSED, TRIALS, build, compare, make
from tests.samples import sample_cases

SAMPLE = {*product(("MobileNet",), TRIALS), ("NASNetMobile", "free")}  # refused


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A file that goes after the test: together they would fill a disk."""
    path = tmp_path / "model.onnx"
    yield path
    path.unlink(missing_ok=True)
    keras.utils.clear_session()


@pytest.mark.parametrize("case", sample_cases(sorted(set(product(NAMES, TRIALS)) - set(REFUSED)), SAMPLE), ids="-".join)
def test_an_application_agrees_with_keras(case: tuple[str, str], file: Path) -> None:
    name, kind = case
    model = make(name, kind)
    artifact = export_onnx(model, file)
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    (spec,) = artifact.inputs

    def run(images: np.ndarray) -> np.ndarray:
        (result,) = session.run(None, {spec.name: images})
        return result

    compare(model, run, kind)


@pytest.mark.filterwarnings(r"ignore:In the future `np\.object`:FutureWarning")  # keras' own export issues this warning
@pytest.mark.parametrize("case", sample_cases(sorted(REFUSED), SAMPLE, pytest.mark.upstream), ids="-".join)
def test_models_that_are_refused_fail_in_keras_export_too(case: tuple[str, str], file: Path) -> None:
    model, refusal = build(*case), REFUSED[case]
    with pytest.raises(ValueError, match=refusal.by_keras):
        model.export(file, format="onnx", verbose=False)
    with pytest.raises(ValueError, match=refusal.reason):
        export_onnx(model, file)
    assert not file.exists()


def test_no_application_is_left_out() -> None:
    constructors = inspect.getmembers(keras.applications, inspect.isfunction)
    assert sorted(NAMES) == sorted(name for name, _ in constructors)
