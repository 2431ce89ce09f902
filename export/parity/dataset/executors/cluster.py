"""The executor of a cluster, by its address."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor

from keras_pe.export.dependencies import require


@contextlib.contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """Yields the executor of a running cluster, and lets go of the connection, not of the cluster, at the end.

    Args:
        address: "dask://HOST:PORT" of a scheduler, "ray://HOST:PORT" of a Ray client server, or "ray://" for Ray on
            this machine, which is started if it does not run.

    Raises:
        ValueError: If the address is of another kind.
        ImportError: If the package is not installed.
        OSError: If nobody answers there.
    """
    scheme, _, place = address.partition("://")
    if scheme == "dask" and place:
        require("check_dataset", "distributed", extra="dask")
        from distributed import Client

        with Client(f"tcp://{place}", set_as_default=False) as client:
            yield client.get_executor()
    elif scheme == "ray":
        require("check_dataset", "ray", extra="ray")
        import ray

        from keras_pe.export.parity.dataset.executors.ray import RayExecutor

        is_ours = not ray.is_initialized()
        if is_ours:
            ray.init(address if place else None, log_to_driver=False, include_dashboard=False, configure_logging=False)
        executor = RayExecutor()
        try:
            yield executor
        finally:
            executor.shutdown()
            if is_ours:
                ray.shutdown()
    else:
        raise ValueError(f"`cluster` must be dask://HOST:PORT or ray://HOST:PORT. Received: {address!r}.")
