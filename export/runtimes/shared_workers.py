"""Child processes with loaded runtimes that exports share, since a start takes as long as a small export."""

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.processes.process import import_paths
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker

_KEPT = 60.0  # seconds for which a process that nobody borrows is kept: TensorFlow's holds half a GiB


@dataclass(frozen=True)
class _Kept:
    """An idle process, its import paths, and the timer that ends it."""

    worker: Worker
    paths: tuple[str, ...]
    timer: threading.Timer


class Lender:
    """Lends a process that has imported a runtime or is about to; the process runs the arguments of its `load`.

    Afterwards the process is kept for a minute, or until this process ends.
    """

    def __init__(self, runtime: str, timeout: float, environment: Mapping[str, str] | None = None) -> None:
        """Starts nothing yet.

        Args:
            runtime: Its name.
            timeout: Seconds that one answer may take.
            environment: Variables for the process.
        """
        self._runtime, self._timeout, self._environment = runtime, timeout, environment
        self._lock = threading.Lock()
        # By the process that may borrow it: one that is forked from this one has its own.
        self._kept: dict[int, _Kept] = {}

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Worker]:
        worker = self._take()
        try:
            yield worker
        finally:
            self._give_back(worker)

    def end(self) -> None:
        """Ends the process that is kept, if there is one."""
        kept = self._pop()
        if kept is not None:
            kept.worker.close()

    def _pop(self) -> _Kept | None:
        with self._lock:
            kept = self._kept.pop(os.getpid(), None)
        if kept is not None:
            kept.timer.cancel()
        return kept

    def _take(self) -> Worker:
        kept = self._pop()
        if kept is not None:
            if kept.worker.is_free and kept.paths == import_paths():
                return kept.worker
            kept.worker.close()
        return Worker(find_runtimes(self._runtime)[0], self._timeout, self._environment)

    def _give_back(self, worker: Worker) -> None:
        """Keeps the process, unless it cannot be lent again or another one is kept already."""
        with contextlib.suppress(RuntimeFailedError):
            if worker.is_free:
                worker.unload()
        with self._lock:
            if worker.is_free and os.getpid() not in self._kept:
                timer = threading.Timer(_KEPT, self.end)
                timer.daemon = True
                timer.start()
                self._kept[os.getpid()] = _Kept(worker, import_paths(), timer)
                return
        worker.close()


# A conversion of 2 GiB of weights takes minutes. A GPU may multiply float32 with ten bits, and its memory is not ours.
_TENSORFLOW = Lender("tensorflow", 3600.0, {"CUDA_VISIBLE_DEVICES": "-1"})
_ONNXRUNTIME = Lender("onnxruntime[all]", 600.0)


def tensorflow_process() -> contextlib.AbstractContextManager[Worker]:
    """Lends the process of TensorFlow. As a function it may be named to another process, which lends its own."""
    return _TENSORFLOW()


def onnxruntime_process() -> contextlib.AbstractContextManager[Worker]:
    """Lends the process of ONNX Runtime, likewise."""
    return _ONNXRUNTIME()


@atexit.register
def end() -> None:
    """Ends the processes that are kept."""
    _TENSORFLOW.end()
    _ONNXRUNTIME.end()
