"""Runtimes in child processes, lent to one export after the other: starting one takes as long as a small export."""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runner import Worker

_KEPT = 60.0  # seconds for which a process that nobody borrows is kept: TensorFlow's holds half a GiB


@dataclass(frozen=True)
class _Kind:
    """What is lent: a runtime's name, the seconds that one answer may take, and variables for its process."""

    runtime: str
    timeout: float
    environment: tuple[tuple[str, str], ...] = ()


# A conversion of 2 GiB of weights takes minutes. A GPU may multiply float32 with ten bits, and its memory is not ours.
_TENSORFLOW = _Kind("tensorflow", 3600.0, (("CUDA_VISIBLE_DEVICES", "-1"),))
_ONNXRUNTIME = _Kind("onnxruntime[all]", 600.0)


@dataclass(frozen=True)
class _Kept:
    """A process that nobody borrows, the paths that it imports from, and what will end it."""

    worker: Worker
    paths: tuple[str, ...]
    timer: threading.Timer


_lock = threading.Lock()
# By the process that may borrow it: one that is forked from this one has its own.
_kept: dict[tuple[int, _Kind], _Kept] = {}


def tensorflow_process() -> contextlib.AbstractContextManager[Worker]:
    """Lends a process that has imported TensorFlow or is about to, without a GPU; it runs what its `load` is given.

    Afterwards it is kept for a minute, or until this process ends.
    """
    return _lent(_TENSORFLOW)


def onnxruntime_process() -> contextlib.AbstractContextManager[Worker]:
    """Lends a process that has imported ONNX Runtime or is about to, in the same way."""
    return _lent(_ONNXRUNTIME)


@atexit.register
def end() -> None:
    """Ends the processes that are kept."""
    for kind in (_TENSORFLOW, _ONNXRUNTIME):
        _end(kind)


@contextlib.contextmanager
def _lent(kind: _Kind) -> Iterator[Worker]:
    worker = _take(kind)
    try:
        yield worker
    finally:
        _give_back(kind, worker)


def _end(kind: _Kind) -> None:
    kept = _pop(kind)
    if kept is not None:
        kept.worker.close()


def _pop(kind: _Kind) -> _Kept | None:
    with _lock:
        kept = _kept.pop((os.getpid(), kind), None)
    if kept is not None:
        kept.timer.cancel()
    return kept


def _take(kind: _Kind) -> Worker:
    kept = _pop(kind)
    if kept is not None:
        if kept.worker.is_free and kept.paths == tuple(sys.path):
            return kept.worker
        kept.worker.close()
    return Worker(find_runtimes([kind.runtime])[0], kind.timeout, dict(kind.environment))


def _give_back(kind: _Kind, worker: Worker) -> None:
    """Keeps the process, unless it cannot be lent again or another one is kept already."""
    try:
        if worker.is_free:
            worker.unload()
    except RuntimeFailedError:
        pass
    with _lock:
        if worker.is_free and (os.getpid(), kind) not in _kept:
            timer = threading.Timer(_KEPT, _end, [kind])
            timer.daemon = True
            timer.start()
            _kept[os.getpid(), kind] = _Kept(worker, tuple(sys.path), timer)
            return
    worker.close()
