"""Maps the columns of a data set to inputs, with the type and the axes of each input."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import did_you_mean
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.model.watch.nested_arguments import shapes_fit
from keras_pe.export.parity.data.source import Column, DataError, Rows, is_number
from keras_pe.export.runtimes.runtime import Array, as_dtype, as_texts

WAY_OUT = " Shorter rows are padded where `pad_values` names the input."


def match_columns(
    inputs: Sequence[TensorInfo], columns: Sequence[str], given: Mapping[str, str | Sequence[str]], name: str
) -> dict[str, str | Sequence[str]]:
    """Returns the column or columns of each input, by the rule of `Batching`.

    Raises:
        DataError: If an input has no column.
        ValueError: If `given` names an unknown input.
    """
    unknown = sorted(set(given) - {spec.name for spec in inputs})
    if unknown:
        names = ", ".join(spec.name for spec in inputs)
        raise ArgValueError("columns", f"must be of inputs: {names}. Received: {', '.join(unknown)}.")
    matched: dict[str, str | Sequence[str]] = {}
    for spec in inputs:
        wanted = given.get(spec.name) or _columns_of(spec, columns, is_only=len(inputs) == 1)
        for column in [wanted] if isinstance(wanted, str) else wanted:
            if column not in columns:
                raise DataError(
                    f"{name} must have a column {column!r} for the model's input {spec.name!r}. "
                    f"Received: {', '.join(columns)}.{did_you_mean(column, columns)}"
                )
        matched[spec.name] = wanted
    return matched


def _columns_of(spec: TensorInfo, columns: Sequence[str], *, is_only: bool) -> str | Sequence[str]:
    """Returns the column with an input's name, the columns numbered after it, or all columns for the only input."""
    if spec.name in columns:
        return spec.name
    size = spec.shape[1] if len(spec.shape) == 2 else None
    for pattern in ("{}_{}", "{}{}", "{}.{}", "{}[{}]"):
        for first in (0, 1):
            numbered = [pattern.format(spec.name, number + first) for number in range(len(columns))]
            found = [column for column in numbered if column in columns]
            if found and found == numbered[: len(found)] and (isinstance(size, str) or size == len(found)):
                return tuple(found)
    if is_only and len(columns) == 1:
        return columns[0]
    return tuple(columns) if is_only and size == len(columns) else spec.name


def labels_of(column: Column, members: Array) -> Array:
    """Returns the labels of the rows at some indices."""
    return column[members] if isinstance(column, np.ndarray) else np.stack([column[row] for row in members])


def side_by_side(names: Sequence[str], rows: Rows, *, in_sequences: bool = False) -> Column:
    """Returns columns of single values as one column of vectors. In sequences, a row has a value for each step.

    Raises:
        DataError: If a column has more than one value in a row.
    """
    columns = [rows[name] for name in names]
    if in_sequences:
        return [np.stack(values, axis=-1) for values in zip(*columns, strict=True)]
    for name, column in zip(names, columns, strict=True):
        if not isinstance(column, np.ndarray) or column.size != len(column):
            raise DataError(f"Column {name!r} must have one value in each row, since an input takes several columns.")
    return np.stack([np.asarray(column).reshape(-1) for column in columns], axis=1)


def check_pad(spec: TensorInfo, value: object) -> None:
    """Raises ValueError if the type of an input cannot hold a value; a float may lose digits."""
    dtype, given = as_dtype(spec.dtype), np.asarray(value)
    if dtype.kind == "O":
        is_held = isinstance(value, str | bytes)
    else:
        is_held = not given.ndim and given.dtype.kind in "fiub"
        if is_held and (not is_float(dtype) or np.isfinite(given)):  # a float type holds NaN and infinities
            with np.errstate(invalid="ignore", over="ignore"):
                cast = given.astype(dtype)
            is_held = bool(np.isfinite(cast) if is_float(dtype) else cast == given)
    if not is_held:
        raise ArgValueError(
            "pad_values",
            f"must be values that the inputs hold: {spec.name!r} is {spec.dtype}. Received: {spec.name}={value!r:.80}.",
        )


def as_input(spec: TensorInfo, values: Array, column: str, start: int) -> Array:
    """Returns values in the input's type. Raises DataError if the conversion loses more than digits of a float."""
    dtype = as_dtype(spec.dtype)
    if dtype.kind == "O":
        if values.dtype.kind not in "OUS":
            raise DataError(f"Column {column!r} must hold texts. Received: {values.dtype}.")
        return as_texts(values)
    if values.dtype.kind not in "fiub" and values.dtype.name != "bfloat16":
        raise DataError(
            f"Column {column!r} must hold numbers, for {spec.dtype}. Received: {_first_text(values, start)}."
        )
    if values.dtype == dtype or dtype.kind == "f" or dtype.name == "bfloat16":
        return values.astype(dtype, copy=False)
    with np.errstate(invalid="ignore"):
        turned = values.astype(dtype)
    lost = np.flatnonzero((turned != values).reshape(len(values), -1).any(axis=1))
    if lost.size:
        raise DataError(
            f"Column {column!r} must hold values that {spec.dtype}, the dtype of the model's input {spec.name!r}, can "
            f"represent. Received: a {values.dtype} in row {start + int(lost[0]):,} that it cannot represent."
        )
    return turned


def _first_text(values: Array, start: int) -> str:
    """Returns the type of a column that must hold numbers; for texts also the first non-numeric text and its row."""
    if values.dtype.kind not in "OUS":
        return str(values.dtype)
    firsts = enumerate(values.reshape(len(values), -1)[:, :1].ravel())
    found = (f"texts, such as {text!r} in row {start + row:,}" for row, text in firsts if not is_number(text))
    return next(found, "texts")


def arrange_rows(spec: TensorInfo, values: Array, column: str, *, pads: bool) -> Column:
    """Returns rows with the axes of the input. Flat rows are reshaped; shorter rows become a list for padding."""
    shape = spec.shape[1:]
    static = [dim for dim in shape if isinstance(dim, int)]
    own = values.shape[1:]
    if len(static) == len(shape) and len(own) != len(shape) and np.prod(own, dtype=int) == np.prod(static, dtype=int):
        return values.reshape(len(values), *static)
    if len(own) == len(shape):
        if shapes_fit(shape, own):
            return values
        if pads and all(not isinstance(dim, int) or size <= dim for dim, size in zip(shape, own, strict=True)):
            return list(values)
    wanted = ", ".join("any" if isinstance(dim, str) else str(dim) for dim in shape)
    raise DataError(
        f"Column {column!r} must have rows of shape ({wanted}), the shape of the model's input {spec.name!r}. "
        f"Received: rows of shape {own}.{'' if pads else WAY_OUT}"
    )
