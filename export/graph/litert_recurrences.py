"""LSTM layers of known sizes as calls that become one operator of a LiteRT file, and GRU layers as short loops."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from keras_pe.export.graph.litert_loops import loop_over_steps
from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.watch.temporary_patches import replaced_functions

LSTM_CALL = "keras_pe_lstm"
"""The name of the custom operator that the converter writes for a call."""


def known_recurrences(layers: Sequence[Any], unfused: Unfused, *, in_blocks: bool) -> AbstractContextManager[None]:
    """Returns a context in which LSTM layers are traced as calls, and GRU layers with one product for all inputs.

    Both need tanh, sigmoid and a known number of rows and steps, and no dropout. All other layers stay loops.

    Args:
        layers: The model and every layer in it.
        unfused: Records the layers that stay loops, with the reasons.
        in_blocks: Whether each turn of the loop of a GRU has several steps.
    """
    import keras

    forms: dict[Any, Callable[..., Any]] = {
        keras.layers.LSTMCell: _lstm,
        keras.layers.GRUCell: partial(_gru, in_blocks=in_blocks),
    }
    return replaced_functions(
        (layer, "inner_loop", _loop_of(layer, form, unfused))
        for layer in layers
        for cell, form in forms.items()
        if isinstance(layer, keras.layers.RNN) and isinstance(layer.cell, cell)
    )


def _loop_of(layer: Any, form: Callable[..., Any], unfused: Unfused) -> Callable[..., Any]:
    note = partial(_note_lstm if form is _lstm else _note_gru, unfused)
    obstacle = next((reason for reason, is_found in _obstacles(layer) if is_found), "")
    return partial(_loop, note, obstacle) if obstacle else partial(_inner_loop, layer, form, note)


def _obstacles(layer: Any) -> Iterator[tuple[str, bool]]:
    """Yields the reasons why a layer may have no form, each with a remedy and whether it holds."""
    import keras

    cell, is_lstm = layer.cell, isinstance(layer.cell, keras.layers.LSTMCell)
    kinds = (keras.layers.LSTM, keras.layers.LSTMCell) if is_lstm else (keras.layers.GRU, keras.layers.GRUCell)
    is_own = (type(layer), type(cell)) != kinds or not layer.built
    yield f"the layer or its cell is a class of its own: use keras.layers.{kinds[0].__name__}", is_own
    activations = (cell.activation, cell.recurrent_activation)
    is_other = activations != (keras.activations.tanh, keras.activations.sigmoid)
    yield "its activations must be tanh and sigmoid", is_other
    yield f"it computes in {cell.compute_dtype}: use float32", cell.compute_dtype != "float32"
    yield "its inputs have no features", not cell.kernel.shape[0]
    yield "the operator does not return the cell state: leave out `return_state`", is_lstm and layer.return_state
    yield "it keeps its state between calls: leave out `stateful`", layer.stateful
    yield "its steps are copied: leave out `unroll`", layer.unroll


def _note_lstm(unfused: Unfused, reason: str) -> None:
    if reason:
        unfused.note("UNIDIRECTIONAL_SEQUENCE_LSTM", reason)


def _note_gru(unfused: Unfused, reason: str) -> None:
    slower = f" and multiplies its inputs step by step: {reason}" if reason else ""
    unfused.note("GRU", f"LiteRT has no such operator, so the layer stays a loop{slower}")


def _loop(note: Callable[[str], None], obstacle: str, loop: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    note(obstacle)
    return loop(*args, **kwargs)


def _inner_loop(
    layer: Any,
    form: Callable[..., Any],
    note: Callable[[str], None],
    loop: Callable[..., Any],
    sequences: Any,
    initial_state: Any,
    mask: Any,
    training: bool = False,
) -> Any:
    """Returns the last output, all outputs and the final states."""
    import keras
    import tensorflow as tf

    reasons = {
        # A loop has no place for variables.
        "it is in the loop of another layer": type(tf.compat.v1.get_default_graph()).__name__ != "FuncGraph",
        "it is called with `training=True` and drops values": training and (layer.dropout or layer.recurrent_dropout),
        # LiteRT does not enlarge a variable for a larger batch: the operator would write behind its end.
        "the batch or the length is free: set one value for each in `sizes`": None in sequences.shape[:2],
    }
    reason = next((reason for reason, is_found in reasons.items() if is_found), "")
    note(reason)
    if reason:
        return loop(sequences, initial_state, mask=mask, training=training)
    (kept,) = [each for each in keras.tree.flatten(mask) if each is not None] or [None]
    return form(layer, sequences, initial_state, kept)


def _lstm(layer: Any, sequences: Any, initial_state: Any, mask: Any) -> Any:
    """Returns the results of an LSTM layer from a call. Keras reads the first final state alone."""
    import keras
    import tensorflow as tf

    cell, units = layer.cell, layer.cell.units
    kernels = [
        part
        for weight in (cell.kernel, cell.recurrent_kernel)
        for part in tf.split(tf.transpose(tf.convert_to_tensor(weight)), 4)
    ]
    bias = tf.zeros([4 * units]) if cell.bias is None else tf.convert_to_tensor(cell.bias)
    rows = tf.reverse(sequences, [1]) if layer.go_backwards else sequences
    kept = None if mask is None else tf.cast(tf.reverse(mask, [1]) if layer.go_backwards else mask, "float32")
    call = tf.function(
        _stand_in, experimental_implements=f'name: "{LSTM_CALL}" attr {{ key: "tfl_fusable_op" value {{ b: true }} }}'
    )
    states = [tf.convert_to_tensor(state) for state in keras.tree.flatten(initial_state)]
    outputs = call(rows if kept is None else move_kept_first(rows, kept), *states, *kernels, *tf.split(bias, 4))
    outputs.set_shape([*sequences.shape[:2], units])
    if kept is not None:
        outputs = move_back(outputs, kept, is_zero=layer.zero_output_for_mask)
    return outputs[:, -1], outputs, [outputs[:, -1], states[1]]


def move_kept_first(rows: Any, kept: Any) -> Any:
    """Returns the steps whose mask is 1, in order, and then the first step again. A skipped step changes no state."""
    import tensorflow as tf

    steps = tf.range(float(rows.shape[1]))
    is_source = (tf.cumsum(kept, 1)[:, None] == steps[:, None] + 1) & (kept[:, None] > 0)
    sources = tf.reduce_sum(tf.where(is_source, steps, 0.0), -1)
    return tf.gather(rows, tf.cast(sources, "int32"), batch_dims=1)


def move_back(outputs: Any, kept: Any, *, is_zero: bool) -> Any:
    """Returns the outputs of `move_kept_first` at their places. A skipped step has the output before it, or 0."""
    import tensorflow as tf

    counts = tf.cumsum(kept, 1)
    found = tf.gather(outputs, tf.cast(tf.maximum(counts - 1, 0.0), "int32"), batch_dims=1)
    return tf.where((kept if is_zero else counts)[..., None] > 0, found, 0.0)


def _gru(layer: Any, sequences: Any, initial_state: Any, mask: Any, *, in_blocks: bool) -> Any:
    """Returns the results of a GRU layer from a loop whose steps multiply the state alone."""
    import tensorflow as tf

    cell, units = layer.cell, layer.cell.units
    biases = [0.0, 0.0] if cell.bias is None else tf.unstack(tf.reshape(cell.bias, [-1, 3 * units]))
    flat = tf.matmul(tf.reshape(sequences, [-1, sequences.shape[-1]]), cell.kernel) + biases[0]
    gates = tf.reshape(flat, [*sequences.shape[:2], 3 * units])

    def step(inputs: Sequence[Any], states: Sequence[Any]) -> tuple[Any, list[Any]]:
        state, kernel = states[0], tf.convert_to_tensor(cell.recurrent_kernel)
        if cell.reset_after:
            product = tf.matmul(state, kernel) + biases[1]
            update, reset = tf.split(tf.sigmoid(inputs[0] + product[:, : 2 * units]), 2, -1)
            product = reset * product[:, 2 * units :]
        else:
            product = tf.matmul(state, kernel[:, : 2 * units])
            update, reset = tf.split(tf.sigmoid(inputs[0] + product), 2, -1)
            product = tf.matmul(reset * state, kernel[:, 2 * units :])
        candidate = tf.tanh(inputs[1] + product)
        state = candidate + update * (state - candidate)
        return state, [state]

    options = {"go_backwards": layer.go_backwards, "zero_output_for_mask": layer.zero_output_for_mask}
    options |= {"return_all_outputs": layer.return_sequences, "in_blocks": in_blocks}
    inputs = [gates[..., : 2 * units], gates[..., 2 * units :]]
    return loop_over_steps(step, inputs, initial_state, mask=mask, **options)


def _stand_in(rows: Any, *others: Any) -> Any:
    """Returns a tensor of the operator's shape that depends on all arguments. The converter drops this body."""
    import tensorflow as tf

    sums = tf.add_n([tf.reduce_sum(each) for each in others])
    return tf.zeros([*tf.unstack(tf.shape(rows)[:2]), others[0].shape[-1]]) + sums
