"""The Keras model itself, compiled: one `tf.function` for every shape, through XLA if asked."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_pe.export.model.signature.signature import Signature, input_specs
from keras_pe.export.model.watch.keras_internals import all_layers, one_at_a_time
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.traceable import as_traceable, steps_as_rows
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype, plain


class KerasRuntime:
    """A Keras model in this process: it may not be one that a child process could load.

    It is traced as it is for an export: with what Keras cannot trace as it is written, or traces to something else.

    What a call assigns goes from one `run` to the next, and never to the model: the function takes the state and
    returns it.
    """

    def __init__(self, model: Any, signature: Signature, jit_compile: bool = False) -> None:
        self._model = model
        self._signature = signature
        self._variables = list(model.non_trainable_variables)
        self._state = [variable.value for variable in self._variables]
        self.inputs = signature.inputs
        self.version = f"tensorflow {tf.__version__}"
        specs = {spec.name: spec for spec in input_specs(signature)}
        state = [tf.TensorSpec(variable.shape, variable.dtype) for variable in self._variables]
        layers = all_layers(model)
        function = tf.function(self._trace, input_signature=[specs, state], jit_compile=jit_compile, autograph=False)
        with one_at_a_time, steps_as_rows(layers):
            self._call = as_traceable(layers, function.get_concrete_function)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        tensors = {spec.name: inputs[spec.name].astype(as_dtype(spec.dtype), copy=False) for spec in self.inputs}
        outputs, changed = self._call(tensors, self._state)
        for index, value in changed.items():
            self._state[int(index)] = value
        return {name: plain(tensor.numpy()) for name, tensor in outputs.items()}

    def _trace(self, tensors: dict[str, Any], state: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the outputs, and the values of the variables that the call assigned by their number."""
        with state_left_alone(zip(self._variables, state, strict=True)) as scope:
            outputs = self._signature.call(self._model, tensors)
            after = [scope.get_current_value(variable) for variable in self._variables]
        pairs = zip(after, state, strict=True)
        return outputs, {str(index): new for index, (new, old) in enumerate(pairs) if new is not old}
