"""A TextVectorization arrives: a file splits texts into the words that Keras splits them into."""

import re
import string
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
import tensorflow as tf
from keras import layers

from keras_pe.export import DisagreementError, UnsupportedError, export_onnx, read_artifact

WORDS = ["cat", "sat", "its", "\u00e4pfel", "the", "onthe", "\u00c9", "cat,"]
TEXTS = [
    " The  cat,\tsat\n on-the\x0bmat!\r ",
    "cat SAT \u00c9 it's a cat",
    "",
    "--- ,",
    "dog",
    "a\u00a0b \u00c4PFEL \u00e4pfel",
]


def _export(path: Path, opset: int = 20, **options: Any) -> Any:
    x = keras.Input((1,), dtype="string", name="x")
    model = keras.Model(x, layers.TextVectorization(vocabulary=WORDS, name="words", **options)(x))
    export_onnx(model, path, opset_version=opset)
    return model


def _check(path: Path, **options: Any) -> None:
    model = _export(path, **options)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    texts = np.array(TEXTS, object)[:, None]
    for rows in (texts, texts[2:3], texts[2:4]):  # all of them, one without a word, two
        (actual,) = session.run(None, {"x": rows})
        np.testing.assert_array_equal(actual, np.asarray(model(tf.constant(rows))), strict=True)


@pytest.mark.slow
def test_texts_become_words_in_lower_case(tmp_path: Path) -> None:
    _check(tmp_path / "m.onnx", standardize="lower", output_sequence_length=4)


@pytest.mark.slow_rows(5)
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_sequence_length": 4},
        {"standardize": "strip_punctuation", "output_sequence_length": 2},
        {"standardize": None},
        {"standardize": None, "split": None},
        {"output_mode": "multi_hot"},
        {"output_mode": "count"},
        {"output_mode": "tf_idf", "idf_weights": np.arange(1, 9) / 7},
    ],
    ids=str,
)
def test_each_way_to_prepare_and_count_arrives(options: dict[str, Any], tmp_path: Path) -> None:
    _check(tmp_path / "m.onnx", **options)


@pytest.mark.slow
def test_a_standardization_of_ones_own_arrives(tmp_path: Path) -> None:
    def without_breaks(texts: Any) -> Any:
        plain = tf.strings.regex_replace(tf.strings.lower(texts), "t,", " <br /> ")
        return tf.strings.regex_replace(plain, f"[{re.escape(string.punctuation)}]", "")

    _check(tmp_path / "m.onnx", standardize=without_breaks)


@pytest.mark.slow
def test_the_number_of_words_is_no_dimension_of_the_input(tmp_path: Path) -> None:
    _export(tmp_path / "m.onnx", standardize=None)
    assert read_artifact(tmp_path / "m.onnx").outputs[0].shape == ("batch", "words_axis_1")


def test_below_opset_20_it_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="Export with opset_version=20 or later") as caught:
        _export(tmp_path / "m.onnx", opset=18)
    assert caught.value.layer == "words"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "operator"), [({"split": "character"}, "UnicodeDecode"), ({"ngrams": 2}, "StringNGrams")]
)
def test_an_operator_without_a_form_is_refused_by_name(options: dict[str, Any], operator: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="outside the model") as caught:
        _export(tmp_path / "m.onnx", **options)
    assert (caught.value.layer, caught.value.operator) == ("words", operator)


@pytest.mark.slow
def test_a_replacement_that_is_no_set_of_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="Only a plain text or a set of ASCII characters"):
        _export(tmp_path / "m.onnx", standardize=lambda texts: tf.strings.regex_replace(texts, "a+", ""))


@pytest.mark.slow
def test_words_that_are_split_otherwise_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras_pe.export.onnx.handlers.texts._SPACES", "")
    with pytest.raises(DisagreementError, match="differs from Keras' in"):
        _export(tmp_path / "m.onnx", standardize=None, output_sequence_length=8)
