"""All of Keras' ops, activations and layers: each agrees with Keras in ONNX Runtime, or is refused by name."""

import inspect
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe.export import ExportError
from tests.export.onnx.exported import keras_results, onnx_results
from tests.export.onnx.survey import table
from tests.export.onnx.survey.refused import REFUSED
from tests.export.onnx.survey.table import ROWS
from tests.samples import sample_cases

AGREEING = [name for name in ROWS if name not in REFUSED]
EPSILON = float(np.finfo("float32").eps)
# Elementwise functions are right to some ulp of the result: a hundred for powers and the like, which lose the digits of
# the exponent. Sums of up to 72 terms are right to some ulp of the largest.
RTOL, ATOL = 100 * EPSILON, 20 * EPSILON


@pytest.mark.filterwarnings("ignore::UserWarning")  # layers issue warnings that a survey ignores
@pytest.mark.parametrize("name", sample_cases(AGREEING, AGREEING[::12]))
def test_the_exported_file_agrees_with_keras(name: str, tmp_path: Path) -> None:
    case = ROWS[name]
    function = case.make()
    truth = keras_results(function, case.inputs)
    actual = onnx_results(function, case.inputs, tmp_path, is_static=case.is_static)
    for found, value in zip(actual, truth, strict=True):
        if value.dtype.kind == "f":
            scale = np.max(np.abs(value), where=np.isfinite(value), initial=1.0)
            np.testing.assert_allclose(found, value, rtol=RTOL, atol=ATOL * scale, strict=True)
        else:
            np.testing.assert_array_equal(found, value, strict=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_a_case_without_a_sound_form_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    case = ROWS[name]
    function = case.make()
    keras_results(function, case.inputs)
    with pytest.raises(ExportError, match=REFUSED[name]):
        onnx_results(function, case.inputs, tmp_path, is_static=case.is_static)
    assert list(tmp_path.iterdir()) == []


def test_no_callable_of_keras_is_missing_from_the_table() -> None:
    ops = {name for name in dir(keras.ops) if not name.startswith("_") and callable(getattr(keras.ops, name))}
    images = {f"image.{name}" for name in dir(keras.ops.image) if not name.startswith("_")}
    assert {name.split()[0] for name in table.OPS} | table.NO_OPS == ops | images
    named = {name: getattr(keras.layers, name) for name in dir(keras.layers) if not name.startswith("_")}
    classes = {layer for layer in named.values() if inspect.isclass(layer)}  # many have two names
    assert {named[name] for name in table.LAYERS} | {named[name] for name in table.NO_LAYERS} == classes


def test_481_of_515_callables_agree_in_at_least_one_row() -> None:
    surveyed = {name.split()[0] for name in ROWS}
    refused = {name.split()[0] for name in REFUSED if name.split()[0] not in {row.split()[0] for row in AGREEING}}
    assert (len(surveyed) - len(refused), len(surveyed)) == (481, 515)
