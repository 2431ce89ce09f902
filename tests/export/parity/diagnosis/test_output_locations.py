"""Tensors without names are matched with layers by their values, in a time that grows with their number alone."""

import sys
from collections.abc import Callable, Mapping
from time import perf_counter

import keras
import numpy as np
import pytest

from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.progress import Budget
from keras_pe.export.results import RuntimeResult
from tests.export.parity.diagnosis.planted import Inputs, Planted

Steps = list[tuple[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]]]


class Unnamed(Planted):
    """Computes tensors one after another, whose names say nothing of a layer, and takes others in their places."""

    def __init__(self, inputs, steps: Steps) -> None:
        super().__init__(inputs, lambda given: {"y": self.intermediates(given, {})["y"]})
        self.steps = steps

    def intermediates(self, inputs: Inputs, replaced: Inputs) -> Inputs:
        held = dict(inputs)
        for name, compute in self.steps:
            held[name] = replaced[name] if name in replaced else np.asarray(compute(held), np.float32)
        return held


class Products(keras.layers.Layer):
    """Returns one product with a matrix for each of its matrices."""

    def __init__(self, count: int, **options) -> None:
        super().__init__(**options)
        self.count = count

    def build(self, shape) -> None:
        self.kernel = self.add_weight(shape=(self.count, shape[-1], 3), initializer="glorot_uniform", name="kernel")

    def call(self, x):
        return [keras.ops.matmul(x, self.kernel[number]) for number in range(self.count)]


def _time_diagnosis(model: keras.Model, steps: Steps, seconds: float) -> tuple[RuntimeResult, float]:
    """Returns the diagnosis of an artifact that computes these steps, and the seconds of the diagnosis."""
    reference = KerasReference(model)
    cases = sweep(reference.inputs, reference.roles, seed=0, known=reference.dimensions)[:3]
    runner = Unnamed(reference.inputs, steps)
    run = run_cases(runner, runner.spec, None, reference, reference.answer(cases))
    start = perf_counter()
    return diagnose(run, runner, reference, reference.roles, Budget(seconds)), perf_counter() - start


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("count", [3, 9, 60])
def test_a_layer_with_many_wrong_outputs_that_no_name_tells_is_searched_within_its_time(count: int) -> None:
    keras.utils.set_random_seed(0)
    x = keras.Input((4,), name="x")
    waves = [keras.ops.tanh(each) for each in Products(count, name="products")(x)]
    model = keras.Model(x, keras.layers.Add(name="y")(waves))
    kernel = 1.05 * np.asarray(model.get_layer("products").kernel)
    steps: Steps = [(f"t{n}", lambda held, n=n: held["x"] @ kernel[n]) for n in range(count)]
    steps += [(f"h{n}", lambda held, n=n: np.tanh(held[f"t{n}"])) for n in range(count)]
    steps.append(("y", lambda held: sum(held[f"h{n}"] for n in range(count))))
    result, seconds = _time_diagnosis(model, steps, 10.0)
    assert seconds < 12
    assert {each.layer for each in result.findings} == {"products"}
    if count < 60:
        assert [each.cause for each in result.findings] == ["scaled values"]


@pytest.mark.slow
@pytest.mark.parametrize("depth", [30, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_the_wrong_one_of_many_layers_that_no_name_tells_is_found(depth: int) -> None:
    keras.utils.set_random_seed(0)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 20 * depth))  # Keras follows a model from its end
    try:
        x = y = keras.Input((4,), name="x")
        for number in range(depth):
            name = "y" if number == depth - 1 else f"layer{number}"
            options = {"activation": "tanh", "use_bias": False, "kernel_initializer": "orthogonal"}
            y = keras.layers.Dense(4, **options, name=name)(y)
        model = keras.Model(x, y)
        kernels = [np.asarray(layer.kernel) for layer in model.layers[1:]]
        kernels[depth // 2] *= 1.1
        names = ["x", *(f"t{number}" for number in range(depth - 1)), "y"]
        steps: Steps = [
            (after, lambda held, before=before, kernel=kernel: np.tanh(held[before] @ kernel))
            for before, after, kernel in zip(names, names[1:], kernels, strict=False)
        ]
        result, seconds = _time_diagnosis(model, steps, 30.0)
    finally:
        sys.setrecursionlimit(limit)
    assert seconds < 33
    assert [(each.cause, each.layer) for each in result.findings] == [("scaled values", f"layer{depth // 2}")]
