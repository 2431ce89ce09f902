"""A vocabulary arrives: what is looked up in the file is what Keras looks up, known or not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
import tensorflow as tf
from keras import layers

from keras_pe.export import UnsupportedError, export_onnx

WORDS = ["the", "cat", "Äpfel", "", "a b"]
TEXTS = np.array([["cat", "the"], ["dog", "Äpfel"], ["a b", ""], ["THE", "äpfel"]], dtype=object)
NUMBERS = np.array([[10, 30], [-1, 20], [0, 99], [2**40, 10]], "int64")


def _run(model: keras.Model, x: np.ndarray, folder: Path, **options: Any) -> None:
    path = export_onnx(model, folder / "m.onnx", **options).path
    (actual,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    expected = keras.ops.convert_to_tensor(x) if x.dtype != object else x
    expected = np.asarray(model(expected, training=False))
    if expected.dtype == object:  # TensorFlow's texts are bytes
        expected = np.array([text.decode() for text in expected.reshape(-1)], dtype=object).reshape(expected.shape)
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(actual, expected)


def _model(layer: Callable[[Any], Any], dtype: str) -> keras.Model:
    x = keras.Input((2,), dtype=dtype, name="x")
    return keras.Model(x, layer(x))


@pytest.mark.parametrize(
    ("mode", "opset"),
    [
        ("int", 18),
        ("multi_hot", 18),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("int", 15), ("count", 18), ("count", 25)]),
    ],
)
def test_texts_are_looked_up(mode: str, opset: int, tmp_path: Path) -> None:
    layer = layers.StringLookup(vocabulary=[word for word in WORDS if word], output_mode=mode)
    _run(_model(layer, "string"), TEXTS, tmp_path, opset_version=opset)


def test_texts_are_looked_up_with_a_mask(tmp_path: Path) -> None:
    _run(_model(layers.StringLookup(vocabulary=WORDS[:2], mask_token=""), "string"), TEXTS, tmp_path)


def test_numbers_are_looked_up(tmp_path: Path) -> None:
    _run(_model(layers.IntegerLookup(vocabulary=[10, 20, 30]), "int64"), NUMBERS, tmp_path)


def test_texts_are_found_again(tmp_path: Path) -> None:
    x = np.array([[0, 1], [3, 2]], "int64")
    _run(_model(layers.StringLookup(vocabulary=["a", "b", "c"], invert=True), "int64"), x, tmp_path)


def test_an_embedding_of_words_arrives(tmp_path: Path) -> None:
    table = layers.StringLookup(vocabulary=WORDS[:3])
    _run(_model(lambda x: layers.Embedding(5, 4)(table(x)), "string"), TEXTS, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The structure of `inputs`")  # Keras compares its own dictionary with ours
def test_the_columns_of_a_table_arrive(tmp_path: Path) -> None:
    """`FeatureSpace` counts in tensors whose shape TensorFlow forgets where it reads a graph back."""
    columns = {"age": [1.0, 4.0, 2.0], "color": ["red", "blue", "red"], "rooms": [2, 3, 5]}
    kinds = {"age": "float", "color": "string_categorical", "rooms": "integer_categorical"}
    space = keras.utils.FeatureSpace(kinds, output_mode="concat")
    space.adapt(tf.data.Dataset.from_tensor_slices(columns))
    model = keras.Model(space.get_inputs(), space.get_encoded_features())
    asked = {
        "age": np.float32([[3], [0]]),
        "color": np.array([["blue"], ["green"]], dtype=object),
        "rooms": np.array([[5], [7]], "int32"),
    }
    session = ort.InferenceSession(export_onnx(model, tmp_path / "m.onnx").path, providers=["CPUExecutionProvider"])
    expected = model({name: tf.constant(array) for name, array in asked.items()}, training=False)
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(session.run(None, asked)[0], expected)


def test_a_file_with_a_table_is_written_alike_each_time(tmp_path: Path) -> None:
    def content(name: str) -> bytes:
        model = _model(layers.StringLookup(vocabulary=[f"word {i}" for i in range(100)], name="words"), "string")
        model.name = "net"
        return export_onnx(model, tmp_path / name).path.read_bytes()

    assert content("a.onnx") == content("b.onnx")


@pytest.mark.parametrize(
    ("layer", "operator"),
    [
        (layers.Hashing(8), "StringToHashBucketFast"),
        (layers.StringLookup(vocabulary=["a"], num_oov_indices=2), "StringToHashBucketFast"),
    ],
)
def test_a_hash_is_refused_by_name_with_the_way_out(layer: Any, operator: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="StringLookup or IntegerLookup") as caught:
        export_onnx(_model(layer, "string"), tmp_path / "m.onnx")
    assert (caught.value.layer, caught.value.operator) == (layer.name, operator)
