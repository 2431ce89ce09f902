"""ONNX Runtime, at a given graph optimization level on a given execution provider."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # a GPU may multiply float32 with ten bits unless it is told

import onnxruntime

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.runtimes.runtime import Array, Arrays, tensor_info

if TYPE_CHECKING:
    from keras_pe.export.runtimes.intermediates import InspectedModel

_LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

# Ten bits of a product are not float32: NVIDIA's devices multiply so unless they are told.
_PROVIDER_OPTIONS: Mapping[str, Mapping[str, Any]] = {"CUDAExecutionProvider": {"use_tf32": 0}}
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_DTYPES = {"float": "float32", "double": "float64"}  # the others have NumPy's names
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
            provider: The execution provider. What it has no kernel for runs on the CPU, and `providers` says how much.
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
        return dict(zip(self._outputs, self._session.run(None, dict(inputs)), strict=True))

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        names = self._inspected.names
        values = self._inner_session.run(names, self._inspected.feeds(inputs, replaced))
        return dict(zip(names, values, strict=True))

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
        from keras_pe.export.runtimes.intermediates import InspectedModel

        return InspectedModel(self._path)

    @cached_property
    def _inner_session(self) -> onnxruntime.InferenceSession:
        """The session of all tensors."""
        return self._beside(self._inspected.serialized())

    @cached_property
    def _condition_session(self) -> onnxruntime.InferenceSession:
        return self._beside(self._inspected.serialized_conditions())

    def _beside(self, model: bytes) -> onnxruntime.InferenceSession:
        """Returns a session of a model that takes its weights from where the file is, without optimizations."""
        options = session_options("disabled")
        options.add_session_config_entry(_WEIGHTS_FOLDER, str(Path(self._path).absolute().parent))
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def session_options(level: str) -> onnxruntime.SessionOptions:
    """Returns options with a level of graph optimization, which log errors only: they are raised as well."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[level]
    options.log_severity_level = 3
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return options


def _spec(argument: onnxruntime.NodeArg) -> TensorInfo:
    name = _TENSOR.sub(r"\1", argument.type)  # a sequence is told as it is
    return tensor_info(argument.name, argument.shape, _DTYPES.get(name, name))
