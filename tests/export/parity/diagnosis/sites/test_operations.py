"""The tensor in the place of a layer's output is named, with the input that is not read."""

from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

from keras_pe.export import Cause, check_parity, export_onnx


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
def test_of_two_inputs_the_one_that_is_not_read_is_named(tmp_path: Path, left: int, gone: str) -> None:
    model, mistaken = build(None), build(left)
    mistaken.set_weights(model.get_weights())
    report = check_parity(model, export_onnx(mistaken, tmp_path / "model.onnx"), runtimes="onnxruntime[all]")
    finding = next(each for each in report.findings if each.layer == "sum")
    assert finding.cause == Cause.LAYER_LEFT_OUT
    assert f"does not read input {1 - left} ({gone!r})" in finding.evidence
