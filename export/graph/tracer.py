"""The one way in which a model is traced for an export, and what every trace tells of its sizes.

Keras' scans and `keras.ops.switch` are traced in the form that converters know: loops over tensors, nested branches.
Keras 3.15 on TensorFlow keeps what a scan carries in arrays of one element, and one that runs backwards writes its last
row first; ONNX's Loop carries tensors, and appends. A switch becomes operators of TensorFlow 1's control flow, or one
that LiteRT has not. An associative scan asks in a condition for each half of its rows whether it is of odd length, and
asks a tensor for the axis; where the length is not known, it holds a branch for every length there is.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.errors import TracingError, first_line
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import replaced_operations
from keras_pe.export.model.watch.traceable import as_traceable, operators_before

_Result = TypeVar("_Result")


def traced(
    layers: Sequence[Any],
    trace: Callable[[], _Result],
    control_flow: Callable[[], AbstractContextManager[None]],
) -> _Result:
    """Returns what a function that traces a model returns, in a form that converters know. It may be called twice.

    Args:
        layers: The model, then every layer in it.
        trace: Traces the model, in inference mode and for any size of the dynamic dimensions.
        control_flow: Brings loops and branches into that form.

    Raises:
        Exception: Whatever the layers raise where a size is not known.
    """
    with control_flow():
        return as_traceable(layers, trace)


def untraceable(format: Format, model: str, error: Exception) -> TracingError:
    """Returns the error for a model that Keras cannot trace."""
    return TracingError(format, model, f"Keras cannot trace it: {first_line(error)}.")


def named_results(model: Any, signature: Signature, arrays: Sequence[Any]) -> dict[str, Any]:
    """Returns what the model returns for its inputs in order, by name: each a tensor of its own."""
    import tensorflow as tf

    results = signature.call(model, {s.name: x for s, x in zip(signature.inputs, arrays, strict=True)})
    return {spec.name: tf.identity(results[spec.name]) for spec in signature.outputs}


_SIZED_BY_VALUES = re.compile("Where|Unique.*|NonMaxSuppression.*|ListDiff|DynamicPartition|StringSplit.*")


def with_sizes_of_values(signature: Signature, outputs: Mapping[str, Any]) -> Signature:
    """Returns the signature, with a dimension in place of each constant of an output that may be no constant.

    It may follow from values, such as how many a condition selects, or from a dimension that was given one size alone.
    The model has returned the same size at each call; the graph says that it is not constant.

    Args:
        signature: The model's, whose sizes were measured.
        outputs: The tensors of the traced graph, by name.
    """
    specs = []
    has_one_size = any(len(own.sizes.given) == 1 for own in signature.dimensions.values())
    for spec in signature.outputs:
        tensor = outputs[spec.name]
        rank = len(spec.shape)
        known = [None] * rank if tensor.shape.rank is None else tensor.shape.as_list()
        doubtful = {i for i in range(rank) if known[i] is None and isinstance(spec.shape[i], int)}
        if doubtful and (has_one_size or any(map(_is_sized_by_values, operators_before([tensor])))):
            shape = tuple(f"{spec.name}_axis_{i}" if i in doubtful else dim for i, dim in enumerate(spec.shape))
            spec = dataclasses.replace(spec, shape=shape)
        specs.append(spec)
    return dataclasses.replace(signature, outputs=tuple(specs))


def _is_sized_by_values(operator: Any) -> bool:
    return _SIZED_BY_VALUES.fullmatch(operator.type) is not None


class InArrays:
    """How a loop collects the rows that it returns: in an array of tensors, to which ONNX's Loop appends."""

    def start(self, count: Any, row: Any) -> Any:
        """Returns what holds as many rows like this one, and is handed from step to step."""
        import tensorflow as tf

        return tf.TensorArray(row.dtype, count, element_shape=row.shape)

    def write(self, rows: Any, place: Any, row: Any) -> Any:
        """Returns it with one row written."""
        return rows.write(place, row)

    def stack(self, rows: Any) -> Any:
        """Returns the rows as one tensor."""
        return rows.stack()


def convertible_control_flow(collector: InArrays | None = None) -> AbstractContextManager[None]:
    """Lets scans and switches be traced so, in this thread.

    Args:
        collector: How a scan collects what it returns; in arrays unless said.
    """
    scan = partial(_scan, collector or InArrays())
    return replaced_operations(core={"scan": scan, "associative_scan": _associative_scan, "switch": _switch})


def _scan(
    collector: InArrays,
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
        return step + 1, carried, [collector.write(x, step, y) for x, y in zip(returned, ys, strict=True)]

    empty = [collector.start(steps, x) for x in start]
    _, carried, returned = tf.while_loop(lambda step, *_: step < steps, body, (0, start, empty))
    stacks = [collector.stack(x) for x in returned]
    if reverse:
        stacks = [tf.reverse(stack, [0]) for stack in stacks]
    for stack in stacks:
        stack.set_shape([known, *stack.shape[1:]])
    return like_init(carried), like_init(stacks)


def _associative_scan(
    _: Callable[..., Any], f: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Returns what `keras.ops.associative_scan` does, in as many steps as the length has bits.

    With each step a row takes in as many rows before it as it holds: the scan of Hillis and Steele, "Data parallel
    algorithms", 1986.
    """
    import keras
    import tensorflow as tf

    rows = [tf.convert_to_tensor(x) for x in keras.tree.flatten(elems)]
    place = axis % rows[0].shape.rank
    rows = [tf.reverse(x, [place]) for x in rows] if reverse else rows
    known = rows[0].shape[place]
    length = known if known is not None else tf.shape(rows[0])[place]

    def part(x: Any, begin: Any, end: Any) -> Any:
        return x[(*[slice(None)] * place, slice(begin, end))]

    def step(reach: Any, rows: Sequence[Any]) -> tuple[Any, list[Any]]:
        earlier, later = ([part(x, *ends) for x in rows] for ends in ((0, length - reach), (reach, length)))
        joined = f(*(keras.tree.pack_sequence_as(elems, half) for half in (earlier, later)))
        scanned = [
            tf.concat([part(x, 0, reach), y], place) for x, y in zip(rows, keras.tree.flatten(joined), strict=True)
        ]
        return reach * 2, [tf.ensure_shape(y, x.shape) for y, x in zip(scanned, rows, strict=True)]

    reach: Any = 1
    if known is None:
        _, rows = tf.while_loop(lambda reach, _: reach < length, step, (reach, rows))
    else:
        while reach < known:
            reach, rows = step(reach, rows)
    rows = [tf.reverse(x, [place]) for x in rows] if reverse else rows
    return keras.tree.pack_sequence_as(elems, rows)


def _switch(_: Callable[..., Any], index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Returns what the branch of an index returns, the nearest one's where the index is none."""
    import tensorflow as tf

    def chosen(number: int) -> Any:
        if number == len(branches) - 1:
            return branches[number](*operands)
        return tf.cond(index <= number, lambda: branches[number](*operands), lambda: chosen(number + 1))

    index = tf.cast(index, "int32")
    return chosen(0)
