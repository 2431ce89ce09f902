"""An export that is refused because the artifact returns something else names what the parity check would."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import Cause, DisagreementError, export_litert, export_onnx, export_saved_model
from keras_pe.export.graph.trace_with_variables import Endpoint
from keras_pe.export.onnx import exporter


def small_model() -> keras.Model:
    """Returns a model of words, with layers that compute with one operator and with several."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(20, 8, name="embed")(tokens)
    x = keras.layers.Dense(8, activation="tanh", name="mix")(x)
    x = keras.layers.LayerNormalization(name="norm")(x)
    x = keras.layers.Softmax(name="share")(x)
    return keras.Model(tokens, keras.layers.Dense(3, name="scores")(x), name="small")


def onnx_with(fault: Callable[[onnx.ModelProto], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has what is converted to ONNX changed on its way to the file."""
    convert = exporter.convert

    def convert_with_fault(*args: Any) -> onnx.ModelProto:
        proto = convert(*args)
        fault(proto)
        return proto

    monkeypatch.setattr(exporter, "convert", convert_with_fault)


def with_other_axis(proto: onnx.ModelProto) -> None:
    (softmax,) = (node for node in proto.graph.node if node.op_type == "Softmax")
    softmax.attribute.append(onnx.helper.make_attribute("axis", 1))


def written_with(layer: Any, weight: int, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has SavedModel and LiteRT files written with another value of a weight."""
    write = Endpoint.write

    def written(self: Endpoint, folder: Path) -> None:
        right = layer.get_weights()
        layer.set_weights([array * factor if number == weight else array for number, array in enumerate(right)])
        write(self, folder)
        layer.set_weights(right)

    monkeypatch.setattr(Endpoint, "write", written)


@pytest.mark.slow
def test_the_layer_the_operator_the_cause_and_the_case_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx_with(with_other_axis, monkeypatch)
    with pytest.raises(DisagreementError) as caught:
        export_onnx(small_model(), tmp_path / "m.onnx")
    error = caught.value
    assert (error.layer, error.operator, error.cause) == ("share", "Softmax", Cause.OTHER_AXIS)
    assert "differs from Keras' by" in error.reason
    assert "other axis in layer 'share'" in error.reason
    batch, length = error.inputs["tokens"].shape
    assert error.case == f"drawn, batch {batch}, length {length}"
    again = pickle.loads(pickle.dumps(error))
    assert (again.layer, again.cause, again.case) == (error.layer, error.cause, error.case)
    np.testing.assert_array_equal(again.inputs["tokens"], error.inputs["tokens"])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_it_is_so_in_every_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    written_with(model.get_layer("mix"), 0, 2.0, monkeypatch)
    for export, name in ((export_saved_model, "m"), (export_litert, "m.tflite")):
        with pytest.raises(DisagreementError) as caught:
            export(model, tmp_path / name)
        assert (caught.value.layer, caught.value.cause) == ("mix", Cause.SCALED_VALUES), export


@pytest.mark.slow
def test_the_search_takes_no_longer_than_a_diagnosis_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras_pe.export.parity.export_explanation.DIAGNOSIS_SECONDS", 0.0)
    onnx_with(with_other_axis, monkeypatch)
    with pytest.raises(DisagreementError, match="Not reached within 0 s") as caught:
        export_onnx(small_model(), tmp_path / "m.onnx")
    assert caught.value.cause is Cause.UNKNOWN


@pytest.mark.slow
def test_a_search_that_ends_in_an_error_costs_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr("keras_pe.export.exporters.explain", broken)
    onnx_with(with_other_axis, monkeypatch)
    with pytest.raises(DisagreementError, match="differs from Keras'") as caught:
        export_onnx(small_model(), tmp_path / "m.onnx")
    assert caught.value.cause is None
