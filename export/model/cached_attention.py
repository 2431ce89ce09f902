"""Attention layers of keras-hub that attend to keys and values of earlier calls, in a call without keras-hub's cache.

The uncached call defines the numbers of a model. Within it, each attention layer receives the earlier keys and values
before its own. Masks and positions follow from the attention mask of all columns.
"""

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from keras_pe.export.model.cache_columns import Columns
from keras_pe.export.model.watch.temporary_patches import replaced_functions

_BUCKET_OF = "_relative_position_bucket"
_PROJECTIONS = ("{}_dense", "_{}_dense", "{}_projector")  # the names of the layers of keys and of values


def attends_to(layers: Iterable[Any], columns: Columns) -> AbstractContextManager[None]:
    """Returns a context in which the layers of a keras-hub decoder attend to the columns, in this thread.

    Args:
        layers: The layers of a causal language model.
        columns: The columns, whose `present` the call fills.
    """
    from keras import ops

    repeated = _Repeated()
    replaced = [each for layer in layers for each in _replacements(layer, columns, repeated)]
    return replaced_functions([*replaced, (ops, "repeat", repeated.repeat)])


class _Repeated:
    """The keys and values that layers of keras-hub have repeated for the queries of a group."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any, Any]] = {}  # by the identity of the result, which stays alive

    def repeat(self, usual: Callable[..., Any], x: Any, repeats: Any, axis: int | None = None) -> Any:
        """Replaces `keras.ops.repeat`, and keeps what it has repeated."""
        result = usual(x, repeats, axis)
        if axis == 2:
            self._known[id(result)] = x, repeats, result
        return result

    def first_of_groups(self, rows: Any, groups: int) -> Any:
        """Returns the first head of each group, `[batch, length, heads, channels]`, without a copy if possible."""
        before, repeats, _ = self._known.get(id(rows), (rows, 1, rows))
        return before if repeats == groups else rows[:, :, ::groups]


def _replacements(layer: Any, columns: Columns, repeated: _Repeated) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Returns the functions of one layer that depend on positions or on other columns, each with its replacement."""
    window = getattr(layer, "sliding_window", None)
    groups = 1  # the heads of queries that share one head of keys within `_compute_attention`

    def mask(usual: Any, *_: Any, **__: Any) -> Any:
        return columns.visible(window)

    def mask_window(usual: Any, attention_mask: Any, *_: Any, **__: Any) -> Any:
        return _repeat_rows(columns.visible(layer.sliding_window_size), groups)

    def embed_positions(usual: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        return usual(inputs, positions=columns.own_positions)

    def add_slopes(usual: Any, heads: int, length: Any) -> Any:
        from keras import ops

        slopes = -usual(heads, 2)[..., :1]  # the bias of the last column but one
        distances = columns.positions - columns.positions[:, -1:]  # softmax ignores the offset of a row
        return slopes * ops.cast(distances, slopes.dtype)[:, None, None, :]

    def rotate(usual: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        from keras import ops

        own = columns.own_positions
        flat = usual(inputs, columns.start, ops.reshape(own, (-1,)))  # the cosines and the sines
        return tuple(ops.reshape(each, (*ops.shape(own), *each.shape[2:])) for each in flat)

    def attend(usual: Any, *given: Any, **keywords: Any) -> Any:
        from keras import ops

        nonlocal groups
        called = inspect.signature(usual).bind(*given, **keywords)
        query, key, value, mask = list(called.signature.parameters)[:4]
        arguments = called.arguments
        heads = getattr(layer, "num_key_value_heads", None) or getattr(layer, "_num_key_value_heads", None)
        groups = arguments[key].shape[2] // (heads or arguments[key].shape[2])
        arguments |= {name: columns.extend(repeated.first_of_groups(arguments[name], groups)) for name in (key, value)}
        if groups == 1:
            return usual(*called.args, **called.kwargs)
        # Queries of one head of keys become rows of one head, since repeated keys would be a copy of the cache.
        batch, length, every, channels = ops.shape(arguments[query])
        split = ops.reshape(_exchange_axes(arguments[query]), (batch, heads, -1, channels))
        arguments[query] = _exchange_axes(split)
        if arguments.get(mask) is not None:
            arguments[mask] = _repeat_rows(arguments[mask], groups)
        rows = _exchange_axes(usual(*called.args, **called.kwargs))
        return _exchange_axes(ops.reshape(rows, (batch, every, length, rows.shape[3])))

    def relate(usual: Any, *_: Any, **__: Any) -> Any:
        from keras import ops

        distances = columns.positions[:, None, :] - columns.own_positions[:, :, None]
        sizes = layer.relative_attention_buckets, layer.relative_attention_max_distance
        buckets = getattr(layer, _BUCKET_OF)(distances, not layer.is_decoder, *sizes)
        return ops.transpose(ops.take(layer.relative_attention_bias, buckets, axis=0), (0, 3, 1, 2))

    def project(usual: Any, *given: Any, **keywords: Any) -> Any:
        return with_heads(layer, usual(*given, **keywords), columns.extend)

    methods: dict[str, Callable[..., Any]] = {
        "_compute_self_attention_mask": mask,
        "_compute_attention_mask": mask,
        "_mask_sliding_window": mask_window,
        "_compute_cos_sin_embedding": rotate,
        "_get_alibi_bias": add_slopes,
        "compute_bias": relate,
        "_compute_attention": attend,
    }
    found = [(layer, name, method) for name, method in methods.items() if hasattr(layer, name)]
    if type(layer).__name__ == "PositionEmbedding":
        found.append((layer, "call", embed_positions))
    if not hasattr(layer, "_compute_attention"):  # the layer attends within its `call`, and projects the keys first
        found += [(part, "call", project) for part in key_and_value(layer)]
    return found


def key_and_value(attention: Any) -> list[Any]:
    """Returns the layers that project the keys and the values of an attention layer; empty for another layer."""
    named = ([getattr(attention, name.format(part), None) for part in ("key", "value")] for name in _PROJECTIONS)
    return next((parts for parts in named if all(parts)), [])


def with_heads(attention: Any, rows: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the changed keys or values of an attention layer, which may have heads and channels in one axis.

    Args:
        attention: The layer.
        rows: The keys or values, `[batch, length, heads, channels]` or `[batch, length, heads * channels]`.
        change: Accepts and returns the first form.
    """
    from keras import ops

    if len(rows.shape) == 4:
        return change(rows)
    batch, width = ops.shape(rows)[0], rows.shape[2]
    changed = change(ops.reshape(rows, (batch, -1, attention.num_heads, width // attention.num_heads)))
    return ops.reshape(changed, (batch, -1, width))


def _exchange_axes(rows: Any) -> Any:
    """Returns an array `[batch, length, heads, channels]` as `[batch, heads, length, channels]`, or the reverse."""
    from keras import ops

    return ops.transpose(rows, (0, 2, 1, 3))


def _repeat_rows(mask: Any, groups: int) -> Any:
    """Returns a mask `[batch, length, total]` once for each query of a group, `[batch, groups * length, total]`."""
    from keras import ops

    return ops.tile(mask, (1, groups, 1)) if groups > 1 else mask
