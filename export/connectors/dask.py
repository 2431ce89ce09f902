"""The connector to Dask: an executor for a cluster, by the address of its scheduler."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor


@contextlib.contextmanager
def dask_executor(place: str) -> Iterator[Executor]:
    """Yields the executor of a running cluster, and lets go of the connection, not of the cluster, at the end.

    Args:
        place: HOST:PORT of the scheduler.

    Raises:
        ValueError: If the place is missing.
        ImportError: If the package is not installed.
        OSError: If nobody answers there.
    """
    if not place:
        raise ValueError("`cluster` must be dask://HOST:PORT, the address of a scheduler. Received: no address.")
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "dask:// needs the package 'distributed'. Install it with: pip install 'keras-pe[dask]'"
        ) from error
    with Client(f"tcp://{place}", set_as_default=False) as client:
        yield client.get_executor()
