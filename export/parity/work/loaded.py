"""What a worker keeps from shard to shard: the reference and the runtimes, loaded once."""

import atexit
import contextlib
import importlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.opening import open_reference
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.errors import RuntimeFailedError, first_line, sentence
from keras_pe.export.model.saved_file import is_saved_model, load_model
from keras_pe.export.parity.data.batching import Batch, in_whole_batches, whole_parts
from keras_pe.export.parity.work.executors import Here
from keras_pe.export.parity.work.job import Job, Target
from keras_pe.export.parity.work.target import Answer, TargetRunner, one_thread
from keras_pe.export.runtimes.runtime import Array, Arrays

_here: dict[str, Any] = {}  # models of this process, by the key of the reference
_kept: list["Session"] = []  # at most one: the one that was used last
_turn = threading.RLock()  # a worker with several threads runs one shard at a time


class Session:
    """The reference of a job and its runtimes, each in a process of its own that may crash."""

    def __init__(self, job: Job) -> None:
        self.key = job.session_key
        is_here = job.reference.key in _here
        self.targets = {target.key: TargetRunner(target, job.timeout) for target in job.targets}
        try:
            with contextlib.nullcontext() if is_here or not job.one_thread else _one_thread():
                self.reference = _open_reference(job)
        except BaseException:
            self.close()
            raise
        # The caller compares one batch while the reference computes the next. A model of this process stays in the
        # thread of its owner: its settings may be that thread's alone.
        self._caller: Executor = Here() if is_here else ThreadPoolExecutor(1, thread_name_prefix="reference")
        # One thread each: a runtime has its next batch at hand when it is done with the one before.
        self._threads = {key: ThreadPoolExecutor(1, thread_name_prefix="runtime") for key in self.targets}

    def ask(
        self, batches: Sequence[Batch], targets: tuple[Target, ...], in_float32: Set[str]
    ) -> tuple[dict[str, Future[list[Arrays]]], dict[str, Future[list[list[Answer]]]]]:
        """Returns what the reference will say to each batch, and each runtime, which computes at the same time.

        Args:
            batches: What to ask.
            targets: The runtimes.
            in_float32: The keys of those that are measured against the float32 rebuild.

        Returns:
            What each runtime is measured against, and what it says, by its key.
        """
        inputs = [batch.inputs for batch in batches]
        answers = {t.key: self._threads[t.key].submit(self.targets[t.key].run_all, inputs) for t in targets}
        keys = {is_wide: [key for key in answers if (key in in_float32) == is_wide] for is_wide in (False, True)}
        expected = {is_wide: self._caller.submit(self._run_all, inputs, is_wide) for is_wide in keys if keys[is_wide]}
        return {key: expected[key in in_float32] for key in answers}, answers

    def run(self, inputs: Mapping[str, Array], *, in_float32: bool = False) -> Arrays:
        """Returns what the reference or its float32 rebuild says, after what it was asked before."""
        return self._caller.submit(self._run_all, [inputs], in_float32).result()[0]

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns what the reference's float64 rebuild says, after what it was asked before."""
        return self._caller.submit(in_whole_batches, self.reference.truth, self.reference.inputs, inputs).result()

    def noise(self, samples: Sequence[Arrays], precision: str | None) -> Sequence[Mapping[str, Array]]:
        """Returns the noise floors next to some rows, by output: in the model's precision, or in an accepted one."""
        parts = [whole_parts(self.reference.inputs, inputs) for inputs in samples]
        cases = [Case("rows of the data", part, "") for group in parts for part in group]
        found = iter(self._caller.submit(self.reference.noise, cases, precision).result())
        groups = [[next(found) for _ in group] for group in parts]
        known = [set.intersection(*map(set, group)) for group in groups]
        return [
            {name: np.maximum.reduce([each[name] for each in group]) for name in names}
            for names, group in zip(known, groups, strict=True)
        ]

    def make_rebuilds(self) -> bool:
        """Makes the reference's rebuilds, and returns whether there is one in float32."""
        return self._caller.submit(lambda: self.reference.float32_model is not None).result()

    def _run_all(self, batches: Sequence[Mapping[str, Array]], in_float32: bool) -> list[Arrays]:
        run = self.reference.expect_in_float32 if in_float32 else self.reference.expect
        return [in_whole_batches(run, self.reference.inputs, inputs) for inputs in batches]

    def close(self) -> None:
        """Ends the processes."""
        if hasattr(self, "_threads"):
            for thread in (self._caller, *self._threads.values()):
                thread.shutdown()
            self.reference.close()
        for target in self.targets.values():
            target.close()


@contextlib.contextmanager
def session_of(job: Job) -> Iterator[Session]:
    """Yields the session of a job, to one thread at a time: the one that is loaded, or a new one in its place."""
    with _turn:
        if not _kept or _kept[0].key != job.session_key:
            close_session()
            _kept.append(Session(job))
        yield _kept[0]


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


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Has TensorFlow take one thread, as in any other worker, if it starts now.

    How a sum is split among threads can decide its last digit. What the environment says already stands.
    """
    added = one_thread()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _open_reference(job: Job) -> Reference:
    path = job.reference.path
    model = _here.get(job.reference.key)
    if model is None:
        model = _load_model(path, job.reference.modules) if is_saved_model(path) else path
    told_by = [target.path for target in job.targets]
    try:
        return open_reference(model, job.input_signature, job.timeout, told_by=told_by, compiled=True)
    except RuntimeFailedError as error:
        raise ValueError(sentence(f"`model` must load. Received: {path}, which does not: {error}")) from error


def _load_model(path: Path, modules: Sequence[str]) -> Any:
    """Opens a `.keras` file, once the modules that register its layers are imported.

    Raises:
        ValueError: If Keras cannot make the model, in a process that knows no more than the file.
    """
    try:
        for module in modules:
            importlib.import_module(module)
        return load_model(path)
    except Exception as error:  # whatever a module raises, or the file
        raise ValueError(
            f"The model must load in a process of its own. Received: {path}, which does not ({first_line(error)}). "
            "Put the code of its layers into a module that can be imported and register it with Keras, or run the "
            "check in this process: workers=0."
        ) from error
