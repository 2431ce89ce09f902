"""Makes batches from rows: maps columns to inputs, converts types and axes, and groups rows of several lengths."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import did_you_mean
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.references.tensor_pairs import transpose_inputs
from keras_pe.export.model.signature.caller_arguments import by_name
from keras_pe.export.parity.data.columns import (
    WAY_OUT,
    arrange_rows,
    as_input,
    check_pad,
    labels_of,
    match_columns,
    side_by_side,
)
from keras_pe.export.parity.data.pieces import count, divide
from keras_pe.export.parity.data.source import Column, DataError, Rows, byte_count, rows_within
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype

_WINDOW = 8  # batches that are read at once
_BATCH_BYTES = 2**24


@dataclass(frozen=True)
class Batch:
    """Rows that are fed together.

    Attributes:
        rows: Indices of the rows in the data set.
        inputs: Arrays by input name, one row each along the first axis.
        number: Index of the batch in its shard.
        labels: Arrays by column, one row each along the first axis.
    """

    rows: Array
    inputs: dict[str, Array]
    number: int = 0
    labels: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Batching:
    """The rule that makes batches from rows.

    Attributes:
        columns: The column of an input, for inputs whose column has another name; or several columns, each a value of
            the input's last axis. By default, an input takes the column with its name, or the columns that are numbered
            after it (`x_0`, `x_1`). The only input takes all columns if their number equals its size.
        batch_size: The most rows that are fed together. Rows of more than 16 MiB together are fed in smaller batches. A
            static batch of the model overrides both.
        length_buckets: Sizes that dynamic dimensions are padded to. A row is padded to the next larger size. By
            default, rows of equal length are fed together, without padding.
        pad_values: The value that pads an input, by its name; the default is 0, False or an empty text. A row that is
            shorter than a static size is padded for these inputs, and refused for others as probably damaged.
        sequence: The column with the name or number of a sequence. Consecutive rows with one value are its steps, in
            order, and count as one row of the report. By default, each row is a whole sequence if the model has a
            state. The state begins anew with each sequence.

    Raises:
        TypeError: If `columns` or `pad_values` is not a mapping from names.
        ValueError: If `batch_size` or a bucket is below 1, or if a padding value is neither a number nor a text.
    """

    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    batch_size: int = 1024
    length_buckets: Sequence[int] = ()
    pad_values: Mapping[str, float | str | bytes] = field(default_factory=dict)
    sequence: str | None = None

    def __post_init__(self) -> None:
        """Checks the arguments and sorts the buckets."""
        for name in ("columns", "pad_values"):
            object.__setattr__(self, name, by_name(name, getattr(self, name)))
        for name, value in self.pad_values.items():
            if not isinstance(value, Real | np.generic | str | bytes):
                raise ArgValueError("pad_values", f"must be numbers or texts. Received: {name!r}: {value!r:.80}.")
        if not (isinstance(self.batch_size, Integral) and self.batch_size >= 1):
            raise ArgValueError("batch_size", f"must be at least 1 row. Received: batch_size={self.batch_size!r}.")
        sizes = self.length_buckets
        is_sequence = isinstance(sizes, Iterable) and not isinstance(sizes, str)
        if not (is_sequence and all(isinstance(size, Integral) and size >= 1 for size in sizes)):
            raise ArgValueError(
                "length_buckets",
                f"must be a sequence of sizes of at least 1, such as (64, 128). Received: length_buckets={sizes!r}.",
            )
        object.__setattr__(self, "length_buckets", tuple(sorted(sizes)))


@dataclass(frozen=True)
class Feed:
    """The conversion of the rows of a data set to batches of a model.

    Attributes:
        inputs: The inputs of the model.
        rule: The rule of batches, with the column of every input.
        layouts: The layout of an input by its name, if the artifacts' layout differs from the model's.
        labels: The columns of labels.
        row_bytes: The bytes of a large row, which limit the rows of a batch; 0 if they are unknown.

    Raises:
        ValueError: If the type of an input cannot hold its padding value.
    """

    inputs: tuple[TensorInfo, ...]
    rule: Batching
    layouts: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    row_bytes: int = 0

    def __post_init__(self) -> None:
        """Checks the padding values."""
        for spec in self.inputs:
            if spec.name in self.rule.pad_values:
                check_pad(spec, self.rule.pad_values[spec.name])

    @classmethod
    def match(
        cls,
        inputs: tuple[TensorInfo, ...],
        rule: Batching,
        columns: Sequence[str],
        name: str,
        layouts: Mapping[str, str] | None = None,
        labels: Sequence[str] = (),
    ) -> "Feed":
        """Returns the feed for data with these columns.

        Raises:
            DataError: If an input or a label has no column.
            ValueError: If `columns` or `pad_values` names an unknown input.
        """
        for label in labels:
            if label not in columns:
                raise DataError(
                    f"{name} must have the column {label!r} of the labels. Received: {', '.join(columns)}."
                    f"{did_you_mean(label, columns)}"
                )
        steps = inputs if rule.sequence is None else [_without_steps(spec) for spec in inputs]
        matched = match_columns(steps, [each for each in columns if each not in labels], rule.columns, name)
        if unknown := sorted(set(rule.pad_values) - {spec.name for spec in inputs}):
            names = ", ".join(spec.name for spec in inputs)
            raise ArgValueError("pad_values", f"must be of inputs: {names}. Received: {', '.join(unknown)}.")
        return cls(inputs, replace(rule, columns=matched), layouts or {}, tuple(labels))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read from the data."""
        given = ((each,) if isinstance(each, str) else each for each in self.rule.columns.values())
        return tuple(dict.fromkeys((*(column for columns in given for column in columns), *self.labels)))

    @property
    def batch_size(self) -> int:
        """The most rows of a batch."""
        return fixed_size(self.inputs) or rows_within(self.rule.batch_size, self.row_bytes, _BATCH_BYTES)

    @property
    def window(self) -> int:
        """The number of rows that are read at once, so that rows of equal length can be grouped."""
        return max(self.batch_size, rows_within(_WINDOW * self.batch_size, self.row_bytes))

    def with_row_bytes(self, start: int, rows: Rows) -> "Feed":
        """Returns the feed with the bytes of a row in the largest batch of some rows."""
        sizes = (sum(map(byte_count, each.inputs.values())) // len(each.rows) for each in self.batches(start, rows))
        return replace(self, row_bytes=max([self.row_bytes, *sizes]))

    def batches(self, start: int, rows: Rows) -> Iterator[Batch]:
        """Yields the batches of consecutive rows. The first row has the number `start`.

        Raises:
            DataError: If a row does not fit the model.
        """
        count = len(next(iter(rows.values())))
        columns = {spec.name: self._column(spec, rows, start) for spec in self.inputs}
        numbers = np.arange(start, start + count)
        for members in self._groups(columns, count):
            arrays = {spec.name: self._stack(spec, columns[spec.name], members) for spec in self.inputs}
            for first in range(0, len(members), self.batch_size):
                part = slice(first, first + self.batch_size)
                labels = {name: labels_of(rows[name], members[part]) for name in self.labels}
                inputs = {name: array[part] for name, array in arrays.items()}
                yield Batch(numbers[members[part]], inputs, labels=labels)

    def _column(self, spec: TensorInfo, rows: Rows, start: int) -> Column:
        given = self.rule.columns[spec.name]
        name = given if isinstance(given, str) else ", ".join(given)
        is_sequence = self.rule.sequence is not None
        column = rows[given] if isinstance(given, str) else side_by_side(given, rows, in_sequences=is_sequence)
        if is_sequence:
            column = [_arrange_steps(spec, row) for row in column]
        if isinstance(column, np.ndarray):
            turned = self._in_layout(spec, as_input(spec, column, name, start))
            return arrange_rows(spec, turned, name, pads=spec.name in self.rule.pad_values)
        rows_of = (
            self._in_layout(spec, as_input(spec, row[np.newaxis], name, start + i)) for i, row in enumerate(column)
        )
        single = [row[0] for row in rows_of]
        shapes = {row.ndim for row in single}
        if shapes != {len(spec.shape) - 1}:
            raise DataError(
                f"Column {name!r} must have rows of {len(spec.shape) - 1} axes. Received: {sorted(shapes)} axes."
            )
        return single

    def _in_layout(self, spec: TensorInfo, values: Array) -> Array:
        takes = replace(spec, shape=("rows", *spec.shape[1:]))
        return transpose_inputs({spec.name: values}, self.layouts, [takes])[spec.name]

    def _groups(self, columns: Mapping[str, Column], count: int) -> list[Array]:
        """Returns the indices of rows that can be fed together, by their padded sizes; small sizes first."""
        ragged = [spec for spec in self.inputs if not isinstance(columns[spec.name], np.ndarray) or self._pads(spec)]
        if not ragged:
            return [np.arange(count)]
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        for row in range(count):
            sizes = tuple(self._padded_shape(spec, columns[spec.name][row].shape) for spec in ragged)
            groups.setdefault(sizes, []).append(row)
        return [np.array(groups[sizes]) for sizes in sorted(groups)]

    def _pads(self, spec: TensorInfo) -> bool:
        return bool(self.rule.length_buckets) and any(isinstance(dim, str) for dim in spec.shape[1:])

    def _padded_shape(self, spec: TensorInfo, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of a row after padding: a static size, the next bucket, or the row's own size."""
        return tuple(
            dim if isinstance(dim, int) else next((size for size in self.rule.length_buckets if size >= own), own)
            for dim, own in zip(spec.shape[1:], shape, strict=True)
        )

    def _stack(self, spec: TensorInfo, column: Column, members: Array) -> Array:
        if isinstance(column, np.ndarray) and not self._pads(spec):
            return column if len(members) == len(column) else column[members]
        shape = self._padded_shape(spec, column[members[0]].shape)
        dtype = as_dtype(spec.dtype)
        empty = "" if dtype.kind == "O" else 0
        stacked = np.full((len(members), *shape), self.rule.pad_values.get(spec.name, empty), dtype)
        for place, row in zip(stacked, (column[i] for i in members), strict=True):
            sizes = list(zip(row.shape, shape, spec.shape[1:], strict=True))
            is_short = any(own < size and isinstance(dim, int) for own, size, dim in sizes)
            pads, name = spec.name in self.rule.pad_values, self.rule.columns[spec.name]
            if any(own > size for own, size, _ in sizes) or (is_short and not pads):
                raise DataError(
                    f"Column {name!r} must have rows of {shape}, which is what the model's input "
                    f"{spec.name!r} takes. Received: a row of {row.shape}.{'' if pads else WAY_OUT}"
                )
            place[tuple(slice(size) for size in row.shape)] = row
        return stacked


def _without_steps(spec: TensorInfo) -> TensorInfo:
    """Returns an input without the axis of a sequence."""
    return replace(spec, shape=(*spec.shape[:1], *spec.shape[2:]))


def _arrange_steps(spec: TensorInfo, steps: Array) -> Array:
    """Returns the steps of a sequence with the axes of the input. Rows of several steps each are joined."""
    axes = len(spec.shape) - 1
    if steps.ndim == axes + 1:
        return steps.reshape(-1, *steps.shape[2:])
    return steps[..., np.newaxis] if steps.ndim == axes - 1 and spec.shape[-1] == 1 else steps


def fixed_size(takes: Sequence[TensorInfo]) -> int | None:
    """Returns the number of rows that a batch must have; None if it may have any."""
    return next((int(spec.shape[0]) for spec in takes if spec.shape and isinstance(spec.shape[0], int)), None)


def run_whole_batches(
    run: Callable[[Mapping[str, Array]], Arrays], takes: Sequence[TensorInfo], inputs: Mapping[str, Array]
) -> Arrays:
    """Returns the outputs of `run` for rows, all at once, or in batches if `takes` fixes the number of rows."""
    if fixed_size(takes) in (None, count(inputs)):
        return run(inputs)
    answers = [run(part) for part in whole_parts(takes, inputs)]
    return {name: np.concatenate([answer[name] for answer in answers])[: count(inputs)] for name in answers[0]}


def whole_parts(takes: Sequence[TensorInfo], inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Returns rows in batches of the fixed size, the last one filled up; one batch if the size is not fixed."""
    return [fill_up(part, takes) for part in divide(inputs, fixed_size(takes) or max(1, count(inputs)))]


def fill_up(inputs: Mapping[str, Array], takes: Sequence[TensorInfo]) -> dict[str, Array]:
    """Returns rows with the last one repeated up to the fixed batch size."""
    missing = (fixed_size(takes) or 0) - count(inputs)
    if missing <= 0:
        return dict(inputs)
    return {name: np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) for name, rows in inputs.items()}
