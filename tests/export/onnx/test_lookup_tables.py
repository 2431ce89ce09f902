"""A vocabulary arrives: what is looked up in the file is what Keras looks up, known or not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from keras_pe.export import UnsupportedError, export_onnx
from tests.export.onnx.exported import run_file

WORDS = ["the", "cat", "Äpfel", "", "a b"]
TEXTS = np.array([["cat", "the"], ["dog", "Äpfel"], ["a b", ""], ["THE", "äpfel"]], dtype=object)
NUMBERS = np.array([[10, 30], [-1, 20], [0, 99], [2**40, 10]], "int64")


def _model(layer: Callable[[Any], Any], dtype: str) -> keras.Model:
    x = keras.Input((2,), dtype=dtype, name="x")
    return keras.Model(x, layer(x))


def _embed(x: Any) -> Any:
    return layers.Embedding(5, 4)(layers.StringLookup(vocabulary=WORDS[:3])(x))


def _look_up(mode: str) -> Any:
    return layers.StringLookup(vocabulary=[word for word in WORDS if word], output_mode=mode)


# A layer, its inputs and the operator set.
TABLES: dict[str, tuple[Callable[[Any], Any], np.ndarray, int]] = {
    "texts": (_look_up("int"), TEXTS, 18),
    "a set of texts": (_look_up("multi_hot"), TEXTS, 18),
    "texts with a mask": (layers.StringLookup(vocabulary=WORDS[:2], mask_token=""), TEXTS, 18),
    "numbers": (layers.IntegerLookup(vocabulary=[10, 20, 30]), NUMBERS, 18),
    "texts of numbers": (layers.StringLookup(vocabulary=["a", "b", "c"], invert=True), NUMBERS[2:] % 4, 18),
    "an embedding of words": (_embed, TEXTS, 18),
    "texts at the first operator set": (_look_up("int"), TEXTS, 15),
    "counts": (_look_up("count"), TEXTS, 18),
    "counts at the last operator set": (_look_up("count"), TEXTS, 25),
}


@pytest.mark.quick_rows(6)
@pytest.mark.parametrize(("layer", "x", "opset"), TABLES.values(), ids=TABLES)
def test_a_vocabulary_arrives(layer: Callable[[Any], Any], x: np.ndarray, opset: int, tmp_path: Path) -> None:
    model = _model(layer, "string" if x is TEXTS else "int64")
    (actual,) = run_file(export_onnx(model, tmp_path / "m.onnx", opset_version=opset).path, x=x)
    expected = np.asarray(model(keras.ops.convert_to_tensor(x) if x is not TEXTS else x, training=False))
    if expected.dtype == object:  # TensorFlow's texts are bytes
        expected = np.array([text.decode() for text in expected.reshape(-1)], dtype=object).reshape(expected.shape)
    assert len(np.unique(expected)) > 1
    np.testing.assert_array_equal(actual, expected)


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
    (actual,) = run_file(export_onnx(model, tmp_path / "m.onnx").path, **asked)
    expected = model({name: tf.constant(array) for name, array in asked.items()}, training=False)
    assert len(np.unique(expected)) > 2
    np.testing.assert_array_equal(actual, expected)


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
