"""Runs an ONNX file in ONNX's reference evaluator, which is slow and independent of optimizers."""

from collections.abc import Mapping

import onnx
from onnx.reference import ReferenceEvaluator

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.runtimes.runtime import Array, Arrays, tensor_info


class OnnxReferenceRuntime:
    """An ONNX file in ONNX's reference evaluator."""

    def __init__(self, path: str) -> None:
        self._evaluator = ReferenceEvaluator(path)
        initializers = {tensor.name for tensor in self._evaluator.proto_.graph.initializer}
        inputs = [value for value in self._evaluator.proto_.graph.input if value.name not in initializers]
        self.inputs = tuple(_spec(value) for value in inputs)
        self.version = f"onnx {onnx.__version__}"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return dict(zip(self._evaluator.output_names, self._evaluator.run(None, dict(inputs)), strict=True))


def _spec(value: onnx.ValueInfoProto) -> TensorInfo:
    tensor = value.type.tensor_type
    shape = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim)
    return tensor_info(value.name, shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name)
