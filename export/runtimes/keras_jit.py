"""The Keras model itself on JAX, compiled by `jax.jit`: once for each shape, as `predict` compiles it."""

from collections.abc import Mapping
from typing import Any

import jax
import keras

from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import one_at_a_time
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.runtimes.runtime import Array, Arrays, plain


class JittedKeras:
    """A Keras model in this process. What a call assigns goes from one `run` to the next, and never to the model."""

    def __init__(self, model: Any, signature: Signature) -> None:
        self._model = model
        self._signature = signature
        self._variables = list(
            model.variables
        )  # as arguments: a constant is compiled with its graph, whatever its size
        self._state = [variable.value for variable in self._variables]
        self.inputs = signature.inputs
        self.version = f"jax {jax.__version__}"
        self._call = jax.jit(self._trace)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        tensors = {spec.name: keras.ops.convert_to_tensor(inputs[spec.name], spec.dtype) for spec in self.inputs}
        with one_at_a_time:
            outputs, self._state = self._call(tensors, self._state)
        return {name: plain(keras.ops.convert_to_numpy(tensor)) for name, tensor in outputs.items()}

    def _trace(self, tensors: dict[str, Any], state: list[Any]) -> tuple[dict[str, Any], list[Any]]:
        """Returns the outputs, and the values of the variables after the call."""
        with state_left_alone(zip(self._variables, state, strict=True)) as scope:
            outputs = self._signature.call(self._model, tensors)
            return outputs, [scope.get_current_value(variable) for variable in self._variables]
