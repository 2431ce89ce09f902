"""The columns of a cache in one call: their positions, which of them a token attends to, and their keys and values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.model.watch.temporary_patches import replaced_functions


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
        given_positions: The positions at which layers encode the tokens of the call, `[batch, count]`; None if they
            follow from the columns.
        present: The keys and values of all columns, which the call fills in the same order.
    """

    positions: Any
    is_token: Any
    count: Any
    past: Sequence[Any]
    is_shared: bool = False
    first: Any = None
    given_positions: Any = None
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
        return self.select_own(self.positions) if self.given_positions is None else self.given_positions

    def select_own(self, columns: Any) -> Any:
        """Returns the entries of an array, `[batch, total]`, that belong to the tokens of the call."""
        from keras import ops

        return ops.take(columns, self.start + ops.arange(self.count, dtype="int32"), axis=1)

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
            returned = step(tokens, earlier, self.own_positions, mask)
        logits, present = returned if _is_pair(returned) else (returned, ())
        if len(present) != len(self.past):
            raise ArgValueError(
                "model",
                f"must have a `step` that returns the logits and a list of {len(self.past)} arrays, the longer cache. "
                f"Received: {len(present)} arrays.",
            )
        for place, (past, rows) in enumerate(zip(self.past, present, strict=True)):
            whole, buffer = joined.get(place, (None, None))
            if not self.is_shared:
                self.present.append(rows)
            elif whole is rows:
                self.present.append(buffer)
            else:  # another operation than `concatenate` has joined the rows
                self.present.append(write_rows(past, rows[:, :, self.start :], self.start))
        return logits


def _is_pair(returned: Any) -> bool:
    """Whether a step has returned its logits and a list of arrays."""
    return isinstance(returned, tuple | list) and len(returned) == 2 and isinstance(returned[1], tuple | list)


def write_rows(buffer: Any, rows: Any, start: Any) -> Any:
    """Returns a buffer, `[batch, heads, length, channels]`, with rows from one start on. Exporters replace it."""
    from keras import ops

    return ops.slice_update(buffer, (0, 0, start, 0), rows)
