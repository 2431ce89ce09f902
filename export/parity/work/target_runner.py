"""One artifact in a runtime's own process, which is started again after it ended.

A crash or a refusal of a runtime is narrowed down to the rows that cause it.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keras_pe.export.comparison.matching import as_names, in_its_floats
from keras_pe.export.errors import RuntimeDiedError, RuntimeFailedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.parity.data.batching import fixed_size, in_whole_batches
from keras_pe.export.parity.data.shards import count
from keras_pe.export.parity.work.job import Target
from keras_pe.export.results import NameMatch
from keras_pe.export.runtimes.runner import Names, Worker
from keras_pe.export.runtimes.runtime import Array, Arrays

MAX_DEATHS = 32
"""A process that has ended so often in one shard is not started again for single rows of that shard."""

_ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
"""What TensorFlow reads when it starts: there are as many workers as processors."""


@dataclass(frozen=True)
class Answer:
    """What a runtime says to some rows of a batch.

    Attributes:
        rows: Which, by their place in the batch.
        outputs: By name, None where it gave none.
        message: Its error, where it gave none.
    """

    rows: slice
    outputs: Arrays | None
    message: str = ""


class TargetRunner:
    """An artifact in a runtime that is started again where it ended. The process starts importing at once.

    Attributes:
        path: The artifact.
        worker: What runs it.
    """

    def __init__(self, target: Target, timeout: float) -> None:
        self.path = target.path
        self.worker = Worker(target.spec, timeout, one_thread_environment())
        self._deaths = 0
        self._seconds = 0.0  # of the runs before the artifact was loaded again
        self._is_loaded = False
        self._names = Names()
        self._precision: str | None = None

    @property
    def seconds(self) -> float:
        """What the runs took inside the runtime."""
        return self._seconds + self.worker.seconds

    def begin_shard(self, names: Sequence[NameMatch], precision: str | None) -> None:
        """Forgets how often the process has ended, and takes up other names, and a precision that inputs may have."""
        self._deaths, self._names, self._precision = 0, as_names(names), precision

    def load(self) -> None:
        """Loads the artifact if that was not done, or its process has ended.

        Raises:
            RuntimeFailedError: If it does not load.
        """
        if not self._is_loaded:
            self._seconds += self.worker.seconds
            self.worker.load(self.path)
            self._is_loaded = True
        self.worker.names = self._names

    def run(self, inputs: Mapping[str, Array]) -> list[Answer]:
        """Returns answers to all rows of a batch, in order.

        Where the runtime gives none to the batch, its halves are asked, down to single rows; but not where the first
        and the last row fail alone as well, nor where it hangs: then the batch as a whole has no answer.
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
        """Returns what `run` would for each of some batches, in one exchange where all of them are answered."""
        with contextlib.suppress(RuntimeFailedError):
            self.load()
            if len(batches) > 1 and fixed_size(self.worker.inputs) is None:
                try:
                    answers = self.worker.run_all([self._given(inputs) for inputs in batches])
                except (RuntimeDiedError, RuntimeHungError):
                    self._is_loaded = False
                    raise
                pairs = zip(batches, answers, strict=True)
                return [[Answer(slice(0, count(inputs)), outputs)] for inputs, outputs in pairs]
        return [self.run(inputs) for inputs in batches]

    def _narrow(self, inputs: Mapping[str, Array], start: int, stop: int, message: str) -> list[Answer]:
        """Returns the answers to rows that have none together."""
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
            part = self._given({name: array[rows] for name, array in inputs.items()})
            return Answer(rows, in_whole_batches(self.worker.run, self.worker.inputs, part)), None
        except RuntimeRefusedError as error:
            return None, error
        except (RuntimeDiedError, RuntimeHungError) as error:
            self._deaths += 1
            self._is_loaded = False
            return None, error

    def _given(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return in_its_floats(self.worker, inputs, self._precision)


def one_thread_environment() -> dict[str, str]:
    """Returns the environment in which TensorFlow takes one thread. What the environment says already stands."""
    return {name: value for name, value in _ONE_THREAD.items() if name not in os.environ}
