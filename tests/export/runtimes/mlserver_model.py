"""An ONNX file behind MLServer: runs in the server's own environment, which has MLServer, NumPy and ONNX Runtime."""

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor
from mlserver.utils import get_model_uri

DATATYPES = {"float": "FP32", "double": "FP64", "int32": "INT32", "int64": "INT64", "bool": "BOOL"}


class OnnxModel(MLModel):
    async def load(self) -> bool:
        self.session = onnxruntime.InferenceSession(await get_model_uri(self._settings))
        self.inputs = [describe(argument) for argument in self.session.get_inputs()]
        self.outputs = [describe(argument) for argument in self.session.get_outputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        arrays = {each.name: NumpyCodec.decode_input(each) for each in payload.inputs}
        names = [argument.name for argument in self.session.get_outputs()]
        outputs = zip(names, self.session.run(names, arrays), strict=True)
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(name, array) for name, array in outputs]
        )


def describe(argument: onnxruntime.NodeArg) -> MetadataTensor:
    shape = [dim if isinstance(dim, int) else -1 for dim in argument.shape]
    datatype = DATATYPES[argument.type.removeprefix("tensor(").removesuffix(")")]
    return MetadataTensor(name=argument.name, datatype=datatype, shape=shape)
