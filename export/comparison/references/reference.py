"""What every reference does and answers, and those that need no Keras: an artifact, and outputs that were stored."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from keras_pe.export.artifacts.artifact import SIZES_KEY, TensorInfo
from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.errors import RuntimeFailedError, RuntimeRefusedError
from keras_pe.export.model.sizes.dimensions import (
    Dimension,
    SizeRange,
    all_dimensions,
    checked_sizes,
    dimensions_from_json,
)
from keras_pe.export.model.watch.decisions import Decisions
from keras_pe.export.model.watch.known_values import KnownValues
from keras_pe.export.processes.process import Closing
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec


@dataclass(frozen=True)
class Expectation:
    """What the reference answers to one case.

    Attributes:
        case: What it was asked.
        outputs: Its outputs, None where it refused.
        truth: The float64 rebuild's outputs, None where there is no rebuild.
        error: Its error where it refused.
        is_fair: Whether the case tells anything. It does not where the float64 rebuild refuses what the model answers:
            TensorFlow's kernels return what happens to be in memory for, say, a sequence shorter than a convolution's
            kernel, in one precision and not in another.
        in_float32: The outputs of a float32 rebuild, where the model computes in 16 bits: what an artifact that
            computes in float32 is measured against. None where it does not, or there is no rebuild.
    """

    case: Case
    outputs: Arrays | None
    truth: Arrays | None = None
    error: str | None = None
    is_fair: bool = True
    in_float32: Arrays | None = None


class Reference(Closing):
    """Answers a sequence of cases, or one set of inputs after the other. It is open within `with`, until `close`.

    Attributes:
        name: What the report calls it.
        inputs: What it takes.
        version: Its package and version.
        roles: What its inputs are for, by name, with the ranges that the user gave.
        sizes: Sizes of the inputs' dynamic dimensions that it is known to take; empty where none are known.
        dimensions: What each of these dimensions is, and the sizes that it takes; empty where that is not known.
        fixed: The sizes that the artifacts fix although the model declares them dynamic, by the dimension's name.
        model: The Keras model, and
        signature: its signature; None where it is none.
        float64_model: Its rebuild in float64, and
        float32_model: in float32 where it computes in 16 bits; None where there is none.
        told: What the artifacts tell of the values that its inputs take.
        layouts: The layout of each input that the artifacts have in another one than the model, by its name.
        decisions: What its model decides by its inputs; None where that is not known.
        no_rebuild: Why there is no float64 rebuild, as far as that was found; empty where there is one.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    version: str = ""
    roles: Mapping[str, Role] = MappingProxyType({})
    sizes: Mapping[str, int] = MappingProxyType({})
    dimensions: Mapping[str, Dimension] = MappingProxyType({})
    fixed: Mapping[str, int] = MappingProxyType({})
    model: Any = None
    signature: Any = None
    float64_model: Any = None
    float32_model: Any = None
    told: KnownValues = KnownValues()
    layouts: Mapping[str, str] = MappingProxyType({})
    decisions: Decisions | None = None
    no_rebuild: str = "the reference is no Keras model"

    @property
    @abstractmethod
    def basis(self) -> str:
        """What differences are measured against, in one sentence. It is settled by `answer`, while it is open."""

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        """Answers the cases of the check in this order, from the state that the reference was given in."""
        return tuple(self._answer(case) for case in cases)

    @abstractmethod
    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns its outputs for other inputs, from the state that it was given in.

        Raises:
            RuntimeFailedError: If it refuses them.
        """

    def expect_in_float32(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns what `expect` does, from its float32 rebuild where there is one.

        Raises:
            RuntimeFailedError: If that refuses them.
        """
        return self.expect(inputs)

    def expect_traced(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns what it returns in a `tf.function`: there are layers that do something else in a graph.

        Raises:
            RuntimeRefusedError: If it refuses the inputs, or cannot be traced.
        """
        raise RuntimeRefusedError("it is no model that can be traced")

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns what its float64 rebuild says to other inputs, for float outputs; nothing where there is no rebuild.

        Raises:
            RuntimeFailedError: If the rebuild refuses them.
        """
        return {}

    def noise(
        self, cases: Sequence[Case], precision: str | None = None, *, by_row: bool = False
    ) -> Sequence[Mapping[str, Array]]:
        """Returns the noise floors of inputs and weights like those of each case, by output, as the law has them.

        They are those of the model's own precision, or of each value in another that is accepted. Empty where they are
        not known.

        Args:
            cases: What the inputs are near.
            precision: The precision that is accepted.
            by_row: Whether to return those of each row by itself.
        """
        return [{} for _ in cases]

    def _answer(self, case: Case) -> Expectation:
        try:
            return Expectation(case, self.expect(case.inputs))
        except RuntimeFailedError as error:  # a process that ends, or hangs, is an answer to this case alone
            return Expectation(case, None, error=str(error))


class StoredReference(Reference):
    """One stored case and the outputs expected of it.

    Attributes:
        case: The case.
        typed: The outputs whose types are known to be the model's; others may have those that NumPy gives by default.
    """

    def __init__(self, name: str, case: Case, outputs: Arrays, typed: Iterable[str] = ()) -> None:
        self.name = name
        self.case = case
        self.typed = frozenset(typed)
        self._outputs = outputs
        self.inputs = tuple(TensorInfo(name, array.shape, array.dtype.name) for name, array in case.inputs.items())

    @property
    def basis(self) -> str:
        return "stored outputs, tolerance by dtype"

    def close(self) -> None:
        pass

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        raise RuntimeRefusedError("outputs that were stored are no answer to other inputs")

    def _answer(self, case: Case) -> Expectation:
        if case is not self.case:
            return Expectation(case, None, error="no outputs are stored for it")
        return Expectation(case, self._outputs)


class ArtifactReference(Reference):
    """An artifact in a runtime of its own.

    Raises:
        RuntimeRefusedError, RuntimeDiedError, RuntimeHungError: If it cannot be loaded.
    """

    def __init__(
        self, path: Path, spec: RuntimeSpec, timeout: float, sizes: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        given = checked_sizes(sizes)
        self.name = str(path)
        self._path = path
        self._runtime = spec.name
        self._worker = Worker(spec, timeout)
        try:
            self._worker.load(path)
        except BaseException:
            self._worker.close()
            raise
        self.inputs = self._worker.inputs
        with contextlib.suppress(ValueError, ImportError):  # of another exporter, or not a file that can be read here
            self.dimensions = dimensions_from_json(read_artifact(path).metadata.get(SIZES_KEY, "{}"))
        self.dimensions = all_dimensions([spec.shape for spec in self.inputs], self.dimensions)
        if unknown := given.keys() - self.dimensions:
            self._worker.close()
            raise ValueError(
                f"`sizes` must be of {', '.join(sorted(self.dimensions))}. Received: {', '.join(sorted(unknown))}."
            )
        for name, own in given.items():
            taken = SizeRange(min(own), 0, given=own)
            self.dimensions = {**self.dimensions, name: replace(self.dimensions[name], sizes=taken)}
        self.version = self._worker.version

    @property
    def basis(self) -> str:
        return f"{self.name} in {self._runtime}, tolerance by dtype"

    def close(self) -> None:
        self._worker.close()

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        if not self._worker.is_free:  # it did not survive what it was asked before
            self._worker.load(self._path)
        return self._worker.run(inputs)
