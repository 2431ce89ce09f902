"""Runs an ONNX file in OpenVINO on the CPU."""

import sys
from collections.abc import Mapping

# OpenVINO reports each import to its vendor, from a process that can outlive this one: a check tells nobody.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

import openvino  # noqa: E402

from keras_pe.export.artifacts.artifact import TensorInfo  # noqa: E402
from keras_pe.export.runtimes.runtime import Array, Arrays, tensor_info  # noqa: E402


class OpenVINORuntime:
    """An ONNX file compiled by OpenVINO."""

    def __init__(self, path: str) -> None:
        core = openvino.Core()
        # On some processors it computes float32 models in bfloat16 by default.
        self._model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self.inputs = tuple(_spec(port) for port in self._model.inputs)
        self.version = f"openvino {openvino.__version__}"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        results = self._model(dict(inputs))
        return {port.get_any_name(): results[port].copy() for port in self._model.outputs}


def _spec(port: openvino.ConstOutput) -> TensorInfo:
    shape = (None if dim.is_dynamic else dim.get_length() for dim in port.get_partial_shape())
    return tensor_info(port.get_any_name(), shape, port.get_element_type().to_dtype().name)
