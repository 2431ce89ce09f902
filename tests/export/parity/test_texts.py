"""Texts that a model returns are compared as texts, whichever way a runtime holds them."""

from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import (
    DisagreementError,
    Format,
    check_parity,
    export_onnx,
    export_saved_model,
)
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.pipeline.smoke_test import check_agreement
from keras_pe.export.runtimes.runtime import Arrays

LABELS = ["cat", "dog", "\u00fcbermut"]


def labelling() -> keras.Model:
    scores = keras.Input((4,), name="scores")
    best = ops.argmax(layers.Dense(4, name="dense")(scores), -1)
    return keras.Model(scores, layers.StringLookup(vocabulary=LABELS, invert=True, name="label")(best))


@pytest.mark.slow
def test_labels_agree_in_every_runtime(tmp_path: Path) -> None:
    model = labelling()
    report = check_parity(model, [export_onnx(model, tmp_path / "m.onnx"), export_saved_model(model, tmp_path / "m")])
    assert report.passed, report


@pytest.mark.slow
def test_other_labels_are_a_difference(tmp_path: Path) -> None:
    model = labelling()
    artifact = export_onnx(model, tmp_path / "m.onnx")
    other = labelling()
    other.set_weights([np.roll(weight, 1, -1) for weight in model.get_weights()])
    report = check_parity(other, [artifact])
    assert not report.passed
    assert "non-determinism" not in str(report)


def test_a_text_that_is_another_one_stops_an_export() -> None:
    text = keras.Input((), dtype="string", name="text")
    known = layers.StringLookup(vocabulary=LABELS)
    model = keras.Model(text, layers.StringLookup(vocabulary=LABELS, invert=True, name="again")(known(text)))
    reference = KerasReference(model)

    def run(inputs: Arrays, other: str) -> Arrays:
        texts = inputs["text"]
        return {"again": np.where(np.isin(texts, LABELS), texts, other)}

    check_agreement(partial(run, other="[UNK]"), reference, Format.ONNX)
    with pytest.raises(DisagreementError, match="'again' differs"):
        check_agreement(partial(run, other="cat"), reference, Format.ONNX)
