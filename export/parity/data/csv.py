"""Files of comma-separated values, or of values between semicolons or tabs; the first line names the columns."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.dependencies import require
from keras_pe.export.parity.data.source import DataError, DataSource

_DELIMITERS = ",;\t|"


def open_csv(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one file, or several of the same columns in the same order.

    The files are read once for the number of rows and the types: a column is of integers, of floats, of booleans or of
    texts, whichever first holds all its values. A column with a missing value is one of texts.

    Raises:
        DataError: If the files have several headers, or the first line is no header.
        ImportError: If pyarrow is not installed.
    """
    require("check_dataset", "pyarrow", extra="data")
    import pyarrow as pa

    columns: list[str] = []
    kinds: dict[str, Any] = {}
    rows = 0
    for file in files:
        found = _header(file)
        if columns and found != columns:
            raise DataError(f"The files of {name} must have one header. Received: another one in {file.name}.")
        columns = found
        for batch in _open(file, dict.fromkeys(columns, pa.string())):
            rows += len(batch)
            kinds |= {column: _kind(batch[column], kinds.get(column, pa.int64())) for column in columns}
    return DataSource(name, tuple(columns), partial(_read, tuple(files), kinds), rows=rows)


def _read(
    files: Sequence[Path], kinds: dict[str, Any], locator: Any, most: int, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for file in files:
        for batch in _open(file, {column: kinds[column] for column in columns}):
            for start in range(0, len(batch), most):
                part = batch.slice(start, most)
                yield dict(zip(part.schema.names, part.columns, strict=True))


def _open(file: Path, kinds: dict[str, Any] | None = None) -> Any:
    """Returns a reader of some columns in their types, or of all in any types."""
    from pyarrow import csv

    with file.open("rb") as stream:
        counts = Counter(chr(byte) for byte in stream.readline(2**16))
    delimiter = max(_DELIMITERS, key=lambda each: counts[each])
    return csv.open_csv(
        file,
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=kinds, include_columns=[*(kinds or ())], null_values=[]),
    )


def _header(file: Path) -> list[str]:
    """Returns the names of the columns.

    Raises:
        DataError: If the first line has a name twice, or numbers alone.
    """
    columns: list[str] = _open(file).schema.names
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice or all(_is_number(column) for column in columns):
        received = f"{twice[0]} twice" if twice else f"numbers ({', '.join(columns[:3])})"
        raise DataError(f"The first line of {file} must have the name of each column. Received: {received}.")
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind(column: Any, least: Any) -> Any:
    """Returns the first type, from one that held the values before, which holds a column of texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = [pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.string()]
    for kind in kinds[kinds.index(least) :]:
        try:
            pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
        return kind
    return pa.string()
