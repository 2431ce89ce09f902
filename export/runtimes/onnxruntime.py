"""ONNX Runtime, at a given graph optimisation level on a given execution provider."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

os.environ.setdefault("NVIDIA_TF32_OVERRIDE", "0")  # a GPU may multiply float32 with ten bits unless it is told

import onnxruntime

from keras_pe.export.artifact import TensorInfo
from keras_pe.export.runtimes.runtime import Array, Arrays

_LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

_DTYPES = {"float": "float32", "double": "float64"}  # the others have NumPy's names


class OnnxRuntime:
    """An ONNX file in a session of ONNX Runtime."""

    def __init__(
        self,
        path: str,
        level: str = "all",
        provider: str = "CPUExecutionProvider",
        disabled_optimizers: Sequence[str] = (),
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Opens the file.

        Args:
            path: The ONNX file.
            level: The graph optimization level.
            provider: The execution provider.
            disabled_optimizers: ONNX Runtime's names of optimizations to leave out.
            config: Entries of the session's configuration.
        """
        self._path = path
        self._disabled_optimizers = list(disabled_optimizers)
        self._config = config or {}
        self._provider = provider
        self._session = self._open(path, level)
        self.inputs = tuple(_spec(argument) for argument in self._session.get_inputs())
        self._outputs = [argument.name for argument in self._session.get_outputs()]
        self.version = f"onnxruntime {onnxruntime.__version__}"
        if provider not in self._session.get_providers():  # it goes on without one that does not start
            raise RuntimeError(f"{provider} did not start; ONNX Runtime would use {self._session.get_providers()}.")
        placed = self._session.get_provider_graph_assignment_info()
        self.providers = dict(Counter(part.ep_name for part in placed for _ in part.get_nodes()))

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return dict(zip(self._outputs, self._session.run(None, dict(inputs)), strict=True))

    def intermediates(self, inputs: Mapping[str, Array]) -> Arrays:
        from keras_pe.export.runtimes.intermediates import TappedModel

        tapped = TappedModel(self._path)
        session = self._open(tapped.all_outputs(), "disabled")
        return dict(zip(tapped.names, session.run(tapped.names, dict(inputs)), strict=True))

    def between(self, feeds: Mapping[str, Array], fetch: str) -> Array:
        from keras_pe.export.runtimes.intermediates import TappedModel

        session = self._open(TappedModel(self._path).part(feeds, fetch), "disabled")
        wanted = [argument.name for argument in session.get_inputs()]
        array: Array = session.run([fetch], {name: np.ascontiguousarray(feeds[name]) for name in wanted})[0]
        return array

    def _open(self, model: str | bytes, level: str) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = _LEVELS[level]
        options.log_severity_level = 3  # errors; they are raised as well
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        for key, value in self._config.items():
            options.add_session_config_entry(key, value)
        return onnxruntime.InferenceSession(
            model, options, providers=[self._provider], disabled_optimizers=self._disabled_optimizers
        )


def _spec(argument: onnxruntime.NodeArg) -> TensorInfo:
    name = argument.type.removeprefix("tensor(").removesuffix(")")
    # A dimension without a name is a dynamic one like any other: it gets a name of its own.
    shape = tuple(f"{argument.name}_{i}" if dim is None else dim for i, dim in enumerate(argument.shape))
    return TensorInfo(argument.name, shape, _DTYPES.get(name, name))
