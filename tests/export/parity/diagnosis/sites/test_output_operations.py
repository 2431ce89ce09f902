"""An operation that is left out or added is named with its layer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import layers, ops

from keras_pe.export import Cause, check_parity, export_onnx
from tests.export.parity.diagnosis.planted import Compute, Inputs, findings


def build(left: int | None) -> Any:
    """Returns a model that adds two layers' outputs, or goes on with one of them alone."""
    keras.utils.set_random_seed(0)
    inputs = [keras.Input((4,), name=name) for name in ("a", "b")]
    branches = [layers.Dense(8, name=f"of_{each.name}")(each) for each in inputs]
    joined = layers.Add(name="sum")(branches) if left is None else layers.Identity(name="sum")(branches[left])
    outputs = {"score": layers.Dense(3, name="score")(joined)}
    outputs |= {f"own_{number}": layers.Dense(1, name=f"own_{number}")(x) for number, x in enumerate(branches)}
    return keras.Model(inputs, outputs, name="model")


@pytest.mark.slow
@pytest.mark.parametrize(("left", "gone"), [(0, "of_b"), (1, "of_a")])
def test_an_input_that_is_not_read_is_named(tmp_path: Path, left: int, gone: str) -> None:
    model, mistaken = build(None), build(left)
    mistaken.set_weights(model.get_weights())
    report = check_parity(model, export_onnx(mistaken, tmp_path / "model.onnx"), runtimes="onnxruntime[all]")
    finding = next(each for each in report.findings if each.layer == "sum")
    assert finding.cause == Cause.LAYER_LEFT_OUT
    assert f"does not read input {1 - left} ({gone!r})" in finding.evidence


def _twice(activation: str, at: layers.Layer) -> tuple[keras.Model, Compute]:
    """Returns a model whose last layer is given an activation, and an artifact that applies the activation twice."""
    x = keras.Input((8, 6), name="x")
    act = layers.Dense(6, activation, name="act")
    hidden = act(x)
    model = seeded(keras.Model(x, {"hidden": hidden, "y": at(hidden)}))

    def wrong(inputs: Inputs) -> dict[str, np.ndarray]:
        hidden = act(inputs["x"])
        return {"hidden": np.asarray(hidden), "y": np.asarray(at(act.activation(hidden)))}

    return model, wrong


@pytest.mark.parametrize(
    ("activation", "at"),
    [
        ("sigmoid", lambda: layers.Dense(3, name="y")),
        pytest.param("tanh", lambda: layers.Dense(3, "tanh", name="y"), marks=pytest.mark.slow),
        pytest.param("gelu", lambda: layers.LayerNormalization(name="y"), marks=pytest.mark.slow),
        pytest.param("softplus", lambda: layers.LSTM(4, return_sequences=True, name="y"), marks=pytest.mark.slow),
    ],
    ids=["dense", "bent", "normalized", "recurrent"],
)
def test_an_activation_that_is_applied_twice_is_the_layers_that_has_it(
    activation: str, at: Callable[[], layers.Layer]
) -> None:
    (finding,) = findings(*_twice(activation, at()))
    assert (finding.cause, finding.layer) == (Cause.OPERATION_ADDED, "act"), finding


class Rounded(layers.Layer):
    """A layer of a user that rounds."""

    def call(self, x):
        return ops.round(x)


@pytest.mark.parametrize(("rounded", "place"), [(ops.round, None), (Rounded(name="round"), "ops.round(x)")])
def test_another_rounding_of_halves_is_another_operation(rounded: Callable[[Any], Any], place: str | None) -> None:
    x = keras.Input((8,), name="x")
    model = keras.Model(x, {"y": rounded(x)})
    (finding,) = findings(model, lambda inputs: np.floor(inputs["x"] + 0.5))
    assert (finding.cause, finding.operation) == (Cause.OTHER_OPERATION, place)
    assert "halves up" in finding.evidence
