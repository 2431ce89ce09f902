"""Runs the Keras model itself, compiled by `tf.function` or `jax.jit`.

It runs in this process, because a child process may be unable to load the model. Assignments of a call persist to the
next `run`, and never reach the model: the compiled function takes the state and returns it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_pe.export.model.signature.signature import Signature, input_specs
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.symbolic_trace import as_traceable
from keras_pe.export.model.watch.temporary_patches import one_at_a_time
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype


class _CompiledKeras:
    """A model, and the state that its calls have left."""

    def __init__(self, model: Any, signature: Signature, variables: Sequence[Any]) -> None:
        self._model, self._signature, self._variables = model, signature, variables
        self._state = [variable.value for variable in variables]
        self.inputs = signature.inputs

    def _trace(self, tensors: dict[str, Any], state: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
        """Returns the outputs, and the values of the variables after the call."""
        with state_left_alone(zip(self._variables, state, strict=True)) as scope:
            outputs = self._signature.call(self._model, tensors)
            return outputs, [scope.get_current_value(variable) for variable in self._variables]


class KerasRuntime(_CompiledKeras):
    """A Keras model on TensorFlow, through XLA if asked.

    It is traced as it is for an export: with what Keras cannot trace as it is written, or traces to something else.
    """

    def __init__(self, model: Any, signature: Signature, jit_compile: bool = False) -> None:
        import tensorflow as tf

        super().__init__(model, signature, list(model.non_trainable_variables))
        self.version = f"tensorflow {tf.__version__}"
        specs = {spec.name: spec for spec in input_specs(signature)}
        state = [tf.TensorSpec(variable.shape, variable.dtype) for variable in self._variables]

        @tf.function(input_signature=[specs, state], jit_compile=jit_compile, autograph=False)  # type: ignore[untyped-decorator]
        def call(tensors: dict[str, Any], state: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
            outputs, after = self._trace(tensors, state)
            pairs = zip(after, state, strict=True)
            return outputs, {str(index): new for index, (new, old) in enumerate(pairs) if new is not old}

        self._call = as_traceable(all_layers(model), call.get_concrete_function)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        tensors = {spec.name: inputs[spec.name].astype(as_dtype(spec.dtype), copy=False) for spec in self.inputs}
        outputs, changed = self._call(tensors, self._state)
        for index, value in changed.items():
            self._state[int(index)] = value
        return {name: tensor.numpy() for name, tensor in outputs.items()}


class JittedKeras(_CompiledKeras):
    """A Keras model on JAX, compiled as `predict` compiles it."""

    def __init__(self, model: Any, signature: Signature) -> None:
        import jax

        # The weights too are arguments: a constant is compiled with its graph, whatever its size.
        super().__init__(model, signature, list(model.variables))
        self.version = f"jax {jax.__version__}"
        self._call = jax.jit(self._trace)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        import keras

        tensors = {spec.name: keras.ops.convert_to_tensor(inputs[spec.name], spec.dtype) for spec in self.inputs}
        with one_at_a_time:
            outputs, self._state = self._call(tensors, self._state)
        return {name: keras.ops.convert_to_numpy(tensor) for name, tensor in outputs.items()}
