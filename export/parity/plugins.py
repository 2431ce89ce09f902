"""The entry points that open the data of a check or start an executor, of this package and of others."""

from importlib.metadata import EntryPoint, entry_points

DATA_SOURCES = "keras_pe.data_sources"
"""An entry point with the name of a package opens the objects of that package. It takes an object and returns a
`DataSource`, or None if it does not support the object. An entry point with the name of a suffix, such as ".tfrecord",
takes the name of the data in the report, and the files."""

EXECUTORS = "keras_pe.executors"
"""An entry point has the name of the scheme of an address. It takes the part of the address after "://", and returns a
context manager that yields a `concurrent.futures.Executor`."""

_CONNECTORS, _DATA = "keras_pe.export.connectors", "keras_pe.export.parity.data"
_OURS = (
    EntryPoint("tensorflow", f"{_CONNECTORS}.batches:open_tf_dataset", DATA_SOURCES),
    EntryPoint("keras", f"{_CONNECTORS}.batches:open_py_dataset", DATA_SOURCES),
    EntryPoint("datasets", f"{_CONNECTORS}.hugging_face:open_dataset", DATA_SOURCES),
    EntryPoint(".arrow", f"{_DATA}.table_files:open_arrow", DATA_SOURCES),
    EntryPoint(".csv", f"{_DATA}.table_files:open_csv", DATA_SOURCES),
    EntryPoint(".tsv", f"{_DATA}.table_files:open_csv", DATA_SOURCES),
    EntryPoint(".feather", f"{_DATA}.table_files:open_arrow", DATA_SOURCES),
    EntryPoint(".npy", f"{_DATA}.array_files:open_npy", DATA_SOURCES),
    EntryPoint(".npz", f"{_DATA}.array_files:open_npz", DATA_SOURCES),
    EntryPoint(".parquet", f"{_DATA}.table_files:open_parquet", DATA_SOURCES),
    EntryPoint(".tfrecord", f"{_CONNECTORS}.tfrecord:open_records", DATA_SOURCES),
    EntryPoint("dask", f"{_CONNECTORS}.dask:dask_executor", EXECUTORS),
    EntryPoint("ray", f"{_CONNECTORS}.ray:ray_executor", EXECUTORS),
)


def entry_points_of(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of a group by name, including those of this package, without loading them."""
    ours = [entry for entry in _OURS if entry.group == group]
    return {entry.name: entry for entry in (*entry_points(group=group), *ours)}
