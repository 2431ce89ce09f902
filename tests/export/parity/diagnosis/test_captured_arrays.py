"""Arrays that layers capture in calls, attributes and closures are compared as weights are."""

import functools

import keras
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.parity.diagnosis.captured_arrays import captured_arrays

TABLE = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)


@keras.saving.register_keras_serializable("captured")
class WithTable(keras.layers.Layer):
    """Adds a table that it holds in a dictionary."""

    def __init__(self, **keywords):
        super().__init__(**keywords)
        self.held = {"rows": [TABLE.astype(np.float64)], "names": ("a", "b"), "few": np.ones(3, np.float32)}

    def call(self, x):
        return x + keras.ops.cast(self.held["rows"][0], x.dtype)


class WithTensor(WithTable):
    """Adds a table that it holds as a private tensor."""

    def __init__(self, **keywords):
        super().__init__(**keywords)
        self._table, self.held = keras.ops.convert_to_tensor(TABLE), None

    def call(self, x):
        return x + self._table


class WithGlobal(keras.layers.Layer):
    """Adds a table that its call finds among the globals."""

    def call(self, x):
        return x + TABLE


def _add(x, rows, scale=1.0):
    return x + scale * rows


def _adding(rows):
    return keras.layers.Lambda(lambda x: x + rows)


def _untracked_layer(layer, given):
    return keras.layers.Lambda(lambda x: x + layer(given()))


def _embedding():
    layer = keras.layers.Embedding(6, 4)
    layer.build()
    layer.set_weights([TABLE])
    return layer


def _dense():
    layer = keras.layers.Dense(4, use_bias=False)
    layer.build((None, 6))
    layer.set_weights([TABLE])
    return layer


PLANTED = {
    "an attribute": lambda x: WithTable()(x),
    "a private tensor": lambda x: WithTensor()(x),
    "a global": lambda x: WithGlobal()(x),
    "a closure": lambda x: _adding(TABLE)(x),
    "a lambda and a global": lambda x: keras.layers.Lambda(lambda y: y + TABLE)(x),
    "a default": lambda x: keras.layers.Lambda(lambda y, rows=TABLE: y + rows)(x),
    "a partial": lambda x: keras.layers.Lambda(functools.partial(_add, rows=TABLE))(x),
    "an activation": lambda x: keras.layers.Activation(lambda y: y + TABLE)(x),
    "an embedding in a closure": lambda x: _untracked_layer(_embedding(), lambda: keras.ops.arange(6))(x),
    "a dense layer in a closure": lambda x: _untracked_layer(
        _dense(), lambda: keras.ops.one_hot(keras.ops.arange(6), 6)
    )(x),
    "an embedding of a constant": lambda x: x + _embedding()(keras.ops.arange(6)),
}


def _model(plant):
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 4), name="x")
    return keras.Model(x, keras.layers.Dense(3, name="y")(plant(x)))


@pytest.mark.quick_rows(5)
@pytest.mark.parametrize("plant", PLANTED)
def test_a_captured_table_is_found_once_however_a_layer_holds_it(plant):
    (found,) = [array for _, array in captured_arrays(_model(PLANTED[plant]))]
    assert np.array_equal(found.value, TABLE)
    assert found.dtype == "float32"


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dense(4, activation="gelu"),
        keras.layers.Normalization(mean=np.ones(4), variance=np.ones(4)),
        keras.layers.Lambda(lambda x: x + np.float32(1)),
        keras.layers.Rescaling(scale=[1.0, 2.0, 3.0, 4.0]),
        keras.layers.MultiHeadAttention(2, 2),
    ],
)
def test_weights_and_constants_of_keras_own_layers_are_not_captured(layer):
    is_attention = isinstance(layer, keras.layers.MultiHeadAttention)
    assert not list(captured_arrays(_model(lambda x: layer(x, x) if is_attention else layer(x))))


@pytest.mark.slow_rows(3)
@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED)
def test_a_captured_table_counts_for_coverage_and_a_damaged_row_fails(plant, tmp_path):
    model = _model(PLANTED[plant])
    options = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 5}
    path = export_onnx(model, tmp_path / "m.onnx").path
    (sound,) = check_parity(model, path, require_coverage=True, **options).results
    assert (sound.passed, sound.weights.compared, sound.weights.count) == (True, 3, 3)
    stored = onnx.load(path)
    (table,) = [each for each in stored.graph.initializer if np.prod(each.dims) == TABLE.size]
    array = numpy_helper.to_array(table).copy()
    array.reshape(6, 4)[3] *= -1
    table.CopyFrom(numpy_helper.from_array(array, table.name))
    onnx.save(stored, tmp_path / "damaged.onnx")
    (damaged,) = check_parity(model, tmp_path / "damaged.onnx", atol=100.0, **options).results
    assert not damaged.passed
    assert "ndex 3 of axis" in damaged.findings[0].evidence
