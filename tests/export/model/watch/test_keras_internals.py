"""Methods of single layers, as one thread sees them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import export_onnx
from keras_pe.export.model.watch.keras_internals import named_functions, replaced_functions
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


def test_a_lambda_is_saved_with_its_code_by_another_thread() -> None:
    layer = keras.layers.Lambda(lambda x: x)
    model = keras.Sequential([keras.Input((4,)), layer])
    with named_functions(model) as functions, ThreadPoolExecutor(1) as other:
        assert layer.get_config()["function"]["class_name"] == "function"
        assert other.submit(layer.get_config).result()["function"]["class_name"] == "__lambda__"
    assert list(functions.values()) == [layer.function]
    assert layer.get_config()["function"]["class_name"] == "__lambda__"


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
