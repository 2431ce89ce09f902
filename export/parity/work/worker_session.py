"""The objects that a worker keeps from shard to shard: the reference and the runtimes, each loaded once."""

import atexit
import contextlib
import importlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.interface import Interface, known_interface
from keras_pe.export.comparison.references.opening import is_path, open_reference
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.streams import Run, run_in_float64
from keras_pe.export.errors import (
    RuntimeFailedError,
    describe,
    first_line,
    sentence,
)
from keras_pe.export.model.saved_file import KERAS_SUFFIXES, MissingCodeError, load_model, why_not_loaded
from keras_pe.export.model.watch.keras_internals import python_code_allowed
from keras_pe.export.parity.data.batching import Batch, run_whole_batches, whole_parts
from keras_pe.export.parity.data.pieces import count
from keras_pe.export.parity.work.executors import Here
from keras_pe.export.parity.work.sequence_calls import SequenceCalls
from keras_pe.export.parity.work.target_runner import Answer, TargetRunner, one_thread_environment
from keras_pe.export.parity.work.worker_input import Job, OpenedModel, Target
from keras_pe.export.runtimes.runtime import Array, Arrays

_here: dict[str, Any] = {}  # models in the memory of this process, by the key of the reference
_kept: list["Session"] = []  # the last used session, or none
_turn = threading.RLock()  # a worker with several threads runs one shard at a time
_of_parent: list["Session"] = []  # sessions of the parent of a forked process, whose processes and threads are not here


class Session:
    """The reference of a job and its runtimes, each runtime in a separate process that may crash.

    Attributes:
        key: Jobs with an equal key share the session.
        reference: The model.
        calls: The calls of a row; None if a row is one call, since the model has no state.
        targets: The artifacts in their runtimes, by key.
        close: Ends the processes.
    """

    def __init__(self, job: Job) -> None:
        self.key = job.session_key
        is_here = job.reference.key in _here
        with ExitStack() as stack:
            self.targets = {target.key: TargetRunner(target, job.timeout) for target in job.targets}
            for target in self.targets.values():
                stack.callback(target.worker.close)
            with contextlib.nullcontext() if is_here or not job.one_thread else _on_one_thread():
                self.reference = stack.enter_context(_open_reference(job))
            self.calls = SequenceCalls.find_calls(self.reference)
            for target in self.targets.values():
                target.calls = self.calls
            # The caller compares one batch while the reference computes the next. A model of this process must run in
            # the thread of its owner, since Keras settings can be local to a thread.
            caller: Executor = Here() if is_here else ThreadPoolExecutor(1, thread_name_prefix="reference")
            self._caller = stack.enter_context(caller)
            # Each runtime has its own thread, so that its next batch waits when it finishes one.
            threads = {key: ThreadPoolExecutor(1, thread_name_prefix="runtime") for key in self.targets}
            self._threads = {key: stack.enter_context(thread) for key, thread in threads.items()}
            self.close = stack.pop_all().close

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs of a row."""
        return self.reference.inputs if self.calls is None else self.calls.inputs

    def ask(
        self, batches: Sequence[Batch], targets: tuple[Target, ...], in_float32: Set[str]
    ) -> tuple[dict[str, Future[list[Arrays]]], dict[str, Future[list[list[Answer]]]]]:
        """Returns the expected outputs and the answers of each runtime, by its key. Both compute at the same time.

        Args:
            batches: The batches to run.
            targets: The runtimes.
            in_float32: The keys of runtimes whose reference is the float32 rebuild.
        """
        inputs = [batch.inputs for batch in batches]
        answers = {t.key: self._threads[t.key].submit(self.targets[t.key].run_all, inputs) for t in targets}
        keys = {is_wide: [key for key in answers if (key in in_float32) == is_wide] for is_wide in (False, True)}
        expected = {is_wide: self._caller.submit(self._run_all, inputs, is_wide) for is_wide in keys if keys[is_wide]}
        return {key: expected[key in in_float32] for key in answers}, answers

    def run(self, inputs: Mapping[str, Array], *, in_float32: bool = False) -> Arrays:
        """Returns the outputs of the reference, or of its float32 rebuild, after earlier requests have finished."""
        return self._caller.submit(self._run_all, [inputs], in_float32).result()[0]

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the outputs of the reference's float64 rebuild, after earlier requests have finished."""
        run: Run = self.reference.truth
        if self.calls is not None:
            run = self.calls.split_into_calls(partial(run_in_float64, self.reference))
        return self._caller.submit(run_whole_batches, run, self.inputs, inputs).result()

    def noise(self, samples: Sequence[Arrays], precision: str | None) -> Sequence[Mapping[str, Array]]:
        """Returns the noise floors of each row of some samples, by output, or of each value in an accepted precision.

        The floor of a row does not depend on the other rows.
        """
        if self.calls is not None:
            return [{} for _ in samples]  # the noise of one call is not that of a sequence
        parts = [whole_parts(self.reference.inputs, inputs) for inputs in samples]
        cases = [Case("rows of the data", part, "") for group in parts for part in group]
        measured = partial(self.reference.noise, cases, precision, by_row=True)
        found = iter(self._caller.submit(measured).result())
        groups = [[next(found) for _ in group] for group in parts]
        known = [set.intersection(*map(set, group)) for group in groups]
        return [
            {name: np.concatenate([each[name] for each in group])[: count(inputs)] for name in names}
            for names, group, inputs in zip(known, groups, samples, strict=True)
        ]

    def make_rebuilds(self) -> bool:
        """Makes the reference's rebuilds, and returns whether there is a float32 rebuild."""
        return self._caller.submit(lambda: self.reference.float32_model is not None).result()

    def _run_all(self, batches: Sequence[Mapping[str, Array]], in_float32: bool) -> list[Arrays]:
        run: Run = self.reference.expect_in_float32 if in_float32 else self.reference.expect
        run = run if self.calls is None else self.calls.split_into_calls(run)
        return [run_whole_batches(run, self.inputs, inputs) for inputs in batches]


@contextlib.contextmanager
def session_of(job: Job) -> Iterator[Session]:
    """Yields the session of a job, to one thread at a time. Loads a new session unless the current one fits."""
    with _turn:
        if not _kept or _kept[0].key != job.session_key:
            close_session()
            _kept.append(Session(job))
        yield _kept[0]


def close_session() -> None:
    """Closes the session of this process."""
    with _turn:
        while _kept:
            _kept.pop().close()


atexit.register(close_session)  # ends the runtimes' processes before this process ends


def _forget_those_of_parent() -> None:
    global _turn
    _of_parent.extend(_kept)  # kept alive, since a deleted session would end the processes of the parent
    _kept.clear()
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_those_of_parent)


@contextlib.contextmanager
def model_of_this_process(key: str, model: Any) -> Iterator[None]:
    """Makes this process use the model in memory for jobs with this key."""
    _here[key] = model
    try:
        yield
    finally:
        _here.pop(key, None)
        close_session()


@contextlib.contextmanager
def _on_one_thread() -> Iterator[None]:
    """Limits TensorFlow to one thread, as in any other worker, if it starts inside this context.

    The division of a sum among threads can change the last digit.
    """
    added = one_thread_environment()
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
        is_keras = path.suffix in KERAS_SUFFIXES
        model = _load_model(job.reference, job.one_thread) if is_keras else path
    recorded_in = [target.path for target in job.targets]
    try:
        interface = None if is_path(model) else _shared_interface(job, model)
        options: dict[str, Any] = {"recorded_in": recorded_in, "interface": interface, "compiled": True}
        return open_reference(model, job.input_signature, job.timeout, **options)
    except RuntimeFailedError as error:
        raise ValueError(sentence(f"`model` must load. Received: {path}, which does not: {error}")) from error


def _shared_interface(job: Job, model: Any) -> Interface | None:
    """Returns the interface between the model and all artifacts of a job.

    Raises:
        ValueError: If the borders or the fixed sizes of the artifacts differ, or a record cannot be read.
    """
    interfaces = {known_interface(target.path, job.border, model): target.path for target in job.targets}
    if len(interfaces) > 1:
        named = ", ".join(map(str, interfaces.values()))
        raise ArgValueError(
            "artifacts", f"must have one border and fix the same sizes. Received: {named}. Check them one by one."
        )
    return next(iter(interfaces), None)


def _load_model(opened: OpenedModel, is_worker: bool) -> Any:
    """Opens a `.keras` file after importing the modules that register its layers.

    Raises:
        ValueError: If Keras cannot build the model from the file, or a module of its layers cannot be imported.
    """
    try:
        for module in opened.modules:
            _import(module)
        with python_code_allowed() if opened.allows_code else contextlib.nullcontext():
            return load_model(opened.path)
    except MissingCodeError as error:
        if not is_worker:
            raise
        text = why_not_loaded(error.__cause__, opened.path, "") if error.__cause__ else first_line(error)
        raise ValueError(
            f"The model must load in a subprocess. Received: {opened.path}, which does not ({text.rstrip('. ')}). Put "
            "the code of its layers into an importable module, and register it with Keras. Or run the check in this "
            "process: workers=0."
        ) from error


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a module may raise any error on import
        raise MissingCodeError(f"the subprocess cannot import its module {module!r}: {describe(error)}") from None
