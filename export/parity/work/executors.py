"""Where shards are run: in the thread that asks, in processes on this machine, or on a cluster, by its address."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from keras_pe.export.errors import ProcessDiedError
from keras_pe.export.parity.plugins import EXECUTORS, entry_points_of
from keras_pe.export.processes.process import Child

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerDiedError(BrokenExecutor):
    """A worker process ended while it had a task. The next task gets a new process."""


class ProcessPool(Executor):
    """Runs functions in processes of their own, which keep what they have loaded from task to task.

    A process that dies costs its own task alone, and the next task gets a new process; the caller's main module is not
    run again, so the pool works in a script or a notebook as they stand; `shutdown(wait=False)` ends what is running.
    `concurrent.futures.ProcessPoolExecutor` (Python 3.11) offers none of these. loky 3.7 offers the second and the
    third, but one process that dies fails every task in flight (`TerminatedWorkerError`) and the pool with them: rows
    that a runtime does not survive would count against their neighbors. Functions travel by name.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="shard")
        self._idle: queue.SimpleQueue[Child | None] = queue.SimpleQueue()
        self._children: set[Child] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        for _ in range(workers):
            self._idle.put(None)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        return self._threads.submit(self._run, fn, args, kwargs)

    @property
    def pids(self) -> list[int]:
        """The processes that are running."""
        with self._lock:
            return [child.pid for child in self._children]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes. What they are at is lost unless `wait` is true."""
        if not wait:
            # What waits is cancelled before processes end: whoever had one would begin the next task with a new one.
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._close_all()
        self._threads.shutdown(wait=True, cancel_futures=cancel_futures)
        self._close_all()

    def _run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        child = self._idle.get()
        try:
            if child is None:
                child = self._started()
            return child.ask("run", fn, args, kwargs)
        except ProcessDiedError as error:
            raise WorkerDiedError(str(error)) from None
        finally:
            if child is not None and not child.is_free:
                child.close()
                with self._lock:
                    self._children.discard(child)
                child = None
            self._idle.put(child)

    def _started(self) -> Child:
        child = Child(f"{__name__}:Tasks", name="a worker process")
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


class Tasks:
    """What stands in a process: runs functions."""

    def run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return fn(*args, **kwargs)


class Here(Executor):
    """Runs a function when it is submitted, and returns a future that is done."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # the future's to tell
            future.set_exception(error)
        return future


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
    connectors = entry_points_of(EXECUTORS)
    scheme, found, place = address.partition("://")
    if not found or scheme not in connectors:
        known = ", ".join(f"{name}://HOST:PORT" for name in sorted(connectors))
        raise ValueError(f"`cluster` must be one of {known}. Received: {address!r}.")
    executor: AbstractContextManager[Executor] = connectors[scheme].load()(place)
    return executor
