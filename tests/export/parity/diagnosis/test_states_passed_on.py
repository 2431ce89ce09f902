"""A recurrence that is damaged, and hands its states on: what takes them is not blamed."""

import keras
import numpy as np
import onnx
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812
from onnx import numpy_helper

from keras_pe.export import export_onnx
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose

TOLD = {"return_sequences": True, "return_state": True, "name": "encoder"}


def _step_model(kind, **options):
    def build():
        x = keras.Input((4, 3), name="x")
        steps, *states = kind(3, **TOLD)(x)
        return keras.Model(x, kind(3, **options, name="decoder")(steps, initial_state=states), name="model")

    return build


def _with_steps_returned():
    x = keras.Input((4, 3), name="x")
    steps, *states = L.LSTM(3, **TOLD)(x)
    return keras.Model(x, [steps, L.LSTM(3, name="decoder")(steps, initial_state=states)], name="model")


def _image_model():
    x = keras.Input((3, 4, 4, 2), name="x")
    steps, *states = L.ConvLSTM2D(2, 3, padding="same", **TOLD)(x)
    return keras.Model(x, L.ConvLSTM2D(2, 3, padding="same", name="decoder")(steps, initial_state=states), name="model")


def _attention_model():
    x, y = keras.Input((4, 3), name="x"), keras.Input((5, 3), name="y")
    keys, state = L.GRU(4, **TOLD)(x)
    queries = L.GRU(4, return_sequences=True, name="decoder")(y, initial_state=state)
    return keras.Model([x, y], L.AdditiveAttention(name="attention")([queries, keys]), name="model")


@pytest.mark.slow_rows(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        _step_model(L.LSTM),
        _with_steps_returned,
        _step_model(L.GRU),
        _step_model(L.LSTM, recurrent_activation="hard_sigmoid"),  # a Loop
        _image_model,
        _attention_model,
    ],
    ids=["LSTM", "with its steps returned", "GRU", "a loop", "ConvLSTM", "keys of attention"],
)
@pytest.mark.parametrize(
    "damage",
    [lambda kernel: 1.05 * kernel, lambda kernel: kernel[..., ::-1]],
    ids=["scaled", "reversed"],
)
def test_an_encoder_is_blamed_alone_for_what_it_hands_on(build, damage, tmp_path, plain_worker):
    model = seeded(build())
    path = export_onnx(model, tmp_path / "model.onnx").path
    file = onnx.load(path)
    (kernel,) = [w for w in file.graph.initializer if w.name in ("encoder/LSTM/W", "encoder/GRU/W", "encoder/W")] or [
        w for w in file.graph.initializer if w.name.startswith("encoder/") and w.name.endswith("_cell/kernel")
    ]
    values = np.ascontiguousarray(damage(numpy_helper.to_array(kernel)), np.float32)
    kernel.CopyFrom(numpy_helper.from_array(values, kernel.name))
    onnx.save(file, path)
    reference = KerasReference(model)
    cases = sweep(reference.inputs, reference.roles, seed=0)[:3]
    run = run_cases(plain_worker, plain_worker.spec, path, reference, reference.answer(cases))
    result = diagnose(run, plain_worker, reference, reference.roles)
    assert {finding.layer for finding in result.findings} == {"encoder"}
    assert "unknown" not in {finding.cause for finding in result.findings}
    assert {each.layer for each in result.layers if each.originates_here} == {"encoder"}
    assert result.proof.layers == ("encoder",)
    assert result.proof.holds
