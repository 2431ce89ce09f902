"""Worker processes on this machine, as an executor: one that dies costs its task, not the others."""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class WorkerDiedError(BrokenExecutor):
    """A worker process ended while it had a task. The next task gets a new process."""


class ProcessPool(Executor):
    """Runs functions in processes of their own, which keep what they have loaded from task to task.

    Other than `concurrent.futures.ProcessPoolExecutor` it goes on where a process dies, and does not run the caller's
    main module again, so it works in a script or a notebook as they stand. Functions travel by name.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="shard")
        self._idle: queue.SimpleQueue[_Child | None] = queue.SimpleQueue()
        self._children: set[_Child] = set()
        self._lock = threading.Lock()
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
            self._close_all()
        self._threads.shutdown(wait=True, cancel_futures=cancel_futures or not wait)
        self._close_all()

    def _run(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        child = self._idle.get()
        try:
            if child is None:
                child = _Child()
                with self._lock:
                    self._children.add(child)
            answer = child.call(fn, args, kwargs)
        except WorkerDiedError:
            assert child is not None
            child.close()
            with self._lock:
                self._children.discard(child)
            child = None
            raise
        finally:
            self._idle.put(child)
        status, value = answer
        if status == "error":
            raise value
        return value

    def _close_all(self) -> None:
        with self._lock:
            children, self._children = self._children, set()
        for child in children:
            child.close()


class _Child:
    """One process."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__package__}.child import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
        )
        self.pid = self._process.pid

    def call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        content = pickle.dumps((fn, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            self._process.stdin.write(content)
            self._process.stdin.flush()
            answer: tuple[str, Any] = pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            code = self._process.wait()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            said = f": {' | '.join(lines[-3:])}" if lines and code > 0 else ""
            raise WorkerDiedError(f"a worker process ended with {how}{said}") from None
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what it was sent last is still in the buffer
                    stream.close()
        self._log.close()
