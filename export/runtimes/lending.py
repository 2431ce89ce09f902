"""TensorFlow in a child process, lent to one export after the other: its import takes longer than a small export."""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker

_TIMEOUT = 3600.0  # seconds for one answer: a conversion of 2 GiB of weights takes minutes
_KEPT = 60.0  # seconds for which a process that nobody borrows is kept: it holds half a GiB
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",  # a GPU may multiply float32 with ten bits, and its memory is the caller's
}


@dataclass(frozen=True)
class _Kept:
    """A process that nobody borrows, the paths that it imports from, and what will end it."""

    worker: Worker
    paths: tuple[str, ...]
    timer: threading.Timer


_lock = threading.Lock()
_kept: dict[int, _Kept] = {}  # by the process that may borrow it: one that is forked from this one has its own


@contextlib.contextmanager
def tensorflow_process() -> Iterator[Worker]:
    """Lends a process that has imported TensorFlow or is about to, without a GPU; it runs what its `load` is given.

    Afterwards it is kept for a minute, or until this process ends.
    """
    worker = _take()
    try:
        yield worker
    finally:
        _give_back(worker)


@atexit.register
def end() -> None:
    """Ends the process that is kept, if there is one."""
    kept = _pop()
    if kept is not None:
        kept.worker.close()


def _pop() -> _Kept | None:
    with _lock:
        kept = _kept.pop(os.getpid(), None)
    if kept is not None:
        kept.timer.cancel()
    return kept


def _take() -> Worker:
    kept = _pop()
    if kept is not None:
        if kept.worker.is_free and kept.paths == tuple(sys.path):
            return kept.worker
        kept.worker.close()
    return Worker(find_runtimes("tensorflow")[0], _TIMEOUT, _ENVIRONMENT)


def _give_back(worker: Worker) -> None:
    """Keeps the process, unless it cannot be lent again or another one is kept already."""
    try:
        if worker.is_free:
            worker.unload()
    except RuntimeFailedError:
        pass
    with _lock:
        if worker.is_free and os.getpid() not in _kept:
            timer = threading.Timer(_KEPT, end)
            timer.daemon = True
            timer.start()
            _kept[os.getpid()] = _Kept(worker, tuple(sys.path), timer)
            return
    worker.close()
