"""Ten small models of ten kinds, their files with one weight damaged, and what the check says of such a file."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import onnx
from keras import layers as L  # noqa: N812
from onnx import numpy_helper

import keras_pe
from keras_pe.export import export_onnx
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.results import RuntimeResult
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker


def functional() -> keras.Model:
    x = keras.Input((None, 6), name="x")
    y = L.Dense(8, activation="tanh", name="first")(x)
    return keras.Model(x, L.Dense(3, name="last")(L.LayerNormalization(name="norm")(y)), name="functional")


def nested_model() -> keras.Model:
    inner = keras.Sequential([keras.Input((None, 6)), L.Dense(6, activation="silu", name="a"), L.Dense(6, name="b")])
    x = keras.Input((None, 6), name="x")
    return keras.Model(x, L.Dense(2, name="head")(inner(x) + x), name="nested")


class Subclassed(keras.Model):
    """A model whose own call adds and multiplies between its layers."""

    def __init__(self) -> None:
        super().__init__(name="subclassed")
        self.one = L.Dense(6, activation="tanh", name="one")
        self.two = L.Dense(6, name="two")
        self.input_spec = keras.layers.InputSpec(shape=(None, None, 6), dtype="float32")

    def call(self, x):
        return self.two(self.one(x) * 2.0 + x) - x


def subclassed_model() -> keras.Model:
    model = Subclassed()
    model(np.zeros((1, 2, 6), np.float32))
    return model


def recurrent() -> keras.Model:
    x = keras.Input((None, 5), name="x")
    y = L.LSTM(4, return_sequences=True, name="lstm")(x)
    return keras.Model(x, L.Dense(2, name="head")(L.GRU(3, name="gru")(y)), name="recurrent")


def convolutional() -> keras.Model:
    x = keras.Input((12, 12, 3), name="x")
    y = L.Conv2D(4, 3, activation="relu", name="conv")(x)
    y = L.BatchNormalization(name="norm")(y)
    y = L.GlobalAveragePooling2D(name="pool")(L.SeparableConv2D(5, 3, name="separable")(y))
    return keras.Model(x, L.Dense(2, name="head")(y), name="convolutional")


def two_inputs() -> keras.Model:
    x, y = keras.Input((None, 4), name="x"), keras.Input((None, 4), name="y")
    z = L.Concatenate(name="both")([L.Dense(3, name="left")(x), L.Dense(3, activation="elu", name="right")(y)])
    return keras.Model([x, y], L.Dense(2, name="head")(z), name="two_inputs")


def two_outputs() -> keras.Model:
    x = keras.Input((None, 4), name="x")
    y = L.Dense(6, activation="gelu", name="shared")(x)
    return keras.Model(x, {"a": L.Dense(2, name="a")(y), "b": L.Dense(3, name="b")(y)}, name="two_outputs")


def attention() -> keras.Model:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras_pe.SinusoidalPositionEncoding(name="encode")(L.Embedding(20, 8, mask_zero=True, name="embed")(tokens))
    x = L.LayerNormalization(name="norm")(x + L.MultiHeadAttention(2, 4, name="attend")(x, x))
    return keras.Model(tokens, L.Dense(3, name="head")(x), name="attention")


def positions() -> keras.Model:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = L.Embedding(20, 6, name="embed")(tokens)
    x = keras_pe.LearnedPositionEmbedding(300, name="place")(x)
    return keras.Model(tokens, L.Dense(3, activation="softmax", name="head")(x), name="positions")


def hub_blocks() -> keras.Model:
    import keras_hub

    x = keras.Input((None, 8), name="x")
    y = keras_hub.layers.TransformerEncoder(12, 2, name="encoder")(x)
    return keras.Model(x, L.Dense(2, name="head")(y), name="hub_blocks")


MODELS = (
    functional, nested_model, subclassed_model, recurrent, convolutional, two_inputs, two_outputs, attention, positions,
    hub_blocks,
)  # fmt: skip


@functools.cache
def built(build: Callable[[], keras.Model]) -> tuple[keras.Model, KerasReference, tuple]:
    """Returns a model with independent weights, its reference, and the expectations of a short sweep."""
    keras.utils.set_random_seed(7)
    model = build()
    rng = np.random.default_rng(7)
    for variable in model.variables:
        if "float" in variable.dtype:
            low = 0.5 if "variance" in variable.path or "gamma" in variable.path else -0.7
            variable.assign(rng.uniform(low, 1.5 if low > 0 else 0.7, variable.shape))
    reference = KerasReference(model)
    cases = sweep(reference.inputs, reference.roles, seed=0)[:1]
    return model, reference, tuple(reference.answer(cases))


def damages(model: keras.Model) -> Iterator[tuple[str, str, float]]:
    """Yields each weight with a size: a little (a hundredth of its largest value) and a lot (the whole of it)."""
    for variable in model.variables:
        if "float" in variable.dtype:
            for size in (0.01, 1.0):
                yield variable.path, variable.path.rpartition("/")[0], size


def damage(source: Path, path: Path, sizes: dict[str, float]) -> Path:
    """Writes a file with noise on some of its weights, in parts of their largest value."""
    model = onnx.load(source)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.name in sizes:
            values = numpy_helper.to_array(tensor).copy()
            noise = rng.uniform(0.5, 1.0, values.shape) * rng.choice([-1, 1], values.shape)
            values += (sizes[tensor.name] * np.abs(values).max() * noise).astype(values.dtype)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, path)
    return path


def export_model(build: Callable[[], keras.Model], folder: Path) -> Path:
    return export_onnx(built(build)[0], folder / f"{build.__name__}.onnx").path


def check(build: Callable[[], keras.Model], path: Path, worker: Worker) -> RuntimeResult:
    """Returns the result of a file beside its model: what `check_parity` does, without starting anything anew."""
    _, reference, expectations = built(build)
    (spec,) = find_runtimes(["onnxruntime[all]"])
    run = run_cases(worker, spec, path, reference, expectations)
    return run.result if run.result.passed else diagnose(run, worker, reference, reference.roles)


def faulty_layers(result: RuntimeResult) -> set[str]:
    """Returns the layers that are called the fault's own, in the findings or layer by layer."""
    layers = {finding.layer for finding in result.findings if finding.layer}
    return layers | {layer.layer.partition("#")[0] for layer in result.layers if layer.originates_here}
