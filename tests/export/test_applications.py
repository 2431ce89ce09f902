"""Every model of `keras.applications` arrives, at sizes that its export did not look at, with trained statistics."""

import inspect
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx
from tests.export.zoo.applications import NAMES, REFUSED, TRIALS, build, compare, make

SAMPLE = ("MobileNet", "ResNet50V2", "NASNetMobile")  # the slow run takes these, and .ci/run with it


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A file that goes after the test: together they would fill a disk."""
    path = tmp_path / "model.onnx"
    yield path
    path.unlink(missing_ok=True)
    keras.utils.clear_session()


def cases(pairs: Iterable[tuple[str, str]], mark: Any) -> list[Any]:
    marks = dict.fromkeys(SAMPLE, mark)
    return [
        pytest.param(*pair, id="-".join(pair), marks=marks.get(pair[0], pytest.mark.exhaustive))
        for pair in sorted(pairs)
    ]


@pytest.mark.parametrize(("name", "kind"), cases(set(product(NAMES, TRIALS)) - set(REFUSED), pytest.mark.slow))
def test_an_application_agrees_with_keras(name: str, kind: str, file: Path) -> None:
    model = make(name, kind)
    artifact = export_onnx(model, file)
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    (spec,) = artifact.inputs

    def run(images: np.ndarray) -> np.ndarray:
        (result,) = session.run(None, {spec.name: images})
        return result

    compare(model, run, kind)


@pytest.mark.filterwarnings(r"ignore:In the future `np\.object`:FutureWarning")  # of Keras' own export
@pytest.mark.parametrize(("name", "kind"), cases(REFUSED, pytest.mark.upstream))
def test_what_is_refused_keras_does_not_export_either(name: str, kind: str, file: Path) -> None:
    model, refusal = build(name, kind), REFUSED[name, kind]
    with pytest.raises(ValueError, match=refusal.by_keras):
        model.export(file, format="onnx", verbose=False)
    with pytest.raises(ValueError, match=refusal.reason):
        export_onnx(model, file)
    assert not file.exists()


def test_no_application_is_left_out() -> None:
    constructors = inspect.getmembers(keras.applications, inspect.isfunction)
    assert sorted(NAMES) == sorted(name for name, _ in constructors)
