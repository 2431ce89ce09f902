"""Runs one artifact in a runtime's own process, and restarts the process after it ended.

The runner narrows a crash or a refusal of a runtime down to the rows that cause it.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keras_pe.export.comparison.name_matching import cast_to_runtime_floats, runner_names
from keras_pe.export.errors import RuntimeDiedError, RuntimeFailedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.parity.data.batching import fixed_size, run_whole_batches
from keras_pe.export.parity.data.pieces import count
from keras_pe.export.parity.work.sequence_calls import SequenceCalls
from keras_pe.export.parity.work.worker_input import Target
from keras_pe.export.results import NameMatch
from keras_pe.export.runtimes.runner import Names
from keras_pe.export.runtimes.runtime import Array, Arrays
from keras_pe.export.runtimes.worker import Worker

MAX_DEATHS = 32
"""After this number of deaths in one shard, the process is not restarted for single rows of the shard."""

_ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
"""Variables that TensorFlow reads at its start. One thread suffices, since there are as many workers as processors."""


@dataclass(frozen=True)
class Answer:
    """A runtime's answer to some rows of a batch.

    Attributes:
        rows: The indices of the rows in the batch.
        outputs: The outputs by name; None if the runtime returned none.
        message: The error of the runtime, if it returned no outputs.
    """

    rows: slice
    outputs: Arrays | None
    message: str = ""


class TargetRunner:
    """An artifact in a runtime that is restarted after its process ended. The process starts importing at once.

    Attributes:
        path: The artifact.
        worker: The process of the runtime.
        calls: The calls of a row; None if a row is one call.
    """

    def __init__(self, target: Target, timeout: float) -> None:
        self.path = target.path
        self.worker = Worker(target.spec, timeout, one_thread_environment())
        self.calls: SequenceCalls | None = None
        self._deaths = 0
        self._seconds = 0.0  # time of the runs before the last load of the artifact
        self._is_loaded = False
        self._names = Names()
        self._precision: str | None = None

    @property
    def seconds(self) -> float:
        """The total time of the runs inside the runtime, in seconds."""
        return self._seconds + self.worker.seconds

    def begin_shard(self, names: Sequence[NameMatch], precision: str | None) -> None:
        """Resets the count of deaths, and sets the names of the artifact and the precision of the inputs."""
        self._deaths, self._names, self._precision = 0, runner_names(names), precision

    def load(self) -> None:
        """Loads the artifact, unless it is loaded and its process is alive.

        Raises:
            RuntimeFailedError: If the artifact does not load.
        """
        if not self._is_loaded:
            self._seconds += self.worker.seconds
            self.worker.load(self.path)
            self._is_loaded = True
        self.worker.names = self._names

    def run(self, inputs: Mapping[str, Array]) -> list[Answer]:
        """Returns answers to all rows of a batch, in order.

        If the batch as a whole fails, the runner tries its halves, down to single rows. It does not try them if the
        runtime hangs, or if the first and the last row alone fail too. The whole batch then has no answer.
        """
        total = count(inputs)
        answer, error = self._ask(inputs, slice(0, total))
        if answer is not None:
            return [answer]
        whole = [Answer(slice(0, total), None, str(error))]
        if total == 1 or isinstance(error, RuntimeHungError):
            return whole
        ends = [self._ask(inputs, slice(row, row + 1))[0] for row in (0, total - 1)]
        if ends[0] is None and ends[1] is None:
            return whole
        return self._narrow(inputs, 0, total, str(error))

    def run_all(self, batches: Sequence[Mapping[str, Array]]) -> list[list[Answer]]:
        """Returns the answers of `run` for each batch, by one request if the runtime answers all of them."""
        with contextlib.suppress(RuntimeFailedError):
            self.load()
            if self.calls is None and len(batches) > 1 and fixed_size(self.worker.inputs) is None:
                try:
                    answers = self.worker.run_all([self._cast_to_runtime_floats(inputs) for inputs in batches])
                except (RuntimeDiedError, RuntimeHungError):
                    self._is_loaded = False
                    raise
                pairs = zip(batches, answers, strict=True)
                return [[Answer(slice(0, count(inputs)), outputs)] for inputs, outputs in pairs]
        return [self.run(inputs) for inputs in batches]

    def _narrow(self, inputs: Mapping[str, Array], start: int, stop: int, message: str) -> list[Answer]:
        """Returns the answers to rows that fail together, by trying their halves."""
        if stop - start == 1 or self._deaths >= MAX_DEATHS:
            return [Answer(slice(start, stop), None, message)]
        middle = (start + stop) // 2
        answers: list[Answer] = []
        for first, last in ((start, middle), (middle, stop)):
            answer, error = self._ask(inputs, slice(first, last))
            answers += [answer] if answer is not None else self._narrow(inputs, first, last, str(error))
        return answers

    def _ask(self, inputs: Mapping[str, Array], rows: slice) -> tuple[Answer | None, RuntimeFailedError | None]:
        try:
            self.load()
            part = self._cast_to_runtime_floats({name: array[rows] for name, array in inputs.items()})
            if self.calls is None:
                return Answer(rows, run_whole_batches(self.worker.run, self.worker.inputs, part)), None
            run = self.calls.split_into_calls(self.worker.run)
            return Answer(rows, run_whole_batches(run, self.calls.inputs, part)), None
        except RuntimeRefusedError as error:
            return None, error
        except (RuntimeDiedError, RuntimeHungError) as error:
            self._deaths += 1
            self._is_loaded = False
            return None, error

    def _cast_to_runtime_floats(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return cast_to_runtime_floats(self.worker, inputs, self._precision)


def one_thread_environment() -> dict[str, str]:
    """Returns the environment in which TensorFlow uses one thread, without variables that are already set."""
    return {name: value for name, value in _ONE_THREAD.items() if name not in os.environ}
