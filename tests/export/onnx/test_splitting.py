"""A TextVectorization arrives: a file splits texts into the words that Keras splits them into."""

import re
import string
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_pe.export import DisagreementError, UnsupportedError, export_onnx, read_artifact
from tests.export.onnx.exported import run_file

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


def _remove_breaks(texts: Any) -> Any:
    plain = tf.strings.regex_replace(tf.strings.lower(texts), "t,", " <br /> ")
    return tf.strings.regex_replace(plain, f"[{re.escape(string.punctuation)}]", "")


@pytest.mark.slow_rows(6)
@pytest.mark.slow
@pytest.mark.parametrize(("options", "columns"), [
    ({}, "words_axis_1"),
    ({"standardize": "lower", "output_sequence_length": 4}, 4),
    ({"standardize": _remove_breaks}, "words_axis_1"),
    ({"output_sequence_length": 4}, 4),
    ({"standardize": "strip_punctuation", "output_sequence_length": 2}, 2),
    ({"standardize": None}, "words_axis_1"),
    ({"standardize": None, "split": None}, 1),
    ({"output_mode": "multi_hot"}, 9),
    ({"output_mode": "count"}, 9),
    ({"output_mode": "tf_idf", "idf_weights": np.arange(1, 9) / 7}, 9),
], ids=str)  # fmt: skip
def test_each_way_to_prepare_and_count_arrives(options: dict[str, Any], columns: int | str, tmp_path: Path) -> None:
    model = _export(tmp_path / "m.onnx", **options)
    assert read_artifact(tmp_path / "m.onnx").outputs[0].shape == ("batch", columns)
    texts = np.array(TEXTS, object)[:, None]
    for rows in (texts, texts[2:3], texts[2:4]):  # all of them, one without a word, two
        (actual,) = run_file(tmp_path / "m.onnx", x=rows)
        np.testing.assert_array_equal(actual, np.asarray(model(tf.constant(rows))), strict=True)


def _replace_runs(texts: Any) -> Any:
    return tf.strings.regex_replace(texts, "a+", "")


CHARACTERS = "Only a plain text or a set of ASCII characters"
# Options, an operator set, and the refusal: its words and the operator.
REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "an early operator set": ({}, 18, "Export with opset_version=20 or later", "StaticRegexReplace"),
    "characters": ({"split": "character"}, 20, "outside the model", "UnicodeDecode"),
    "pairs of words": ({"ngrams": 2}, 20, "outside the model", "StringNGrams"),
    "a replacement of any pattern": ({"standardize": _replace_runs}, 20, CHARACTERS, "StaticRegexReplace"),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(("options", "opset", "words", "operator"), REFUSED.values(), ids=REFUSED)
def test_words_without_a_form_are_refused_by_name_with_the_way_out(
    options: dict[str, Any], opset: int, words: str, operator: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=words) as caught:
        _export(tmp_path / "m.onnx", opset, **options)
    assert (caught.value.layer, caught.value.operator) == ("words", operator)


@pytest.mark.slow
def test_words_that_are_split_otherwise_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras_pe.export.onnx.handlers.texts._SPACES", "")
    with pytest.raises(DisagreementError, match="differs from Keras' in"):
        _export(tmp_path / "m.onnx", standardize=None, output_sequence_length=8)
