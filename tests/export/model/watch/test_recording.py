"""Inputs and outputs of each layer are recorded whole, even if other threads call the model."""

import threading
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np

from keras_pe.export.model.watch.recording import record_calls


def test_threads_that_record_one_model_each_see_every_layer() -> None:
    x = keras.Input((None, 4), name="x")
    names = ["a", "b", "c"]
    y = x
    for name in names:
        y = keras.layers.Dense(4, name=name)(y)
    model = keras.Model(x, y)
    zeros = keras.ops.zeros((2, 3, 4))
    start = threading.Barrier(3)

    def record(seed: int) -> list[tuple[list[str], bool]]:
        given = keras.ops.convert_to_tensor(np.random.default_rng(seed).normal(size=(2, 3, 4)).astype("float32"))
        start.wait()
        seen = []
        for _ in range(10):
            calls = record_calls(model, lambda: model(given))
            is_own = bool(calls) and np.array_equal(calls[0].inputs[0], keras.ops.convert_to_numpy(given))
            seen.append(([call.path for call in calls], is_own))
        return seen

    with ThreadPoolExecutor(3) as threads:
        recordings = [each for seen in threads.map(record, range(3)) for each in seen]
    assert recordings == [(names, True)] * 30
    assert not any("call" in vars(layer) for layer in model.layers)
    model(zeros)
    assert [call.path for call in record_calls(model, lambda: model(zeros))] == names
