"""Exports a function of tensors to ONNX and runs the file in ONNX Runtime."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime as ort

from keras_pe.export import export_onnx
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.onnx_model import all_nodes


class Apply(keras.layers.Layer):
    """A layer without weights that calls a function of its inputs."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, *tensors: Any) -> Any:
        return self.function(*tensors)


class Calls(keras.Model):
    """A model without weights that calls a function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(name="calls")
        self.function = function
        self.built = True

    def call(self, *tensors: Any) -> Any:
        return self.function(*tensors)


def chain_layers(shape: tuple[int | None, ...], *kinds: Any, dtype: str = "float32") -> keras.Model:
    """Returns a model that calls layers and functions one after another."""
    keras.utils.set_random_seed(0)
    x = y = keras.Input(shape, dtype=dtype, name="x")
    for kind in kinds:
        y = kind(y) if isinstance(kind, keras.layers.Layer) else keras.layers.Lambda(kind)(y)
    return keras.Model(x, y)


def randomize_weights(model: keras.Model, low: float, high: float) -> keras.Model:
    """Returns the model after it draws all weights, since a zero would hide a bias in the wrong place."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.uniform(low, high, weight.shape))
    return model


def keras_results(function: Callable[..., Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns what eager Keras returns in inference, flat."""
    results = Calls(function)(*(keras.ops.convert_to_tensor(x) for x in inputs), training=False)
    return [np.asarray(x) for x in keras.tree.flatten(results)]


def onnx_results(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    folder: Path,
    *,
    is_static: bool = False,
    opset_version: int = 18,
) -> list[np.ndarray]:
    """Returns what the exported file returns, flat. The first dimension of an input is dynamic unless `is_static`."""
    specs = [keras.InputSpec(shape=_shape(x, is_static), dtype=_dtype(x)) for x in inputs]
    return open_session(function, specs, folder, opset_version=opset_version)(inputs)


def assert_agrees(
    function: Callable[..., Any],
    inputs: Sequence[np.ndarray],
    folder: Path,
    expected: Sequence[Any] | None = None,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    **options: Any,
) -> None:
    """Fails unless the exported file returns the expected arrays, which are Keras' by default, with their types."""
    is_typed = expected is None
    truths = keras_results(function, inputs) if expected is None else expected
    for actual, truth in zip(onnx_results(function, inputs, folder, **options), truths, strict=True):
        if rtol or atol:
            np.testing.assert_allclose(actual, truth, rtol=rtol, atol=atol, strict=is_typed)
        else:
            np.testing.assert_array_equal(actual, truth, strict=True)


def assert_cases_agree(
    function: Callable[..., Any],
    shapes: Sequence[tuple[int | None, ...]],
    cases: Iterable[Sequence[np.ndarray]],
    folder: Path,
    *,
    atol: float | Callable[[np.ndarray], float] = 0.0,
    opset_version: int = 18,
) -> None:
    """Exports a function for inputs of these shapes once, and compares the outputs with Keras in each case.

    The tolerance may depend on the expected array.
    """
    cases = list(cases)
    specs = [keras.InputSpec(shape=shape, dtype=_dtype(x)) for shape, x in zip(shapes, cases[0], strict=True)]
    run = open_session(function, specs, folder, opset_version=opset_version)
    for inputs in cases:
        for number, (actual, truth) in enumerate(zip(run(inputs), keras_results(function, inputs), strict=True)):
            allowed = atol(truth) if callable(atol) else atol
            name = f"output {number} of {[x.shape for x in inputs]}"
            np.testing.assert_allclose(actual, truth, rtol=0, atol=allowed, strict=True, err_msg=name)


def export_and_compare(
    model: keras.Model, path: Path, *cases: Any, atol: float, rtol: float = 0.0, **options: Any
) -> Artifact:
    """Exports a model, and compares its outputs in ONNX Runtime with Keras: for an array, a list, or a dictionary."""
    artifact = export_onnx(model, path, **options)
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    for case in cases:
        names = [spec.name for spec in artifact.inputs]
        arrays = [case[name] for name in names] if isinstance(case, dict) else keras.tree.flatten(case)
        named = dict(zip(names, arrays, strict=True))
        expected = keras.tree.flatten(model(case, training=False))
        results = session.run([spec.name for spec in artifact.outputs], named)
        for spec, actual, truth in zip(artifact.outputs, results, expected, strict=True):
            np.testing.assert_allclose(actual, np.asarray(truth), rtol=rtol, atol=atol, err_msg=spec.name, strict=True)
    return artifact


def run_file(path: Path, **inputs: np.ndarray) -> list[np.ndarray]:
    return list(ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs))


def file_operators(path: Path) -> list[str]:
    """Returns the operators of a file, with those of branches and loops."""
    return [node.op_type for node in all_nodes(onnx.load(path).graph)]


def exported_together(
    functions: Mapping[str, Callable[..., Any]], inputs: Sequence[np.ndarray], folder: Path, **options: Any
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Exports several functions of the same inputs to one file, since an export takes longer than what it exports.

    Yields the name of a function, what the file returns and what Keras returns: once for each array.
    """
    actual = iter(onnx_results(lambda *x: [function(*x) for function in functions.values()], inputs, folder, **options))
    for name, function in functions.items():
        for truth in keras_results(function, inputs):
            yield name, next(actual), truth


def open_session(
    function: Callable[..., Any], specs: Sequence[keras.InputSpec], folder: Path, *, opset_version: int = 18
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    """Returns the exported file as a function of inputs of any sizes, which returns its outputs, flat."""
    artifact = export_onnx(
        Calls(function), folder / "calls.onnx", input_signature=list(specs), opset_version=opset_version
    )
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(artifact.path, options, providers=["CPUExecutionProvider"])

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        named = {spec.name: x for spec, x in zip(artifact.inputs, inputs, strict=True)}
        return [np.asarray(x) for x in session.run([spec.name for spec in artifact.outputs], named)]

    return run


def _shape(array: np.ndarray, is_static: bool) -> tuple[int | None, ...]:
    return array.shape if is_static or not array.ndim else (None, *array.shape[1:])


def _dtype(array: np.ndarray) -> str:
    return "string" if array.dtype.kind == "U" else str(array.dtype)
