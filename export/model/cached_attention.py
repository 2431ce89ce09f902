"""Attention layers of keras-hub that attend to keys and values of earlier calls, in a call without keras-hub's cache.

The uncached call defines the numbers of a model. Within it, each attention layer receives the earlier keys and values
before its own. Masks and positions follow from the attention mask of all columns.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self

from keras_pe.export.model.watch.temporary_patches import replaced_functions

_MASKS = ("_compute_self_attention_mask", "_compute_attention_mask")  # methods of keras-hub's decoder layers
_WINDOW = "_mask_sliding_window"
_ROTATION = "_compute_cos_sin_embedding"
_SLOPES = "_get_alibi_bias"


@dataclass
class Columns:
    """The columns of the cache and of one call: the earlier columns, then one for each token of the call.

    Attributes:
        positions: The position of each column in its row, integers `[batch, total]`. Padding has no position of its
            own.
        is_token: Whether a column is a token rather than padding, `[batch, total]`.
        count: The number of tokens of the call, a scalar tensor or an integer.
        past: The earlier keys and values of each layer in turn, `[batch, heads, length, channels]`.
        is_shared: Whether `past` has rows for later columns too, and the call writes its own rows into it. Otherwise
            the rows of `past` are the earlier columns.
        first: The column of the first token of the call, if later columns exist too; None if the tokens are last.
        present: The keys and values of all columns, which the call fills in the same order.
    """

    positions: Any
    is_token: Any
    count: Any
    past: Sequence[Any]
    is_shared: bool = False
    first: Any = None
    present: list[Any] = field(default_factory=list)

    @classmethod
    def from_mask(
        cls, attention_mask: Any, count: Any, past: Sequence[Any], *, is_shared: bool = False, first: Any = None
    ) -> Self:
        """Returns the columns of an attention mask, integers `[batch, total]`: 1 for a token, 0 for padding."""
        from keras import ops

        mask = ops.cast(attention_mask, "int32")
        return cls(ops.maximum(ops.cumsum(mask, axis=1) - 1, 0), mask > 0, count, past, is_shared, first)

    @property
    def start(self) -> Any:
        """The number of earlier columns."""
        from keras import ops

        return ops.shape(self.positions)[1] - self.count if self.first is None else self.first

    @property
    def own_positions(self) -> Any:
        """The positions at which layers encode the tokens of the call, `[batch, count]`."""
        return self.select_own(self.positions)

    def select_own(self, columns: Any) -> Any:
        """Returns the entries of an array, `[batch, total]`, that belong to the tokens of the call."""
        from keras import ops

        if self.first is None:
            return columns[:, self.start :]
        return ops.take(columns, self.first + ops.arange(self.count, dtype="int32"), axis=1)

    def visible(self, window: int | None = None) -> Any:
        """Returns whether a token of the call attends to a column, booleans `[batch, count, total]`.

        A token attends to itself and to earlier tokens of its row. Padding attends to itself, so that no softmax is
        without a column.

        Args:
            window: The number of last positions that a token attends to, including its own; None for all.
        """
        from keras import ops

        own, all_positions = self.select_own(self.positions)[:, :, None], self.positions[:, None, :]
        seen = ops.logical_and(self.is_token[:, None, :], all_positions <= own)
        if window is not None:
            seen = ops.logical_and(seen, own - all_positions < window)
        columns = ops.arange(ops.shape(self.positions)[1], dtype="int32")[None]
        return ops.logical_or(seen, columns[:, None, :] == self.select_own(columns)[:, :, None])

    @property
    def earlier(self) -> list[Any]:
        """The keys and values of the earlier columns, `[batch, heads, start, channels]`."""
        return [each[:, :, : self.start] if self.is_shared else each for each in self.past]

    def extend(self, own: Any) -> Any:
        """Returns the keys or the values of all columns, `[batch, total, heads, channels]`, and keeps them.

        Args:
            own: The keys or the values of the tokens of the call, `[batch, count, heads, channels]`. A layer's keys
                come before its values.
        """
        from keras import ops

        return ops.transpose(self._keep(ops.transpose(own, (0, 2, 1, 3))), (0, 2, 1, 3))

    def _keep(self, rows: Any) -> Any:
        """Returns the rows of all columns, `[batch, heads, total, channels]`, and keeps them for the next call."""
        from keras import ops

        place, total = len(self.present), ops.shape(self.positions)[1]
        if not self.past:
            self.present.append(rows)
        elif self.is_shared:
            self.present.append(write_rows(self.past[place], rows, self.start))
        else:
            self.present.append(ops.concatenate([self.past[place], rows], axis=2))
        return self.present[-1][:, :, :total] if self.is_shared and self.first is None else self.present[-1]

    def call_step(self, step: Callable[..., Any], tokens: Any, mask: Any) -> Any:
        """Returns the logits of a `step`, and keeps its keys and values.

        A step concatenates its own rows to the rows of earlier calls. Within a shared cache, the call writes them into
        the array instead, since a concatenation would copy the earlier rows.

        Args:
            step: The method of a model, see `keras_pe.protocols.CachedModel`.
            tokens: The tokens of the call, `[batch, count]`.
            mask: Whether a token attends to a column, `[batch, count, start + count]`.
        """
        from keras import ops

        earlier = self.earlier
        joined: dict[int, tuple[Any, Any]] = {}  # the rows that the step attends to, and the array with them

        def concatenate(usual: Any, xs: Any, axis: int = 0) -> Any:
            parts = list(xs) if isinstance(xs, list | tuple) else []
            place = next((place for place, each in enumerate(earlier) if parts and parts[0] is each), None)
            if place is None or len(parts) != 2 or axis not in (2, -2) or parts[1].dtype != parts[0].dtype:
                return usual(xs, axis)
            buffer = write_rows(self.past[place], parts[1], self.start)
            joined[place] = buffer[:, :, : self.start + self.count], buffer
            return joined[place][0]

        with replaced_functions([(ops, "concatenate", concatenate)] if self.is_shared else []):
            logits, present = step(tokens, earlier, self.own_positions, mask)
        for place, (past, rows) in enumerate(zip(self.past, present, strict=True)):
            whole, buffer = joined.get(place, (None, None))
            if not self.is_shared:
                self.present.append(rows)
            elif whole is rows:
                self.present.append(buffer)
            else:  # another operation than `concatenate` has joined the rows
                self.present.append(write_rows(past, rows[:, :, self.start :], self.start))
        return logits


def write_rows(buffer: Any, rows: Any, start: Any) -> Any:
    """Returns a buffer, `[batch, heads, length, channels]`, with rows from one start on. Exporters replace it."""
    from keras import ops

    return ops.slice_update(buffer, (0, 0, start, 0), rows)


def attends_to(layers: Iterable[Any], columns: Columns) -> AbstractContextManager[None]:
    """Returns a context in which the layers of a keras-hub decoder attend to the columns, in this thread.

    Args:
        layers: The layers of a causal language model.
        columns: The columns, whose `present` the call fills.
    """
    replaced = [replacement for layer in layers for replacement in _replacements(layer, columns)]
    return replaced_functions(replaced)


def _replacements(layer: Any, columns: Columns) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Returns the functions of one layer that depend on positions or on other columns, each with its replacement."""
    found: list[tuple[Any, str, Callable[..., Any]]] = []
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
        return _angles(usual, inputs, columns)

    def attend(usual: Any, *given: Any, **keywords: Any) -> Any:
        nonlocal groups
        called = inspect.signature(usual).bind(*given, **keywords)
        query, key, value, mask = list(called.signature.parameters)[:4]
        arguments = called.arguments
        heads = getattr(layer, "num_key_value_heads", None) or getattr(layer, "_num_key_value_heads", None)
        groups = arguments[key].shape[2] // (heads or arguments[key].shape[2])
        arguments |= {name: columns.extend(arguments[name][:, :, ::groups]) for name in (key, value)}
        if groups == 1:
            return usual(*called.args, **called.kwargs)
        # Queries of one head of keys become rows of one head, since repeated keys would be a copy of the cache.
        arguments[query] = _split_groups(arguments[query], groups)
        if arguments.get(mask) is not None:
            arguments[mask] = _repeat_rows(arguments[mask], groups)
        return _join_groups(usual(*called.args, **called.kwargs), groups)

    def project(usual: Any, *given: Any, **keywords: Any) -> Any:
        return columns.extend(usual(*given, **keywords))

    found += [(layer, name, mask) for name in _MASKS if hasattr(layer, name)]
    found += [(layer, _WINDOW, mask_window)] if hasattr(layer, _WINDOW) else []
    found += [(layer, _ROTATION, rotate)] if hasattr(layer, _ROTATION) else []
    found += [(layer, _SLOPES, add_slopes)] if hasattr(layer, _SLOPES) else []
    if type(layer).__name__ == "PositionEmbedding":
        found.append((layer, "call", embed_positions))
    if hasattr(layer, "_compute_attention"):
        found.append((layer, "_compute_attention", attend))
    else:  # such a layer computes the attention within its `call`, and projects the keys first
        parts = [getattr(layer, own, None) or getattr(layer, f"_{own}", None) for own in ("key_dense", "value_dense")]
        found += [(part, "call", project) for part in parts if part is not None and all(parts)]
    return found


def _split_groups(queries: Any, groups: int) -> Any:
    """Returns queries `[batch, length, heads * groups, channels]` as `[batch, length * groups, heads, channels]`."""
    from keras import ops

    heads, channels = queries.shape[2] // groups, queries.shape[3]
    split = ops.reshape(queries, (-1, heads, groups, channels))
    return ops.reshape(ops.transpose(split, (0, 2, 1, 3)), (ops.shape(queries)[0], -1, heads, channels))


def _join_groups(results: Any, groups: int) -> Any:
    """Returns results `[batch, length * groups, heads, channels]` as `[batch, length, heads * groups, channels]`."""
    from keras import ops

    heads, channels = results.shape[2:]
    split = ops.reshape(results, (-1, groups, heads, channels))
    return ops.reshape(ops.transpose(split, (0, 2, 1, 3)), (ops.shape(results)[0], -1, heads * groups, channels))


def _repeat_rows(mask: Any, groups: int) -> Any:
    """Returns a mask `[batch, length, total]` with each row once for each query of a group."""
    from keras import ops

    return ops.repeat(mask, groups, axis=1) if groups > 1 else mask


def _angles(usual: Any, inputs: Any, columns: Columns) -> tuple[Any, Any]:
    """Returns the cosines and sines of a rotary layer at the positions of the call."""
    from keras import ops

    positions = columns.own_positions
    shape = ops.shape(positions)
    flat = usual(inputs, columns.start, ops.reshape(positions, (-1,)))
    cos, sin = (ops.reshape(each, (*shape, *each.shape[2:])) for each in flat)
    return cos, sin
