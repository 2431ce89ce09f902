"""The Keras model itself, compiled: one `tf.function` for every shape, through XLA if asked."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_pe.export.model.signature import Signature
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype


class KerasCompiled:
    """A Keras model in this process: it may not be one that a child process could load."""

    def __init__(self, model: Any, signature: Signature, jit_compile: bool = False) -> None:
        self._model = model
        self._signature = signature
        self.inputs = signature.inputs
        self.version = f"tensorflow {tf.__version__}"
        specs = {
            spec.name: tf.TensorSpec([dim if isinstance(dim, int) else None for dim in spec.shape], spec.dtype)
            for spec in signature.inputs
        }
        self._call = tf.function(self._trace, input_signature=[specs], jit_compile=jit_compile, autograph=False)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        tensors = {spec.name: inputs[spec.name].astype(as_dtype(spec.dtype), copy=False) for spec in self.inputs}
        return {name: tensor.numpy() for name, tensor in self._call(tensors).items()}

    def _trace(self, tensors: dict[str, Any]) -> dict[str, Any]:
        return self._signature.call(self._model, tensors)
