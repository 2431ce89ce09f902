"""LSTM layers as calls, each of which becomes one operator of a LiteRT file, and loops over known steps as copies."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from keras_pe.export.model.watch.temporary_patches import replaced_functions

LSTM_CALL = "keras_pe_lstm"
"""The name of the custom operator that the converter writes for a call."""

MOST_STEPS = 256
"""Steps of a loop that are copied. A longer loop stays a loop."""


def fused_lstms(layers: Sequence[Any]) -> AbstractContextManager[None]:
    """Returns a context in which LSTM layers of tanh and sigmoid are traced as calls. All others stay loops.

    Args:
        layers: The model and every layer in it.
    """
    return replaced_functions(
        (layer, "inner_loop", partial(_inner_loop, layer)) for layer in layers if _is_fusable(layer)
    )


def _is_fusable(layer: Any) -> bool:
    """Returns whether the operator computes the outputs of a layer. The operator does not return the cell state."""
    import keras

    if type(layer) is not keras.layers.LSTM or type(layer.cell) is not keras.layers.LSTMCell or not layer.built:
        return False
    activations = (layer.cell.activation, layer.cell.recurrent_activation)
    is_usual = activations == (keras.activations.tanh, keras.activations.sigmoid)
    is_float32 = layer.cell.compute_dtype == "float32" and layer.cell.kernel.shape[0] > 0
    return is_usual and is_float32 and not (layer.return_state or layer.stateful or layer.unroll)


def _inner_loop(
    layer: Any, loop: Callable[..., Any], sequences: Any, initial_state: Any, mask: Any, training: bool = False
) -> Any:
    """Returns the last output, all outputs and the final states. Keras reads the first state alone."""
    import keras
    import tensorflow as tf

    has_mask = any(each is not None for each in keras.tree.flatten(mask))
    is_in_body = type(tf.compat.v1.get_default_graph()).__name__ != "FuncGraph"  # a loop has no place for variables
    # LiteRT does not enlarge a variable for a larger batch: the operator would write behind its end.
    if has_mask or is_in_body or None in sequences.shape[:2]:
        return loop(sequences, initial_state, mask=mask, training=training)
    cell, units = layer.cell, layer.cell.units
    kernels = [
        part
        for weight in (cell.kernel, cell.recurrent_kernel)
        for part in tf.split(tf.transpose(tf.convert_to_tensor(weight)), 4)
    ]
    bias = tf.zeros([4 * units]) if cell.bias is None else tf.convert_to_tensor(cell.bias)
    rows = tf.reverse(sequences, [1]) if layer.go_backwards else sequences
    call = tf.function(
        _stand_in, experimental_implements=f'name: "{LSTM_CALL}" attr {{ key: "tfl_fusable_op" value {{ b: true }} }}'
    )
    states = [tf.convert_to_tensor(state) for state in keras.tree.flatten(initial_state)]
    outputs = call(rows, *states, *kernels, *tf.split(bias, 4))
    outputs.set_shape([*sequences.shape[:2], units])
    return outputs[:, -1], outputs, [outputs[:, -1], states[1]]


def _stand_in(rows: Any, *others: Any) -> Any:
    """Returns a tensor of the operator's shape that depends on all arguments. The converter drops this body."""
    import tensorflow as tf

    sums = tf.add_n([tf.reduce_sum(each) for each in others])
    return tf.zeros([*tf.unstack(tf.shape(rows)[:2]), others[0].shape[-1]]) + sums
