"""Parquet files, by row groups."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.dependencies import require
from keras_pe.export.parity.data.shards import file_identity
from keras_pe.export.parity.data.source import SHARD_ROWS, DataError, DataPart, DataSource


def open_parquet(name: str, files: Sequence[Path]) -> DataSource:
    """Opens one Parquet file, or several of one schema.

    Raises:
        DataError: If they have several schemas.
        ImportError: If pyarrow is not installed.
    """
    require("check_dataset", "pyarrow", extra="data")
    parts: list[DataPart] = []
    schema: Any = None
    for file in files:
        metadata = _open(file).metadata
        found = metadata.schema.to_arrow_schema()
        if schema is not None and not found.equals(schema):
            raise DataError(f"The files of {name} must have one schema. Received: another one in {file.name}.")
        schema = found
        for groups, rows in _runs([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]):
            place = f"{file.name}, row group {groups[0]}" + (f"-{groups[-1]}" if len(groups) > 1 else "")
            parts.append(DataPart(rows, place, [str(file), groups], [file_identity(file), groups]))
    return DataSource(name, tuple(schema.names), _read, tuple(parts))


def _read(locator: Any, most: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    path, groups = locator
    for batch in _open(Path(path)).iter_batches(most, row_groups=groups, columns=list(columns)):
        yield dict(zip(batch.schema.names, batch.columns, strict=True))


def _open(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True)  # of files that hold sums


def _runs(rows: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Returns runs of row groups of about `SHARD_ROWS` rows, or one larger group, and the rows of each run."""
    groups: list[int] = []
    total = 0
    for group, count in enumerate(rows):
        if groups and total + count > SHARD_ROWS:
            yield groups, total
            groups, total = [], 0
        groups.append(group)
        total += count
    if total:
        yield groups, total
