"""A runtime with an arbitrary computation in the place of one layer, and its diagnosis."""

from collections.abc import Callable, Mapping

import keras
import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.progress import Budget
from keras_pe.export.results import Finding, RuntimeResult
from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec

Inputs = Mapping[str, np.ndarray]
Compute = Callable[[Inputs], np.ndarray | Mapping[str, np.ndarray]]
AMPLE = 500.0
"""Seconds for one diagnosis: what is named must not go with how busy the machine is."""


class Planted(InProcessRunner):
    """Computes the output `y` with a function of the inputs, or each output by its name."""

    version = "planted 1"
    capabilities = frozenset({"intermediates"})

    def __init__(self, inputs: tuple[TensorInfo, ...], compute: Compute) -> None:
        super().__init__(RuntimeSpec("planted", "onnx", "-", "numpy", "-"), None, None)
        self.inputs, self.compute = inputs, compute

    def load(self, path=None, spec=None):
        pass

    def run(self, inputs):
        computed = self.compute(inputs)
        named = computed if isinstance(computed, Mapping) else {"y": computed}
        return {name: np.asarray(array, np.float32) for name, array in named.items()}

    def intermediates(self, inputs, replaced):
        return {**self.run(inputs), **replaced}


class Closed(Planted):
    """The same, whose inside nobody can see."""

    capabilities = frozenset()


def findings(model: keras.Model, compute: Compute, runtime: type[Planted] = Planted) -> tuple[Finding, ...]:
    """Returns the causes that are found for an artifact that computes the outputs of a model in its own way."""
    return diagnose_planted(model, compute, runtime).findings


def diagnose_planted(model: keras.Model, compute: Compute, runtime: type[Planted] = Planted) -> RuntimeResult:
    """Returns the whole diagnosis of the runtime."""
    reference = KerasReference(model)
    expectations = reference.answer(sweep(reference.inputs, reference.roles, seed=0, known=reference.dimensions))
    runner = runtime(reference.inputs, compute)
    run = run_cases(runner, runner.spec, None, reference, expectations)
    assert not run.result.passed
    return diagnose(run, runner, reference, reference.roles, Budget(AMPLE))


def one_layer(layer: keras.Layer, *shapes: tuple[int | None, ...], dtype: str = "float32") -> keras.Model:
    """Returns a model of one layer, the first input of which is `x`."""
    inputs = [keras.Input(shape, dtype=dtype, name=name) for name, shape in zip("xzw", shapes, strict=False)]
    return keras.Model(inputs, layer(inputs[0] if len(inputs) == 1 else inputs))
