"""Opens tables in Parquet, Arrow and CSV files with `pyarrow`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import is_utf8
from keras_pe.export.dependencies import require
from keras_pe.export.parity.data.pieces import divide, neighbors_within, rows_between
from keras_pe.export.parity.data.shards import file_identity
from keras_pe.export.parity.data.source import SHARD_ROWS, DataError, DataPart, DataSource, is_number

_DELIMITERS = ",;\t|"
_PIECE_ROWS = 2**20  # A larger row group or file is divided, so that several processes run it and report progress.
_BUFFER_BYTES = 2**20  # Without a buffer, pyarrow reads all bytes of a column in a row group at once.
_MAX_PIECES = 64  # A piece decodes the rows before it, so more pieces would decode more rows than they run.


def open_parquet(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one Parquet file, or several with equal schemas. Any process can read a row group.

    Raises:
        DataError: If the schemas of the files differ.
        ImportError: If pyarrow is not installed.
    """
    parts: list[DataPart] = []
    columns = _columns(name, files)
    for file in files:
        rows = [group.num_rows for group in _fragment(file).row_groups]
        for groups in neighbors_within(rows, SHARD_ROWS):
            place = f"{file.name}, row group {groups[0]}" + (f"-{groups[-1]}" if len(groups) > 1 else "")
            parts += _pieces(file, place, [*groups], sum(rows[group] for group in groups))
    return DataSource(name, columns, _read_part, tuple(parts))


def open_arrow(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one Arrow (Feather) file, or several with equal schemas. Any process can read a file.

    Raises:
        DataError: If the schemas of the files differ.
        ImportError: If pyarrow is not installed.
    """
    columns = _columns(name, files)
    parts = [part for file in files for part in _pieces(file, file.name, None, _fragment(file).count_rows())]
    return DataSource(name, columns, _read_part, tuple(parts))


def _pieces(file: Path, place: str, groups: list[int] | None, rows: int) -> Iterator[DataPart]:
    """Yields the parts of some row groups of a file, or of a file without row groups."""
    size = max(_PIECE_ROWS, -(-rows // _MAX_PIECES))
    for start in range(0, rows, size):
        count = min(size, rows - start)
        yield DataPart(count, place, [str(file), groups, start, count], [file_identity(file), groups, start, count])


def open_csv(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one CSV file with commas, semicolons, tabs or bars as separators, or several with equal columns, in order.

    The function reads the files once to count the rows and to infer the types. The type of a column is the first of
    integer, float, boolean and text that fits all values. A column with a missing value has the type text.

    Raises:
        DataError: If the headers of the files differ, or the first line is not a header.
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
        for batch in _batches(_fragment(file, dict.fromkeys(columns, pa.string())), None, columns):
            rows += len(batch)
            kinds |= {column: _kind(batch[column], kinds.get(column, pa.int64())) for column in columns}
    return DataSource(name, tuple(columns), partial(_read_files, tuple(files), kinds), rows=rows)


def _columns(name: str, files: Sequence[Path]) -> tuple[str, ...]:
    require("check_dataset", "pyarrow", extra="data")
    first, *others = [_fragment(file).physical_schema for file in files]
    for file, schema in zip(files[1:], others, strict=True):
        if not schema.equals(first):
            raise DataError(f"The files of {name} must have one schema. Received: another one in {file.name}.")
    return tuple(first.names)


def _read_part(locator: Any, most: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    path, groups, start, count = locator
    batches = _read_groups(path, groups, most, columns) if groups else _batches(_fragment(Path(path)), most, columns)
    for rows in rows_between(map(_rows, batches), start, start + count):
        yield from divide(rows, most)


def _read_groups(path: str, groups: list[int], most: int, columns: Sequence[str]) -> Iterator[Any]:
    """Yields row groups in batches. `pyarrow.dataset` would decode each row group whole."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path, page_checksum_verification=True, buffer_size=_BUFFER_BYTES) as file:
        yield from file.iter_batches(most, groups, [*columns], use_threads=False)


def _read_files(
    files: Sequence[Path], kinds: dict[str, Any], locator: Any, most: int, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for file in files:
        for batch in _batches(_fragment(file, kinds), most, columns):
            yield from divide(_rows(batch), most)


def _rows(batch: Any) -> dict[str, Any]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _batches(fragment: Any, most: int | None, columns: Sequence[str]) -> Iterator[Any]:
    """Yields the batches of a file in order, one at a time, since reading ahead takes memory."""
    size = {} if most is None else {"batch_size": most}
    yield from fragment.to_batches(
        columns=[*columns], use_threads=False, batch_readahead=0, fragment_readahead=0, **size
    )


def _fragment(file: Path, kinds: dict[str, Any] | None = None) -> Any:
    """Returns a file as a `pyarrow.dataset` fragment. `kinds` has the types of a CSV file's columns."""
    import pyarrow.dataset as ds

    if not is_utf8(file):
        raise DataError(f"The path of a table must be in UTF-8. Received: {file}. Rename the file or its folder.")
    if file.suffix == ".parquet":
        format = ds.ParquetFileFormat()
    elif file.suffix in (".arrow", ".feather"):
        format = ds.IpcFileFormat()
    else:
        format = _csv_format(file, kinds)
    (fragment,) = ds.dataset(file, format=format).get_fragments()
    return fragment


def _csv_format(file: Path, kinds: dict[str, Any] | None) -> Any:
    import pyarrow.dataset as ds
    from pyarrow import csv

    with file.open("rb") as stream:
        counts = Counter(chr(byte) for byte in stream.readline(2**16))
    delimiter = max(_DELIMITERS, key=lambda each: counts[each])
    return ds.CsvFileFormat(
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types=kinds, null_values=[]),
    )


def _header(file: Path) -> list[str]:
    """Returns the names of the columns.

    Raises:
        DataError: If the first line repeats a name, or has numbers only.
    """
    columns: list[str] = _fragment(file).physical_schema.names
    twice = [column for column, count in Counter(columns).items() if count > 1]
    if twice or all(map(is_number, columns)):
        received = f"{twice[0]} twice" if twice else f"numbers ({', '.join(columns[:3])})"
        raise DataError(f"The first line of {file} must have the name of each column. Received: {received}.")
    return columns


def _kind(column: Any, least: Any) -> Any:
    """Returns the first type, starting at `least`, that fits a column of texts."""
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
