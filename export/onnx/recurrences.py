"""Recurrent layers traced as one call each, which a handler converts to ONNX's LSTM, GRU or RNN.

TensorFlow would trace a loop over the steps, which is many times slower in ONNX Runtime.
"""

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.stored_weights import RECURRENT_OPERATORS, packed_cell
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.onnx.operator_calls import call_operator


def traced_as_calls(layers: Iterable[Any], unfused: Unfused) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which recurrent layers without a mask are traced as calls of an ONNX operator.

    Args:
        layers: The model and every layer in it.
        unfused: Records the layers that stay loops, with the reasons.
    """
    return replaced_functions((layer, "inner_loop", _loop_of(layer, unfused)) for layer in layers if _is_known(layer))


def _is_known(layer: Any) -> bool:
    import keras

    cells = tuple(getattr(keras.layers, name) for name in RECURRENT_OPERATORS)
    return isinstance(layer, keras.layers.RNN) and isinstance(layer.cell, cells)


def _loop_of(layer: Any, unfused: Unfused) -> Callable[..., Any]:
    obstacle = _obstacle(layer)
    if obstacle:
        return functools.partial(_loop, _operator(layer.cell), obstacle, unfused)
    return functools.partial(_inner_loop, _Call(layer), unfused)


def _operator(cell: Any) -> str:
    return next(
        RECURRENT_OPERATORS[kind.__name__] for kind in type(cell).__mro__ if kind.__name__ in RECURRENT_OPERATORS
    )


def _obstacle(layer: Any) -> str | None:
    """Returns the reason why the operator cannot replace the layer; None if it can."""
    import keras

    kinds = (keras.layers.RNN, keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
    cells = tuple(getattr(keras.layers, name) for name in RECURRENT_OPERATORS)
    if type(layer) not in kinds or type(layer.cell) not in cells or not layer.built:
        return "the layer or its cell is a class of its own"  # it may compute something else
    if layer.cell.compute_dtype != "float32":
        return f"it computes in {layer.cell.compute_dtype}"  # ONNX Runtime has these operators only in float32
    if None in _activations(layer.cell):
        return "its activations are not tanh, sigmoid or relu"
    return None


def _activations(cell: Any) -> list[str | None]:
    """Returns ONNX's names of the activations of gates, candidate and LSTM output; None for an unknown one."""
    import keras

    names = {keras.activations.tanh: "Tanh", keras.activations.sigmoid: "Sigmoid", keras.activations.relu: "Relu"}
    candidate = names.get(cell.activation)
    if type(cell) is keras.layers.SimpleRNNCell:
        return [candidate]
    gate = names.get(cell.recurrent_activation)
    return [gate, candidate, candidate] if type(cell) is keras.layers.LSTMCell else [gate, candidate]


class _Call:
    """The call of one layer: the operator with its attributes, and the weights in the operator's layout."""

    def __init__(self, layer: Any) -> None:
        import tensorflow as tf

        operator = _operator(layer.cell)
        self.is_backwards = layer.go_backwards
        attributes: dict[str, Any] = {
            "hidden_size": layer.cell.units,
            "activations": _activations(layer.cell),
            "direction": "reverse" if self.is_backwards else "forward",
        }
        if operator == "GRU":
            attributes["linear_before_reset"] = int(layer.cell.reset_after)
        self.operator, self.attributes = operator, attributes
        self.has_dropout = layer.cell.dropout > 0 or layer.cell.recurrent_dropout > 0
        self.scope = f"{layer.path}/"  # the slash at the end makes the scope absolute
        kernel, *others = packed_cell(layer.cell).values()
        # Without features, ONNX Runtime's LSTM returns uninitialized memory and its GRU crashes: add a feature of 0.
        self.has_features = kernel.shape[-1] > 0
        kernel = kernel if self.has_features else np.zeros((*kernel.shape[:-1], 1), kernel.dtype)
        self.weights = [tf.constant(value) for value in (kernel, *others)]

    def __call__(self, sequences: Any, states: list[Any]) -> list[Any]:
        """Returns the outputs of all steps, then the final states, with the batch as first axis."""
        import tensorflow as tf

        graph = tf.compat.v1.get_default_graph()
        with tf.name_scope(self.scope):
            weights = [graph.capture(value, name) for name, value in zip("WRB", self.weights, strict=True)]
        given = sequences if self.has_features else tf.zeros([*tf.unstack(tf.shape(sequences)[:2]), 1], sequences.dtype)
        inputs = [given, *weights, *([] if all(map(_is_zero, states)) else states)]
        shapes = [(*sequences.shape[:2], states[0].shape[-1]), *(state.shape for state in states)]
        return call_operator(self.operator, inputs, shapes, self.attributes)


def _is_zero(state: Any) -> bool:
    """Whether a state is known to be zero, which is the operator's default."""
    import tensorflow as tf

    made = getattr(state, "op", None)  # a variable has no `op`
    filled = made.inputs[1] if made is not None and made.type == "Fill" else state  # zeros for a batch of unknown size
    value = tf.get_static_value(filled)
    return value is not None and not value.any()


def _loop(operator: str, obstacle: str, unfused: Unfused, loop: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    unfused.note(operator, obstacle)
    return loop(*args, **kwargs)


def _inner_loop(
    call: _Call,
    unfused: Unfused,
    loop: Callable[..., Any],
    sequences: Any,
    initial_state: Any,
    mask: Any,
    training: bool = False,
) -> Any:
    """Returns the last output, all outputs and the final states."""
    import keras
    import tensorflow as tf

    if any(each is not None for each in keras.tree.flatten(mask)):
        unfused.note(call.operator, "it is masked, and the operator knows a length only")
        return loop(sequences, initial_state, mask=mask, training=training)
    if training and call.has_dropout:
        unfused.note(call.operator, "it has dropout, which the operator lacks")
        return loop(sequences, initial_state, mask=mask, training=training)
    outputs, *states = call(sequences, keras.tree.flatten(initial_state))
    # The operator returns the outputs in the order of the input, but Keras in the order of processing.
    return states[0], tf.reverse(outputs, [1]) if call.is_backwards else outputs, states
