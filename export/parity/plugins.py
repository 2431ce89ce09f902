"""What opens the data of a check, and where its shards may run: of this package, and of others by entry points."""

from importlib.metadata import EntryPoint, entry_points

DATA_SOURCES = "keras_pe.data_sources"
"""An entry point is named after the package whose objects it opens, and is called with one: it returns a `DataSource`,
or None for what it does not know. One that is named after a suffix, such as ".tfrecord", is called with what the report
calls the data, and with the files."""

EXECUTORS = "keras_pe.executors"
"""An entry point is named after the scheme of an address, and is called with what follows "://": it returns a context
manager that yields a `concurrent.futures.Executor`."""

_CONNECTORS, _DATA = "keras_pe.export.connectors", "keras_pe.export.parity.data"
_OURS = (
    EntryPoint("tensorflow", f"{_CONNECTORS}.batches:open_tf_dataset", DATA_SOURCES),
    EntryPoint("keras", f"{_CONNECTORS}.batches:open_py_dataset", DATA_SOURCES),
    EntryPoint("datasets", f"{_CONNECTORS}.hugging_face:open_dataset", DATA_SOURCES),
    EntryPoint(".arrow", f"{_DATA}.tables:open_arrow", DATA_SOURCES),
    EntryPoint(".csv", f"{_DATA}.tables:open_csv", DATA_SOURCES),
    EntryPoint(".tsv", f"{_DATA}.tables:open_csv", DATA_SOURCES),
    EntryPoint(".feather", f"{_DATA}.tables:open_arrow", DATA_SOURCES),
    EntryPoint(".npy", f"{_DATA}.array_files:open_npy", DATA_SOURCES),
    EntryPoint(".npz", f"{_DATA}.array_files:open_npz", DATA_SOURCES),
    EntryPoint(".parquet", f"{_DATA}.tables:open_parquet", DATA_SOURCES),
    EntryPoint(".tfrecord", f"{_CONNECTORS}.tfrecord:open_records", DATA_SOURCES),
    EntryPoint("dask", f"{_CONNECTORS}.dask:dask_executor", EXECUTORS),
    EntryPoint("ray", f"{_CONNECTORS}.ray:ray_executor", EXECUTORS),
)


def registered(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name, those of this package among them. None is loaded."""
    ours = [entry for entry in _OURS if entry.group == group]
    return {entry.name: entry for entry in (*entry_points(group=group), *ours)}
