"""Runs shards in the calling thread, in processes on this machine, or on a cluster given by its address."""

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.errors import ProcessDiedError
from keras_pe.export.parity.plugins import EXECUTORS, entry_points_of
from keras_pe.export.processes.process import Child

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerDiedError(BrokenExecutor):
    """A worker process ended during a task. The next task gets a new process."""


class ProcessPool(Executor):
    """Runs functions in processes, which keep their loaded objects from task to task.

    A process that dies fails only its own task, and the next task gets a new process. The processes do not run the
    caller's main module again, so the pool works in an unchanged script or notebook. `shutdown(wait=False)` ends
    running tasks. Functions are sent by name.

    `concurrent.futures.ProcessPoolExecutor` (Python 3.11) has none of these three properties. loky 3.7 has the second
    and the third. But a process of loky that dies fails every task in flight (`TerminatedWorkerError`) and the pool. A
    row that kills a runtime would then fail the rows of other shards.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="shard")
        self._own = threading.local()  # the process of each thread
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        return self._threads.submit(self._run, fn, args, kwargs)

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        with self._lock:
            return [child.pid for child in self._children]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes. Running tasks are lost unless `wait` is true."""
        if not wait:
            # Waiting tasks must be cancelled before the processes end. Otherwise a thread starts a new process for one.
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._close_all()
        self._threads.shutdown(wait=True, cancel_futures=cancel_futures)
        self._close_all()

    def _run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        child: Child | None = getattr(self._own, "child", None)
        if child is None:
            child = self._own.child = self._start_child()
        try:
            return child.ask("call", partial(fn, *args, **kwargs))
        except ProcessDiedError as error:
            raise WorkerDiedError(str(error)) from None
        finally:
            if not child.is_free:
                self._own.child = None
                child.close()
                with self._lock:
                    self._children.discard(child)

    def _start_child(self) -> Child:
        child = Child("importlib:import_module", "operator", name="a worker process")  # it has `operator.call`
        with self._lock:
            if not self._is_closed:
                self._children.add(child)
                return child
        child.close()
        raise WorkerDiedError("the processes were ended while this one started")

    def _close_all(self) -> None:
        with self._lock:
            self._is_closed = True
            children, self._children = self._children, set()
        for child in children:
            child.close()


class Here(Executor):
    """Runs a function on submission, and returns a finished future."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # the future raises the error for its reader
            future.set_exception(error)
        return future


def cluster_executor(address: str) -> AbstractContextManager[Executor]:
    """Returns a context whose value is the executor of a running cluster.

    Args:
        address: "dask://HOST:PORT" of a scheduler, "ray://HOST:PORT" of a Ray client server, or "ray://" for Ray on
            this machine. Entry points of the group `keras_pe.executors` add other schemes.

    Raises:
        ValueError: If the scheme of the address is unknown.
        ImportError: If the package is not installed.
        OSError: If no cluster answers at the address.
    """
    connectors = entry_points_of(EXECUTORS)
    scheme, found, place = address.partition("://")
    if not found or scheme not in connectors:
        known = ", ".join(f"{name}://HOST:PORT" for name in sorted(connectors))
        raise ArgValueError("cluster", f"must be one of {known}. Received: {address!r}.")
    executor: AbstractContextManager[Executor] = connectors[scheme].load()(place)
    return executor
