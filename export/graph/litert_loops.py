"""Loops for LiteRT: recurrent layers, scans and maps that write their rows into a tensor.

Keras writes the rows into tensor arrays, which LiteRT supports only for a fixed batch.
"""

from collections.abc import Callable, Sequence
from typing import Any

from keras_pe.export.graph.tensorflow_internals import with_row
from keras_pe.export.graph.trace import InArrays

MOST_STEPS = 256
"""Steps of a loop that are all copied for a device without loops. A longer loop stays a loop."""

_BLOCK = 10  # steps of one turn of a loop in blocks
_IN_PLACE = ("float32", "int32", "int64", "bool")  # LiteRT updates a row in place for these dtypes


class InTensors(InArrays):
    """Collects the rows of a loop in a tensor."""

    def start(self, count: Any, row: Any) -> Any:
        import tensorflow as tf

        rows = tf.zeros(tf.concat([[count], tf.shape(row)], 0), row.dtype)
        return tf.ensure_shape(rows, [count if isinstance(count, int) else None, *row.shape])

    def write(self, rows: Any, place: Any, row: Any) -> Any:
        import tensorflow as tf

        if rows.dtype.name in _IN_PLACE and row.shape.rank is not None:
            return tf.ensure_shape(with_row(rows, place, row), rows.shape)
        return tf.tensor_scatter_nd_update(rows, [[place]], row[None])

    def stack(self, rows: Any) -> Any:
        return rows


def map_rows(_: Callable[..., Any], f: Callable[[Any], Any], xs: Any) -> Any:
    """Replaces `keras.ops.map`."""
    import keras
    import tensorflow as tf

    rows = keras.tree.map_structure(tf.convert_to_tensor, xs)
    first = keras.tree.flatten(rows)[0]
    count = tf.shape(first)[0] if first.shape[0] is None else first.shape[0]

    def row(place: Any) -> Any:
        return f(keras.tree.map_structure(lambda x: tf.gather(x, place), rows))

    def body(place: Any, returned: Sequence[Any]) -> tuple[Any, list[Any]]:
        return place + 1, [
            InTensors().write(x, place, y) for x, y in zip(returned, keras.tree.flatten(row(place)), strict=True)
        ]

    like = row(0)
    start = [InTensors().start(count, y) for y in keras.tree.flatten(like)]
    _, returned = tf.while_loop(lambda place, _: place < count, body, (0, start))
    return keras.tree.pack_sequence_as(like, returned)


def recurrence(
    usual: Callable[..., Any],
    step_function: Callable[..., Any],
    inputs: Any,
    initial_states: Any,
    *,
    go_backwards: bool = False,
    mask: Any = None,
    unroll: bool = False,
    input_length: int | None = None,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
    is_unrolled: bool = False,
    in_blocks: bool = False,
) -> tuple[Any, Any, Any]:
    """Replaces Keras' recurrence: returns the last output, all outputs and the final states.

    Args:
        usual: Keras' recurrence.
        step_function, inputs, initial_states: As in Keras, like all arguments without a line here.
        is_unrolled: Whether steps of a known number are copied.
        in_blocks: See `loop_over_steps`.
    """
    import keras

    options = {"go_backwards": go_backwards, "mask": mask, "input_length": input_length}
    options |= {"zero_output_for_mask": zero_output_for_mask, "return_all_outputs": return_all_outputs}
    steps = keras.tree.flatten(inputs)[0].shape[1]
    if unroll or (is_unrolled and steps is not None and steps <= MOST_STEPS):
        result: tuple[Any, Any, Any] = usual(step_function, inputs, initial_states, unroll=True, **options)
        return result
    return loop_over_steps(step_function, inputs, initial_states, in_blocks=in_blocks, **options)


def loop_over_steps(
    step_function: Callable[..., Any],
    inputs: Any,
    initial_states: Any,
    *,
    go_backwards: bool,
    mask: Any,
    zero_output_for_mask: bool,
    return_all_outputs: bool,
    input_length: Any = None,
    in_blocks: bool = False,
) -> tuple[Any, Any, Any]:
    """Returns the last output, all outputs and the final states of a loop, as Keras' recurrence.

    Args:
        step_function, inputs, initial_states: As in Keras, like all arguments without a line here.
        in_blocks: Whether each turn of the loop has several steps, where the number of steps and all sizes of an output
            are known.
    """
    import keras
    import tensorflow as tf

    steps = keras.tree.flatten(inputs)[0].shape[1]
    rows = keras.tree.map_structure(_steps_first, inputs)
    masks = None if mask is None else _steps_first(tf.cast(mask, "bool"))
    count = tf.shape(keras.tree.flatten(rows)[0])[0] if input_length is None else input_length

    def step(place: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        row = keras.tree.map_structure(lambda x: tf.gather(x, place), rows)
        output, after = step_function(row, tuple(keras.tree.pack_sequence_as(initial_states, list(states))))
        return output, [tf.ensure_shape(y, x.shape) for y, x in zip(keras.tree.flatten(after), states, strict=True)]

    def advance(time: Any, last: Any, states: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        place = count - 1 - time if go_backwards else time
        output, after = step(place, states)
        if masks is not None:
            is_kept = tf.gather(masks, place)
            output = _where(is_kept, output, tf.zeros_like(output) if zero_output_for_mask else last)
            after = [_where(is_kept, y, x) for y, x in zip(after, states, strict=True)]
        return output, after

    states = [tf.convert_to_tensor(x) for x in keras.tree.flatten(initial_states)]
    last = tf.zeros_like(step(0, states)[0])
    is_known = steps and last.shape.is_fully_defined()
    if in_blocks and is_known and (return_all_outputs or steps <= _BLOCK):  # a turn copies all collected outputs
        returned, last, after = _loop_in_blocks(advance, steps, last, states)
    else:
        returned, last, after = _one_by_one(advance, count, last, states, return_all_outputs)
    returned = _steps_first(returned) if return_all_outputs else last[:, None]
    return last, returned, keras.tree.pack_sequence_as(initial_states, list(after))


_Advance = Callable[[Any, Any, Sequence[Any]], tuple[Any, Sequence[Any]]]


def _one_by_one(
    advance: _Advance, count: Any, last: Any, states: Sequence[Any], return_all_outputs: bool
) -> tuple[Any, Any, Sequence[Any]]:
    """Returns all outputs, the last output and the final states of a loop with one step in each turn.

    Args:
        advance: Returns the output and the states of a step, from its number, the last output and the last states.
        count: The number of steps.
        last: The output before the first step.
        states: The states before the first step.
        return_all_outputs: Whether all outputs are collected. Otherwise, the first result has no meaning.
    """
    import tensorflow as tf

    def body(time: Any, returned: Any, last: Any, states: Sequence[Any]) -> Any:
        output, after = advance(time, last, states)
        return time + 1, InTensors().write(returned, time, output) if return_all_outputs else returned, output, after

    returned = InTensors().start(count, last) if return_all_outputs else last[:, None]
    _, returned, last, states = tf.while_loop(lambda time, *_: time < count, body, (0, returned, last, states))
    return returned, last, states


def _loop_in_blocks(advance: _Advance, count: int, last: Any, states: Sequence[Any]) -> tuple[Any, Any, Sequence[Any]]:
    """Returns the same as `_one_by_one`, from a loop with several steps in each turn. The remaining steps follow it."""
    import tensorflow as tf

    def advance_several(start: Any, count: int, last: Any, states: Sequence[Any]) -> tuple[Any, Any, Sequence[Any]]:
        outputs = []
        for number in range(count):
            last, states = advance(start + number, last, states)
            outputs.append(last)
        return tf.stack(outputs), last, states

    if count <= _BLOCK:
        return advance_several(0, count, last, states)

    def body(block: Any, returned: Any, last: Any, states: Sequence[Any]) -> Any:
        outputs, last, states = advance_several(block * _BLOCK, _BLOCK, last, states)
        return block + 1, InTensors().write(returned, block, outputs), last, states

    blocks, rest = divmod(count, _BLOCK)
    returned = tf.zeros([blocks, _BLOCK, *last.shape], last.dtype)
    _, returned, last, states = tf.while_loop(lambda block, *_: block < blocks, body, (0, returned, last, states))
    returned = tf.reshape(returned, [blocks * _BLOCK, *last.shape])
    if rest:
        outputs, last, states = advance_several(blocks * _BLOCK, rest, last, states)
        returned = tf.concat([returned, outputs], 0)
    return returned, last, states


def _steps_first(tensor: Any) -> Any:
    """Swaps the batch axis and the step axis."""
    import tensorflow as tf

    return tf.transpose(tensor, [1, 0, *range(2, len(tensor.shape))])


def _where(is_kept: Any, then: Any, otherwise: Any) -> Any:
    """Returns the rows of `then` if the mask is True, and otherwise those of `otherwise`."""
    import tensorflow as tf

    return tf.where(tf.reshape(is_kept, [-1, *[1] * (len(then.shape) - 1)]), then, otherwise)
