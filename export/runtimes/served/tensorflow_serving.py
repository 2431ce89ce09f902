"""A model behind TensorFlow Serving's REST interface."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export import TensorInfo
from keras_pe.export.runtimes import Array, Arrays, as_dtype
from keras_pe.export.runtimes.served.addresses import exchange

_SIGNATURE = "serving_default"
_DTYPES = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16"}  # the others have NumPy's names


class TensorFlowServingModel:
    """A model at an address such as `http://host:8501/v1/models/NAME`, or `.../NAME/versions/2`: `serving_default`."""

    def __init__(self, path: str | None, address: str) -> None:
        """Asks the server what it serves.

        Args:
            path: Of no use: the server has its own.
            address: Of the model.
        """
        self._address = address.rstrip("/")
        about = exchange(f"{self._address}/metadata")
        signature = about["metadata"]["signature_def"]["signature_def"][_SIGNATURE]
        self.inputs = tuple(_info(name, entry) for name, entry in sorted(signature["inputs"].items()))
        self._outputs = {name: _info(name, entry).dtype for name, entry in sorted(signature["outputs"].items())}
        self.version = f"tensorflow-serving (model version {about['model_spec'].get('version') or '?'})"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        question = {"signature_name": _SIGNATURE, "inputs": {name: array.tolist() for name, array in inputs.items()}}
        outputs: Any = exchange(f"{self._address}:predict", question)["outputs"]
        if len(self._outputs) == 1:  # a single one comes without its name
            outputs = dict.fromkeys(self._outputs, outputs)
        return {name: np.array(outputs[name], as_dtype(dtype)) for name, dtype in self._outputs.items()}


def _info(name: str, entry: Mapping[str, Any]) -> TensorInfo:
    dims = [int(dim["size"]) for dim in entry["tensor_shape"].get("dim", [])]
    shape = tuple(f"{name}_{i}" if dim < 0 else dim for i, dim in enumerate(dims))
    dtype = entry["dtype"]
    return TensorInfo(name, shape, _DTYPES.get(dtype, dtype.removeprefix("DT_").lower()))
