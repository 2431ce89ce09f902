"""One artifact in one runtime, batch by batch: a crash or a refusal is narrowed down to the rows that it is about."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.matching import as_names, in_accepted_precision
from keras_pe.export.comparison.run import computes_in_float32
from keras_pe.export.errors import RuntimeDiedError, RuntimeFailedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.parity.data.batching import fixed_size, in_whole_batches
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


def one_thread() -> dict[str, str]:
    """Returns the environment in which TensorFlow takes one thread. What the environment says already stands."""
    return {name: value for name, value in _ONE_THREAD.items() if name not in os.environ}


class TargetRunner:
    """A runtime that is started again where it ended. The process starts importing at once."""

    def __init__(self, target: Target, timeout: float) -> None:
        self._target = target
        self._timeout = timeout
        self._deaths = 0
        self._seconds = 0.0
        self._loaded = False
        self._names = Names()
        self._precision: str | None = None
        self._worker: Worker | None = Worker(target.spec, timeout, one_thread())

    @property
    def seconds(self) -> float:
        """What the runs took inside the runtime."""
        return self._seconds + (self._worker.seconds if self._worker is not None else 0.0)

    @property
    def path(self) -> Path:
        """The artifact."""
        return self._target.path

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """What the artifact takes, once it is loaded."""
        assert self._worker is not None
        return self._worker.inputs

    @property
    def is_in_float32(self) -> bool:
        """Whether the artifact, which is loaded, computes in no floats of 16 bits."""
        assert self._worker is not None
        return computes_in_float32(self._worker)

    def load(self) -> str:
        """Loads the artifact if that was not done, and returns the runtime's version.

        Raises:
            RuntimeFailedError: If it does not load.
        """
        if self._worker is None:
            self._worker = Worker(self._target.spec, self._timeout, one_thread())
        if not self._loaded:
            self._worker.load(self._target.path)
            self._loaded = True
        self._worker.names = self._names
        return self._worker.version

    def begin_shard(self, names: Sequence[NameMatch] = (), precision: str | None = None) -> None:
        """Forgets how often the process has ended.

        Args:
            names: The inputs and outputs that the artifact calls otherwise than the model.
            precision: In which it may take floats, as its user accepts.
        """
        self._deaths, self._names, self._precision = 0, as_names(names), precision

    def run(self, inputs: Mapping[str, Array]) -> list[Answer]:
        """Returns answers to all rows of a batch, in order.

        Where the runtime gives none to the batch, its halves are asked, down to single rows; but not where the first
        and the last row fail alone as well, nor where it hangs: then the batch as a whole has no answer.
        """
        count = len(next(iter(inputs.values())))
        answer, error = self._ask(inputs, slice(0, count))
        if answer is not None:
            return [answer]
        whole = [Answer(slice(0, count), None, str(error))]
        if count == 1 or isinstance(error, RuntimeHungError):
            return whole
        ends = [self._ask(inputs, slice(row, row + 1))[0] for row in (0, count - 1)]
        if ends[0] is None and ends[1] is None:
            return whole
        return self._narrow(inputs, 0, count, str(error))

    def run_all(self, batches: Sequence[Mapping[str, Array]]) -> list[list[Answer]]:
        """Returns what `run` would for each of some batches, in one exchange where all of them are answered."""
        with contextlib.suppress(RuntimeFailedError):
            self.load()
            if self._worker is not None and fixed_size(self._worker.inputs) is None and len(batches) > 1:
                try:
                    answers = self._worker.run_all([self._given(inputs) for inputs in batches])
                except (RuntimeDiedError, RuntimeHungError):
                    self.close()
                    raise
                return [
                    [Answer(slice(0, len(next(iter(inputs.values())))), outputs)]
                    for inputs, outputs in zip(batches, answers, strict=True)
                ]
        return [self.run(inputs) for inputs in batches]

    def close(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._seconds += self._worker.seconds
            self._worker.close()
        self._worker, self._loaded = None, False

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

    def _given(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        assert self._worker is not None
        return in_accepted_precision(self._worker, inputs, self._precision)

    def _ask(self, inputs: Mapping[str, Array], rows: slice) -> tuple[Answer | None, RuntimeFailedError | None]:
        try:
            self.load()
            assert self._worker is not None
            part = self._given({name: array[rows] for name, array in inputs.items()})
            return Answer(rows, in_whole_batches(self._worker.run, self._worker.inputs, part)), None
        except RuntimeRefusedError as error:
            return None, error
        except (RuntimeDiedError, RuntimeHungError) as error:
            self._deaths += 1
            with contextlib.suppress(RuntimeFailedError):
                self.close()
            return None, error
