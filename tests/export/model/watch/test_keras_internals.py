"""Methods of single layers, as one thread sees them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import UnsupportedError, check_parity, export_litert, export_onnx, export_saved_model
from keras_pe.export.model.watch.keras_internals import (
    loops_as_graphs,
    named_functions,
    scope_name,
    sequential_models_built_once,
)
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.records import Artifact
from keras_pe.export.runtimes.onnxruntime import OnnxRuntime


def test_another_thread_runs_the_layer_as_it_is() -> None:
    layer = keras.layers.SimpleRNN(3)
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    usual = np.asarray(layer(x))

    def zeros(loop: Any, sequences: Any, initial_state: Any, mask: Any = None, training: bool = False) -> Any:
        last, outputs, states = loop(sequences, initial_state, mask, training)
        return last * 0, outputs, states

    with replaced_functions([(layer, "inner_loop", zeros)]), ThreadPoolExecutor(1) as other:
        assert not np.asarray(layer(x)).any()
        np.testing.assert_array_equal(other.submit(layer, x).result(), usual)
    np.testing.assert_array_equal(layer(x), usual)


@pytest.mark.parametrize("needs_values", [False, True], ids=["traced once", "run step by step"])
def test_a_long_loop_has_its_values_whether_its_cell_can_be_traced_or_not(needs_values: bool) -> None:
    steps = []

    class Cell(keras.layers.SimpleRNNCell):  # type: ignore[misc]
        def call(self, sequence: Any, states: Any, training: bool = False) -> Any:
            steps.append(np.asarray(sequence) if needs_values else sequence)
            return super().call(sequence, states, training)

    layer = keras.layers.RNN(Cell(3), return_sequences=True)
    x = np.random.default_rng(0).normal(size=(2, 100, 4)).astype("float32")
    usual = np.asarray(layer(x))
    steps.clear()
    with loops_as_graphs():
        # each of the 100 steps may round a value of at most 1 otherwise, and orthogonal weights keep the differences
        np.testing.assert_allclose(layer(x), usual, rtol=0, atol=100 * np.finfo("float32").eps)
    assert len(steps) >= 100 if needs_values else len(steps) < 100


def test_a_lambda_is_saved_with_its_code_by_another_thread() -> None:
    layer = keras.layers.Lambda(lambda x: x)
    model = keras.Sequential([keras.Input((4,)), layer])
    with named_functions(model) as functions, ThreadPoolExecutor(1) as other:
        assert layer.get_config()["function"]["class_name"] == "function"
        assert other.submit(layer.get_config).result()["function"]["class_name"] == "__lambda__"
    assert list(functions.values()) == [layer.function]
    assert layer.get_config()["function"]["class_name"] == "__lambda__"


def test_a_sequential_model_is_read_in_time_proportional_to_its_depth() -> None:
    calls = []

    class Counted(keras.layers.Dense):
        def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(self.name)
            return super().compute_output_spec(*args, **kwargs)

    inner = keras.Sequential([keras.Input((4,)), *(Counted(4, name=f"inner_{each}") for each in range(5))])
    model = keras.Sequential([keras.Input((4,)), inner, *(Counted(4, name=f"outer_{each}") for each in range(20))])
    config = keras.saving.serialize_keras_object(model)
    calls.clear()
    with keras.saving.custom_object_scope({"Counted": Counted}), sequential_models_built_once():
        again = keras.saving.deserialize_keras_object(config)
    assert len(calls) <= 2 * 25 + 5  # at most twice in a build, and the inner model has one call
    assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]
    again.set_weights(model.get_weights())
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    np.testing.assert_array_equal(again(x), model(x))


@pytest.mark.slow
def test_two_threads_export_one_model_at_once(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((None, 4), name="x"), keras.layers.LSTM(3, name="y")])
    start = threading.Barrier(2)

    def export(number: int) -> Path:
        start.wait()
        return export_onnx(model, tmp_path / f"{number}.onnx").path

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(export, range(2))
    assert one.read_bytes() == other.read_bytes()
    x = np.random.default_rng(0).normal(size=(2, 7, 4)).astype("float32")
    # Seven steps, each a sum of eight products of values near 1 and two functions that flatten it.
    np.testing.assert_allclose(OnnxRuntime(str(one)).run({"x": x})["y"], model(x), rtol=0, atol=2e-6)


NAMES = [
    "Кодер",
    "编码器",
    "a b",
    "it's",
    'say "x"',
    "a:b",
    "a\\b",
    "a\nb",
    "",
    "<b>&amp;",
    "-x",
    "_x",
    "\x1b[31m",
    "a#2",
    "x~2",
]


def test_scopes_of_different_names_differ() -> None:
    assert len({scope_name(name) for name in NAMES}) == len(NAMES)
    assert [scope_name(name) for name in ("dense_1", "block.0-a")] == ["dense_1", "block.0-a"]


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("export", "runtimes"),
    [
        pytest.param(export_onnx, ["onnxruntime[all]", "keras[graph]"], id="onnx"),
        pytest.param(export_saved_model, "tensorflow", id="saved_model"),
        pytest.param(export_litert, "litert", id="litert"),
    ],
)
def test_layers_and_models_of_any_name_are_exported_and_checked(export: Any, runtimes: Any, tmp_path: Path) -> None:
    x = y = keras.Input((4,), name="x")
    for name in NAMES:
        y = keras.layers.Dense(4, "tanh", name=name)(y)
    inner = keras.Input((4,))
    nested = keras.Model(inner, keras.layers.Dense(3, name="编 码")(inner), name="内\n部")
    model = keras.Model(x, {"вы ход": nested(y)}, name="a\\b: \x1b")
    artifact: Artifact = export(model, tmp_path / "m")
    assert artifact.outputs[0].name.isascii()
    assert "вы ход" in artifact.metadata["keras_pe.names"].encode().decode("unicode_escape")
    report = check_parity(model, artifact, runtimes=runtimes)
    assert report.passed
    assert "\x1b" not in str(report)


def test_an_operator_of_a_layer_of_any_name_is_refused_with_that_name(tmp_path: Path) -> None:
    x = keras.Input((3, 3), name="x")
    y = keras.layers.Lambda(lambda each: keras.ops.svd(each)[1], name="раз:ложение")(x)
    with pytest.raises(UnsupportedError) as caught:
        export_onnx(keras.Model(x, y), tmp_path / "m.onnx")
    assert caught.value.layer == "раз:ложение"
