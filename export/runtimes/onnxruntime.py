"""Runs an ONNX file in ONNX Runtime, at an optimization level and on an execution provider."""

import ctypes
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # by default a GPU may multiply float32 with ten bits

import numpy as np
import onnxruntime

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype, tensor_info

if TYPE_CHECKING:
    from keras_pe.export.runtimes.onnx_intermediates import InspectedModel

_LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

# Ten bits of a product are not float32, but NVIDIA's devices multiply so by default.
_PROVIDER_OPTIONS: Mapping[str, Mapping[str, Any]] = {"CUDAExecutionProvider": {"use_tf32": 0}}
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_DTYPES = {"float": "float32", "double": "float64"}  # the others have NumPy's names
_BFLOAT16, _BFLOAT16_NUMBER = "tensor(bfloat16)", 16  # ONNX's name and number of the type
_TENSOR = re.compile(r"tensor\((\w+)\)$")


class OnnxRuntime:
    """An ONNX file in a session of ONNX Runtime."""

    def __init__(
        self,
        path: str,
        level: str = "all",
        provider: str = "CPUExecutionProvider",
        disabled_optimizers: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
        threads: int = 0,
    ) -> None:
        """Opens the file.

        Args:
            path: The ONNX file.
            level: The graph optimization level.
            provider: The execution provider. Nodes without a kernel in it run on the CPU, and `providers` counts them.
            disabled_optimizers: ONNX Runtime's names of optimizations to leave out.
            config: Entries of the session's configuration.
            threads: How many compute one operator; 0 leaves it to ONNX Runtime.

        Raises:
            RuntimeError: If the provider does not run here. ONNX Runtime itself takes the CPU then.
        """
        self._path = path
        options = session_options(level)
        options.intra_op_num_threads = threads
        for key, value in (config or {}).items():
            options.add_session_config_entry(key, value)
        own = _PROVIDER_OPTIONS.get(provider, {})
        self._session = onnxruntime.InferenceSession(
            path, options, providers=[(provider, dict(own))], disabled_optimizers=list(disabled_optimizers)
        )
        self.inputs = tuple(_spec(argument) for argument in self._session.get_inputs())
        self._outputs = [argument.name for argument in self._session.get_outputs()]
        self.version = f"onnxruntime {onnxruntime.__version__}"
        running = self._session.get_providers()
        if running[0] != provider:  # it goes on without one that does not start
            raise RuntimeError(f"{provider} did not start; ONNX Runtime would use {running}.")
        placed = self._session.get_provider_graph_assignment_info()
        self.providers = dict(Counter(part.ep_name for part in placed for _ in part.get_nodes()))
        if self.providers and provider not in self.providers:
            raise RuntimeError(f"{provider} runs no node of {path}; ONNX Runtime would use {self.providers}.")

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return _run(self._session, self._outputs, inputs)

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        names, feeds = self._inspected.names, self._inspected.feeds(inputs, replaced)
        return self._inspected.as_read(_run(self._inner_session, names, feeds))

    def weights(self) -> Mapping[str, Array]:
        return self._inspected.weights()

    def float_dtypes(self) -> tuple[str, ...]:
        return self._inspected.float_dtypes()

    def metadata(self) -> dict[str, str]:
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def conditions(self, inputs: Mapping[str, Array]) -> Mapping[str, bool]:
        names = self._inspected.conditions
        values = self._condition_session.run(None, dict(inputs)) if names else []
        return {name: bool(value) for name, value in zip(names, values, strict=True)}

    @cached_property
    def _inspected(self) -> "InspectedModel":
        from keras_pe.export.runtimes.onnx_intermediates import InspectedModel

        return InspectedModel(self._path)

    @cached_property
    def _inner_session(self) -> onnxruntime.InferenceSession:
        """The session of all tensors."""
        return self._beside(self._inspected.serialize())

    @cached_property
    def _condition_session(self) -> onnxruntime.InferenceSession:
        return self._beside(self._inspected.serialized_conditions())

    def _beside(self, model: bytes) -> onnxruntime.InferenceSession:
        """Returns a session of a model that takes its weights from where the file is, without optimizations."""
        options = session_options("disabled")
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(Path(self._path).absolute().parent))
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(session: onnxruntime.InferenceSession, names: Sequence[str], inputs: Mapping[str, Array]) -> Arrays:
    """Returns the outputs by name. ONNX Runtime reads no bfloat16 from NumPy's arrays: it is given the bits."""
    arguments = (*session.get_inputs(), *session.get_outputs())
    if all(argument.type != _BFLOAT16 for argument in arguments):
        return dict(zip(names, session.run(list(names), dict(inputs)), strict=True))
    values = session.run_with_ort_values(list(names), {name: _value(array) for name, array in inputs.items()})
    return {name: _array(value) for name, value in zip(names, values, strict=True)}


def _value(array: Array) -> onnxruntime.OrtValue:
    if array.dtype.name != "bfloat16":
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
    bits = np.ascontiguousarray(array).view(np.uint16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16_NUMBER)


def _array(value: onnxruntime.OrtValue) -> Array:
    if value.element_type() != _BFLOAT16_NUMBER:
        return np.asarray(value.numpy())
    shape = value.shape()
    bits = (ctypes.c_uint16 * math.prod(shape)).from_address(value.data_ptr())
    return np.array(bits, np.uint16).view(as_dtype("bfloat16")).reshape(shape)


def session_options(level: str) -> onnxruntime.SessionOptions:
    """Returns options with a level of graph optimization, which log errors only: they are raised as well."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[level]
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def _spec(argument: onnxruntime.NodeArg) -> TensorInfo:
    name = _TENSOR.sub(r"\1", argument.type)  # a sequence keeps its type
    return tensor_info(argument.name, argument.shape, _DTYPES.get(name, name))
