"""The promises of a SavedModel export."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_pe
from keras_pe.export import ExportError, Format, export_saved_model, read_artifact
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import InvalidArtifactError, TracingError
from keras_pe.export.pipeline.smoke_test import check_artifact
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.shared_workers import tensorflow_process
from tests.export.counting import Counting


def _model(width: int = 3) -> keras.Model:
    inputs = keras.Input((None, 8), name="my values")
    encoded = keras_pe.SinusoidalPositionEncoding()(inputs)
    return keras.Model(inputs, {"first": keras.layers.Dense(width)(encoded), "second": encoded})


def check(folder: Path, model: keras.Model) -> None:
    spec = find_runtimes("tensorflow")[0]
    with tensorflow_process() as process:
        check_artifact(folder, process, KerasReference(model), Format.SAVED_MODEL, spec=spec)


_SERVE = """
import sys, numpy, tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
result = served(my_values=tf.constant(numpy.load(sys.argv[2])))
assert "keras_pe" not in sys.modules
numpy.save(sys.argv[3], result["first"])
"""


@pytest.mark.slow
def test_it_serves_by_name_without_the_code_of_the_layer(tmp_path: Path) -> None:
    model = _model()
    artifact = export_saved_model(model, tmp_path / "model")
    values = np.random.default_rng(0).normal(size=(2, 300, 8)).astype("float32")
    np.save(tmp_path / "in.npy", values)
    command = [sys.executable, "-c", _SERVE, artifact.path, tmp_path / "in.npy", tmp_path / "out.npy"]
    subprocess.run(command, check=True, cwd=tmp_path, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    # The same TensorFlow kernels on the same numbers, fused otherwise at most: a few roundings of values near 3.
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), model(values)["first"], atol=2e-6, rtol=0)


@pytest.mark.slow
def test_each_weight_is_stored_once(tmp_path: Path) -> None:
    model = _model(width=20_000)
    weights = sum(int(np.prod(weight.shape)) * 4 for weight in model.weights)
    assert weights < export_saved_model(model, tmp_path / "model").nbytes < 1.5 * weights


def test_a_saved_model_returns_its_stored_metadata(tmp_path: Path) -> None:
    artifact = export_saved_model(_model(), tmp_path / "model")
    again = read_artifact(artifact.path)
    assert (again.inputs, again.outputs, again.metadata) == (artifact.inputs, artifact.outputs, artifact.metadata)
    assert again.inputs[0].shape == ("batch", "length", 8)
    assert [spec.name for spec in again.outputs] == ["first", "second"]


def test_state_is_kept_and_mentioned(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,), name="values"), Counting(name="counter")])
    artifact = export_saved_model(model, tmp_path / "model")
    assert re.search("layer 'counter' .* changes a variable", artifact.notes[0])
    served = tf.saved_model.load(artifact.path).signatures["serving_default"]
    results = [next(iter(served(values=tf.zeros((1, 2))).values()))[0, 0] for _ in range(3)]
    assert np.diff(results).tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_state_that_no_output_depends_on_is_not_mentioned(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.RandomGrayscale()])  # it only counts its draws
    assert export_saved_model(model, tmp_path / "model").notes == ()


@pytest.mark.slow
def test_layers_that_keras_traces_wrongly_are_traced_right(tmp_path: Path) -> None:
    layers = [keras.Input((None, 4), name="x"), keras.layers.TimeDistributed(keras.layers.Dense(2), name="steps")]
    model = keras.Sequential(layers)
    served = tf.saved_model.load(export_saved_model(model, tmp_path / "model").path).signatures["serving_default"]
    for shape in ((2, 5, 4), (3, 1, 4)):
        x = tf.random.stateless_normal(shape, (0, 0))
        np.testing.assert_allclose(served(x=x)["steps"], model(x), rtol=1e-6, atol=1e-6)


def test_a_folder_that_opens_and_does_not_run_is_refused(tmp_path: Path) -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.Activation("relu", name="y")(x))
    module = tf.Module()
    module.serve = tf.function(
        lambda x: {"y": tf.reshape(x, [1, 5, 4])}, input_signature=[tf.TensorSpec([None, None, 4], name="x")]
    )
    tf.saved_model.save(module, tmp_path / "folder", signatures=module.serve)
    with pytest.raises(ExportError, match="the runtime opens it and does not run it"):
        check(tmp_path / "folder", model)


def test_a_folder_that_returns_other_numbers_is_refused(tmp_path: Path) -> None:
    x = keras.Input((None, 4), name="x")
    linear, rectified = (keras.Model(x, keras.layers.Activation(kind, name="y")(x)) for kind in ("linear", "relu"))
    artifact = export_saved_model(linear, tmp_path / "folder")
    with pytest.raises(ExportError, match=r"output 'y' differs from Keras' by \d\.\d"):
        check(artifact.path, rectified)


@pytest.mark.slow
def test_an_interactive_session_is_told_nothing_of_the_folder_that_is_renamed(tmp_path: Path) -> None:
    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = said.append  # type: ignore[method-assign]
    logger = tf.get_logger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)  # TensorFlow's own choice in a notebook
    try:
        export_saved_model(_model(), tmp_path / "saved_model")
        assert logger.level == logging.INFO
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert not said


@pytest.mark.slow
def test_strings_beside_numbers_are_served(tmp_path: Path) -> None:
    age, city = keras.Input((1,), name="age"), keras.Input((1,), dtype="string", name="city of birth")
    lookup = keras.layers.StringLookup(vocabulary=["Bern", "Chur"], output_mode="one_hot")
    model = keras.Model([age, city], keras.layers.Concatenate(name="features")([age, lookup(city)]))
    artifact = export_saved_model(model, tmp_path / "model")
    assert artifact.notes == ("'city of birth' of the model is called 'city_of_birth' in the artifact.",)
    served = tf.saved_model.load(artifact.path).signatures["serving_default"]
    result = served(age=tf.constant([[40.0], [7.0]]), city_of_birth=tf.constant([["Chur"], ["Ulm"]]))["features"]
    assert result.numpy().tolist() == [[40, 0, 0, 1], [7, 1, 0, 0]]


@pytest.mark.slow
def test_a_text_is_split_and_looked_up_in_the_folder(tmp_path: Path) -> None:
    text = keras.Input((), dtype="string", name="text")
    split = keras.layers.TextVectorization(vocabulary=["cat", "sat"], output_sequence_length=3, name="ids")
    artifact = export_saved_model(keras.Model(text, split(text)), tmp_path / "model")
    served = tf.saved_model.load(artifact.path).signatures["serving_default"]
    assert served(text=tf.constant(["Cat, sat!"]))["ids"].numpy().tolist() == [[2, 3, 0]]


def test_layers_that_keras_cannot_trace_are_refused_with_the_reason(tmp_path: Path) -> None:
    class Eager(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return tf.constant(x.numpy() * 2)

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor(x.shape, x.dtype)

    model = keras.Sequential([keras.Input(batch_shape=(2, 3), name="x"), Eager(name="y")])
    with pytest.raises(TracingError, match="Keras cannot trace it: Eager"):
        export_saved_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_operator_that_ends_its_process_is_an_error_and_not_the_end_of_this_one(tmp_path: Path) -> None:
    class Aborting(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            with tf.control_dependencies([tf.raw_ops.Abort(error_msg="good night")]):
                return tf.identity(x)

    x = keras.Input((3,), name="x")
    with pytest.raises(InvalidArtifactError, match=r"does not run it: the process ended with signal 6"):
        export_saved_model(keras.Model(x, Aborting()(x)), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_operators_of_a_library_are_run_as_well(tmp_path: Path) -> None:
    text = pytest.importorskip("tensorflow_text")

    class Words(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return text.WhitespaceTokenizer().tokenize(x).row_lengths()

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor(x.shape, "int64")

    x = keras.Input((), name="text", dtype="string")
    artifact = export_saved_model(keras.Model(x, Words(name="words")(x)), tmp_path / "model")
    served = tf.saved_model.load(artifact.path).signatures["serving_default"]
    assert served(text=tf.constant(["The cat sat."]))["words"].numpy().tolist() == [3]


class Priced(keras.layers.Layer):
    """Looks its input up in a table, and multiplies it by a variable, both of TensorFlow's."""

    def __init__(self) -> None:
        super().__init__()
        prices = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([10.0, 20.0]))
        self.tables = {"prices": tf.lookup.StaticHashTable(prices, -1.0)}
        self.rate = tf.Variable(1.5)

    def call(self, x: Any) -> Any:
        return self.tables["prices"].lookup(x) * self.rate

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape, "float32")


def test_tables_and_variables_of_tensorflow_are_written(tmp_path: Path) -> None:
    x = keras.Input((3,), dtype="int64", name="x")
    artifact = export_saved_model(keras.Model(x, Priced()(x)), tmp_path / "model")
    served = tf.saved_model.load(artifact.path).signatures["serving_default"]
    (prices,) = served(x=tf.constant([[1, 2, 3]], tf.int64)).values()
    np.testing.assert_array_equal(prices, [[15.0, 30.0, -1.5]])


def test_a_model_that_was_trained_is_written(tmp_path: Path) -> None:
    """Keras gives it a dictionary with its layers as keys, which have no order."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.ReLU()])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    assert export_saved_model(model, tmp_path / "model").path.is_dir()
