"""An optional input is there or not, as the signature or the examples say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import check_parity, export_litert, export_onnx, export_saved_model, model_signature


@keras.saving.register_keras_serializable("tests")
class Scaled(keras.layers.Layer):
    """Multiplies by a factor, if it is given one."""

    def call(self, x: Any, factor: Any = None) -> Any:
        return x if factor is None else x * factor

    def compute_output_spec(self, x: Any, factor: Any = None) -> Any:
        return keras.KerasTensor(x.shape, x.dtype)


def _model(is_named: bool = False) -> keras.Model:
    x = keras.Input((4,), name="x")
    factor = keras.Input((4,), name="the factor", optional=True)
    y = keras.layers.Dense(3, name="y")(Scaled()(x, factor))
    return keras.Model({"x": x, "the factor": factor} if is_named else [x, factor], y)


X = keras.InputSpec(shape=(None, 4), dtype="float32")


@pytest.mark.parametrize(
    ("is_named", "given"),
    [
        (False, {"input_signature": [X, None]}),
        (True, {"input_signature": {"x": X, "the factor": None}}),
        (True, {"input_signature": {"the factor": None, "x": X}}),
        (False, {"inputs": [{"x": np.ones((2, 4), "float32")}]}),
        (True, {"inputs": [{"x": np.ones((2, 4), "float32")}]}),
    ],
)
def test_a_model_is_called_without_an_optional_input(is_named: bool, given: dict[str, Any]) -> None:
    signature = model_signature(_model(is_named), **given)
    assert [spec.name for spec in signature.inputs] == ["x"]
    assert [spec.name for spec in model_signature(_model(is_named)).inputs] == ["x", "the_factor"]


def test_an_input_that_is_not_optional_is_needed() -> None:
    with pytest.raises(ValueError, match="optional inputs only"):
        model_signature(_model(), [None, X])


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("export", "runtime"),
    [(export_onnx, "onnxruntime[all]"), (export_saved_model, "tensorflow"), (export_litert, "litert")],
    ids=["onnx", "saved_model", "litert"],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_check_calls_the_model_as_its_artifact_is_called(
    export: Callable[..., Any], runtime: str, is_there: bool, tmp_path: Path
) -> None:
    model = _model()
    artifact = export(model, tmp_path / "m", input_signature=None if is_there else [X, None])
    assert len(artifact.inputs) == 1 + is_there
    assert check_parity(model, artifact, runtimes=runtime).passed
