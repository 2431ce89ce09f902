"""The trace of a model for every export, and the dynamic dimensions of the outputs that follow from the trace.

Scans and `keras.ops.switch` are traced as loops over tensors and nested branches, which converters support. The
operators of Keras 3.15 on TensorFlow fail to convert:

- A scan carries its state in arrays of one element, and a reverse scan writes its last row first. ONNX's Loop carries
  tensors, and appends rows.
- A switch becomes operators of TensorFlow 1's control flow, or an operator that LiteRT lacks.
- An associative scan tests at each halving whether the length is odd, and takes the axis from a tensor. For an unknown
  length, the graph contains a branch for every possible length.
"""

import dataclasses
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.errors import TracingError, first_line
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.code_places import describe_line, users_line
from keras_pe.export.model.watch.keras_internals import replaced_operations
from keras_pe.export.model.watch.symbolic_trace import as_traceable, operators_before

# The modules that call a model to trace it. Frames outside of them are not the model's.
TRACERS = tuple(f"keras_pe.export.{name}" for name in ("graph.trace", "model.signature.signature"))
_Result = TypeVar("_Result")


def trace_convertible(
    layers: Sequence[Any],
    trace: Callable[[], _Result],
    control_flow: Callable[[], AbstractContextManager[None]],
) -> _Result:
    """Calls a function that traces a model, with control flow that converters support, and returns its result.

    Args:
        layers: The model, then every layer in it.
        trace: Traces the model in inference mode, for all sizes of the dynamic dimensions. It may be called twice.
        control_flow: Returns the context that replaces loops and branches.

    Raises:
        Exception: Any error of a layer that needs a known size.
    """
    with control_flow():
        return as_traceable(layers, trace)


def untraceable(format: Format, model: str, error: Exception) -> TracingError:
    """Returns the error for a model that Keras cannot trace."""
    line = users_line(traceback.extract_tb(error.__traceback__), TRACERS)
    place, (file, number) = (f" {describe_line(*line)}", line) if line else ("", (None, None))
    return TracingError(format, model, f"Keras cannot trace it: {first_line(error)}{place}.", file=file, line=number)


def named_results(model: Any, signature: Signature, arrays: Sequence[Any]) -> dict[str, Any]:
    """Returns the outputs of the model by name, for inputs in the signature's order. Each is a distinct tensor."""
    import tensorflow as tf

    results = signature.call(model, {s.name: x for s, x in zip(signature.inputs, arrays, strict=True)})
    return {spec.name: tf.identity(results[spec.name]) for spec in signature.outputs}


_SIZED_BY_VALUES = re.compile("Where|Unique.*|NonMaxSuppression.*|ListDiff|DynamicPartition|StringSplit.*")


def with_sizes_of_values(signature: Signature, outputs: Mapping[str, Any]) -> Signature:
    """Returns the signature, with a dynamic dimension for each output size that the graph does not confirm as constant.

    The measured size was equal at each call of the model. It may still depend on values, such as the number of entries
    that a condition selects. It may also depend on a dimension that was only called at one size.

    Args:
        signature: The signature of the model, with measured sizes.
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
    """Collects the rows of a loop in a `TensorArray`, which becomes an output of ONNX's Loop."""

    def start(self, count: Any, row: Any) -> Any:
        """Returns an empty collection for `count` rows of the shape and dtype of `row`."""
        import tensorflow as tf

        return tf.TensorArray(row.dtype, count, element_shape=row.shape)

    def write(self, rows: Any, place: Any, row: Any) -> Any:
        """Returns the collection with `row` at an index."""
        return rows.write(place, row)

    def stack(self, rows: Any) -> Any:
        """Returns the rows as one tensor."""
        return rows.stack()


def convertible_control_flow(collector: InArrays | None = None) -> AbstractContextManager[None]:
    """Returns a context in which this thread traces scans and switches as loops and nested branches.

    Args:
        collector: Collects the rows of a scan; `InArrays()` by default.
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
    """Replaces `keras.ops.scan`. It ignores `unroll`, which changes the speed but not the result."""
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
    """Replaces `keras.ops.associative_scan`, with one step for each bit of the length.

    Each step doubles the number of rows that a row combines. This is the scan of Hillis and Steele, "Data parallel
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
    """Replaces `keras.ops.switch`: returns the result of the branch at an index, which is clipped to the valid ones."""
    import tensorflow as tf

    def chosen(number: int) -> Any:
        if number == len(branches) - 1:
            return branches[number](*operands)
        return tf.cond(index <= number, lambda: branches[number](*operands), lambda: chosen(number + 1))

    index = tf.cast(index, "int32")
    return chosen(0)
