"""`keras.ops.scan` and `keras.ops.switch` in the form that converters know: loops over tensors, and nested branches.

Keras 3.15 on TensorFlow keeps what a scan carries in arrays of one element, and one that runs backwards writes its last
row first; ONNX's Loop carries tensors, and appends. A switch becomes operators of TensorFlow 1's control flow,
or one that LiteRT has not.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from keras_pe.export.model.watch.keras_internals import replaced_operations


def convertible_control_flow() -> contextlib.AbstractContextManager[None]:
    """Lets both be traced so, in this thread."""
    return replaced_operations(core={"scan": _scan, "switch": _switch})


def _scan(
    _: Callable[..., Any],
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> Any:
    """Returns what `keras.ops.scan` does; `unroll` says how to run it and not what it returns."""
    import keras
    import tensorflow as tf

    rows = keras.tree.map_structure(tf.convert_to_tensor, xs) if xs is not None else None
    known = int(length) if length is not None else keras.tree.flatten(rows)[0].shape[0]
    steps = known if known is not None else tf.shape(keras.tree.flatten(rows)[0])[0]
    start = [tf.convert_to_tensor(x) for x in keras.tree.flatten(init)]

    def like_init(values: Sequence[Any]) -> Any:
        return keras.tree.pack_sequence_as(init, values) if keras.tree.is_nested(init) else values[0]

    def body(step: Any, carried: list[Any], returned: list[Any]) -> tuple[Any, list[Any], list[Any]]:
        index = steps - 1 - step if reverse else step
        row = keras.tree.map_structure(lambda x: tf.gather(x, index), rows) if rows is not None else None
        carry, ys = f(like_init(carried), row)
        if carry is not None:
            carried = [tf.ensure_shape(x, old.shape) for x, old in zip(keras.tree.flatten(carry), start, strict=True)]
        ys = [tf.zeros_like(x) for x in start] if ys is None else keras.tree.flatten(ys)
        return step + 1, carried, [array.write(step, y) for array, y in zip(returned, ys, strict=True)]

    arrays = [tf.TensorArray(x.dtype, steps, element_shape=x.shape) for x in start]
    _, carried, returned = tf.while_loop(lambda step, *_: step < steps, body, (0, start, arrays))
    stacks = [array.stack() for array in returned]
    if reverse:
        stacks = [tf.reverse(stack, [0]) for stack in stacks]
    for stack in stacks:
        stack.set_shape([known, *stack.shape[1:]])
    return like_init(carried), like_init(stacks)


def _switch(_: Callable[..., Any], index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Returns what the branch of an index returns, the nearest one's where the index is none."""
    import tensorflow as tf

    def chosen(number: int) -> Any:
        if number == len(branches) - 1:
            return branches[number](*operands)
        return tf.cond(index <= number, lambda: branches[number](*operands), lambda: chosen(number + 1))

    index = tf.cast(index, "int32")
    return chosen(0)
