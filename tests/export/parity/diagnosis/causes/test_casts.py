"""Casts that change values are named: of floats to integers that cannot hold them, and of inputs to narrower types."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import Cause, DisagreementError, check_parity, export_onnx
from keras_pe.export.parity.diagnosis.causes import casts
from keras_pe.export.results import OtherValue
from tests.export.parity.diagnosis.planted import Closed, findings


def _model(dtype: str, scale: float) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((3, 8, 8), name="image")
    cast = ops.cast(scale * layers.Permute((2, 3, 1))(x), dtype)
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling2D()(layers.Rescaling(1 / 255)(cast))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "scale", "line"),
    [("uint8", 1, "(0, 256)"), ("uint8", 255, "(0, 1.00392)"), ("uint16", 1, "(0, 65536)")],
    ids=["bytes", "scaled", "words"],
)
def test_a_cast_to_integers_that_cannot_hold_the_values_is_named_with_the_range_to_give(
    dtype: str, scale: float, line: str, tmp_path: Path
) -> None:
    model, path = _model(dtype, scale), tmp_path / "model.onnx"
    with pytest.raises(DisagreementError, match=Cause.CAST_OUT_OF_RANGE) as refusal:
        export_onnx(model, path)
    assert f"ranges={{'image': {line}}}" in str(refusal.value)
    ranges = {"image": (0.0, 200.0 / scale)}
    assert check_parity(model, export_onnx(model, path, ranges=ranges), runtimes=["onnxruntime[all]"]).passed


@pytest.mark.slow
def test_a_check_of_such_a_cast_names_it_and_a_file_that_is_wrong_elsewhere_is_not_excused(tmp_path: Path) -> None:
    model = _model("uint8", 1)
    file = export_onnx(model, tmp_path / "model.onnx", ranges={"image": (0, 256)}).path
    untold: dict[str, Any] = {"runtimes": ["onnxruntime[all]"], "ranges": {"image": (-300, 300)}}
    (found,) = check_parity(model, file, **untold).results
    assert [each.cause for each in found.findings] == [Cause.CAST_OUT_OF_RANGE]
    kernel, bias = model.get_weights()
    model.set_weights([kernel + 0.5, bias])
    (found,) = check_parity(model, file, **untold).results
    assert found.findings
    assert Cause.CAST_OUT_OF_RANGE not in [each.cause for each in found.findings]


def _hashed_ids(factor: int, dtype: str) -> keras.Model:
    ids = keras.Input((3,), dtype=dtype, name="x")
    product = ids if factor == 1 else factor * ids
    return keras.Model(ids, {"y": layers.Embedding(50, 4, name="table")(ops.mod(product, 50))})


@pytest.mark.parametrize(
    ("own", "other", "factor"),
    [
        pytest.param("int64", "int32", 1, marks=pytest.mark.slow),
        pytest.param("int64", "int32", 2_654_435_761, marks=pytest.mark.slow),
        ("int32", "int16", 7919),
    ],
)
def test_ids_that_are_cast_before_a_product_are_named_by_the_outputs_alone(own: str, other: str, factor: int) -> None:
    model = _hashed_ids(factor, own)

    def compute(inputs: Any) -> np.ndarray:
        with np.errstate(over="ignore"):
            product = inputs["x"].astype(other) * np.array(factor).astype(other)
        return np.asarray(model.get_layer("table").embeddings)[np.mod(product, 50)]

    (finding,) = findings(model, compute, Closed)
    assert (finding.cause, finding.parameters) == (Cause.CAST_INPUT, (OtherValue("dtype of 'x'", own, other),))


def test_small_differences_of_rounded_weights_are_no_cast() -> None:
    ids = keras.Input((3,), dtype="int32", name="x")
    model = keras.Model(ids, {"y": layers.Embedding(50, 4, name="table")(ids)})
    rounded = np.round(np.asarray(model.get_layer("table").embeddings) * 10_000) / 10_000  # by up to 5e-5
    found = findings(model, lambda inputs: rounded[inputs["x"]], Closed)
    assert Cause.CAST_INPUT not in [each.cause for each in found]


@pytest.mark.slow
def test_ids_that_are_computed_as_floats_are_named() -> None:
    model = _hashed_ids(1, "int32")

    def compute(inputs: Any) -> np.ndarray:
        slots = np.mod(inputs["x"].astype(np.float32), np.float32(50)).astype(int)
        return np.asarray(model.get_layer("table").embeddings)[slots]

    (finding,) = findings(model, compute, Closed)
    assert (finding.cause, finding.parameters) == (Cause.CAST_INPUT, (OtherValue("dtype of 'x'", "int32", "float32"),))


@pytest.mark.slow
def test_a_price_that_is_cut_to_an_integer_is_named() -> None:
    price = keras.Input((2,), name="x")
    model = keras.Model(price, {"y": layers.Dense(3, "tanh", name="mix")(price)})
    (finding,) = findings(model, lambda inputs: np.asarray(model(np.trunc(inputs["x"]))["y"]), Closed)
    assert (finding.cause, finding.parameters) == (Cause.CAST_INPUT, (OtherValue("dtype of 'x'", "float32", "int32"),))


def test_a_float_type_calls_a_nested_layer_about_as_often_as_it_has_layers_around_it() -> None:
    calls: list[None] = []

    class Counting(layers.Layer):
        def call(self, x: Any) -> Any:
            calls.append(None)
            return x

    x = keras.Input((2,), dtype="int32")
    model = keras.Model(x, Counting()(x))
    for _ in range(8):
        model = keras.Model(x, model(x))
    calls.clear()
    with casts._integers_in(model, "float32"):
        model(np.ones((1, 2), "int32"))
    assert 2 <= len(calls) <= 10
