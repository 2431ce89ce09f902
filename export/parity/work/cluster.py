"""The executor of a cluster, by its address."""

from concurrent.futures import Executor
from contextlib import AbstractContextManager

from keras_pe.export.parity.plugins import EXECUTORS, registered


def cluster_executor(address: str) -> AbstractContextManager[Executor]:
    """Returns a context whose value is the executor of a running cluster.

    Args:
        address: "dask://HOST:PORT" of a scheduler, "ray://HOST:PORT" of a Ray client server, "ray://" for Ray on this
            machine, or an address of what is registered as `keras_pe.executors`.

    Raises:
        ValueError: If the address is of another kind.
        ImportError: If the package is not installed.
        OSError: If nobody answers there.
    """
    connectors = registered(EXECUTORS)
    scheme, found, place = address.partition("://")
    if not found or scheme not in connectors:
        known = ", ".join(f"{name}://HOST:PORT" for name in sorted(connectors))
        raise ValueError(f"`cluster` must be one of {known}. Received: {address!r}.")
    executor: AbstractContextManager[Executor] = connectors[scheme].load()(place)
    return executor
