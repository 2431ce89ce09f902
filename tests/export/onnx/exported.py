"""Exports a function of tensors to ONNX and runs the file in ONNX Runtime."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort

from keras_pe.export import export_onnx


class Calls(keras.Model):
    """A model without weights that calls a function of its inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(name="calls")
        self.function = function
        self.built = True

    def call(self, *tensors: Any) -> Any:
        return self.function(*tensors)


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
