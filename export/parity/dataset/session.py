"""What a worker keeps from shard to shard: the reference and the runtimes, loaded once."""

import atexit
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.dataset.batching import Batch
from keras_pe.export.parity.dataset.job import Job, Target
from keras_pe.export.parity.dataset.reference import ArtifactRows, KerasRows, RowReference
from keras_pe.export.parity.dataset.target import Answer, TargetRunner
from keras_pe.export.runtimes.runtime import Arrays

_here: dict[str, Any] = {}  # models of this process, by the key of the reference
_kept: list["Session"] = []  # at most one: the one that was used last
_turn = threading.RLock()  # a worker with several threads runs one shard at a time


class Session:
    """The reference of a job and its runtimes, each in a process of its own that may crash."""

    def __init__(self, job: Job) -> None:
        self.key = job.session_key
        if job.reference_key not in _here:
            # As many threads as in any other worker: how a sum is split among them can decide its last digit. What a
            # runtime's process imports, it inherits.
            os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
            os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
        self.targets = {target.key: TargetRunner(target, job.timeout) for target in job.targets}
        try:
            self.reference = _open_reference(job)
        except BaseException:
            self.close()
            raise
        # One thread each: a runtime has its next batch at hand when it is done with the one before.
        self._threads = {key: ThreadPoolExecutor(1, thread_name_prefix="runtime") for key in self.targets}

    def ask(self, batch: Batch, targets: tuple[Target, ...]) -> tuple[Arrays, dict[str, Future[list[Answer]]]]:
        """Returns what the reference says, and what each runtime will say, which computes at the same time.

        Raises:
            Exception: The reference's own error, if it refuses the batch.
        """
        answers = {t.key: self._threads[t.key].submit(self.targets[t.key].run, batch.inputs) for t in targets}
        try:
            return self.reference.run(batch.inputs), answers
        except Exception:
            wait(answers.values())
            raise

    def close(self) -> None:
        """Ends the processes."""
        if hasattr(self, "_threads"):
            for thread in self._threads.values():
                thread.shutdown()
            self.reference.close()
        for target in self.targets.values():
            target.close()


class _Turn:
    """The session of a job, for one thread at a time."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __enter__(self) -> Session:
        _turn.acquire()
        try:
            if not _kept or _kept[0].key != self._job.session_key:
                close_session()
                _kept.append(Session(self._job))
            return _kept[0]
        except BaseException:
            _turn.release()
            raise

    def __exit__(self, *error: object) -> None:
        _turn.release()


def session_of(job: Job) -> _Turn:
    """Returns a context whose value is the session of a job: the one that is loaded, or a new one in its place."""
    return _Turn(job)


def close_session() -> None:
    """Lets go of what this process has loaded."""
    with _turn:
        while _kept:
            _kept.pop().close()


atexit.register(close_session)  # the runtimes' processes end before this one


def offer_model(key: str, model: Any) -> None:
    """Has this process take the model itself where a job names it."""
    _here[key] = model


def withdraw_model(key: str) -> None:
    """Forgets an offered model."""
    _here.pop(key, None)


def _open_reference(job: Job) -> RowReference:
    if job.reference_key in _here:
        return KerasRows(_here[job.reference_key], job.input_signature)
    if job.reference_runtime is not None:
        try:
            return ArtifactRows(job.reference, job.reference_runtime, job.timeout)
        except RuntimeFailedError as error:
            raise ValueError(f"`model` must load. Received: {job.reference}, which does not: {error}.") from error
    return KerasRows.load(job.reference, job.input_signature)
