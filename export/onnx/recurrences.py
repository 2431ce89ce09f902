"""Recurrent layers traced as one call each, which a handler turns into ONNX's own LSTM, GRU or RNN.

TensorFlow traces such a layer as a loop over the steps, which ONNX Runtime runs many times slower.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

from keras_pe.export.model.recurrent_weights import OPERATORS, packed
from keras_pe.export.model.watch.keras_internals import replaced_functions
from keras_pe.export.onnx.operator_calls import call_operator


def traced_as_calls(layers: Iterable[Any]) -> contextlib.AbstractContextManager[None]:
    """Lets the recurrent layers that ONNX has an operator for be traced as calls of it, unless masked."""
    fusible = [layer for layer in layers if _is_fusible(layer)]
    return replaced_functions((layer, "inner_loop", functools.partial(_inner_loop, _Call(layer))) for layer in fusible)


def _is_fusible(layer: Any) -> bool:
    """Whether the layer computes what the operator does: a subclass, or a cell of one, may do anything else."""
    import keras

    kinds = (keras.layers.RNN, keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
    cells = tuple(getattr(keras.layers, name) for name in OPERATORS)
    return (
        type(layer) in kinds
        and type(layer.cell) in cells
        and layer.built
        and layer.cell.compute_dtype == "float32"  # ONNX Runtime has these operators in no other
        and None not in _activations(layer.cell)
    )


def _activations(cell: Any) -> list[str | None]:
    """Returns ONNX's names, None where there is none, in its order: of the gates, the candidate, an LSTM's output."""
    import keras

    names = {keras.activations.tanh: "Tanh", keras.activations.sigmoid: "Sigmoid", keras.activations.relu: "Relu"}
    candidate = names.get(cell.activation)
    if type(cell) is keras.layers.SimpleRNNCell:
        return [candidate]
    gate = names.get(cell.recurrent_activation)
    return [gate, candidate, candidate] if type(cell) is keras.layers.LSTMCell else [gate, candidate]


class _Call:
    """The call of one layer: what identifies it, and its weights as the operator takes them."""

    def __init__(self, layer: Any) -> None:
        import tensorflow as tf

        operator = OPERATORS[type(layer.cell).__name__]
        self.is_backwards = layer.go_backwards
        attributes: dict[str, Any] = {
            "hidden_size": layer.cell.units,
            "activations": _activations(layer.cell),
            "direction": "reverse" if self.is_backwards else "forward",
        }
        if operator == "GRU":
            attributes["linear_before_reset"] = int(layer.cell.reset_after)
        self.operator, self.attributes = operator, attributes
        self.scope = f"{layer.path}/"  # the slash at the end makes it absolute
        self.weights = [tf.constant(value) for value in packed(layer.cell).values()]

    def __call__(self, sequences: Any, states: list[Any]) -> list[Any]:
        """Returns the outputs of all steps, then the final states, as Keras has them: the batch first."""
        import tensorflow as tf

        graph = tf.compat.v1.get_default_graph()
        with tf.name_scope(self.scope):
            weights = [graph.capture(value, name) for name, value in zip("WRB", self.weights, strict=True)]
        inputs = [sequences, *weights, *states]
        shapes = [(*sequences.shape[:2], states[0].shape[-1]), *(state.shape for state in states)]
        return call_operator(self.operator, inputs, shapes, self.attributes)


def _inner_loop(
    call: _Call,
    loop: Callable[..., Any],
    sequences: Any,
    initial_state: Any,
    mask: Any,
    training: bool = False,
) -> Any:
    """Returns the last output, all outputs and the final states."""
    import keras
    import tensorflow as tf

    if any(each is not None for each in keras.tree.flatten(mask)):  # of a mask, the operators know a length only
        return loop(sequences, initial_state, mask=mask, training=training)
    outputs, *states = call(sequences, keras.tree.flatten(initial_state))
    # The operator leaves each step in its place, Keras returns them in the order in which it came to them.
    return states[0], tf.reverse(outputs, [1]) if call.is_backwards else outputs, states
