"""The interface of references, and the references without Keras: an artifact, and stored outputs."""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import SIZES_KEY, TensorInfo
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.artifacts.state import State
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.errors import RuntimeFailedError, RuntimeRefusedError
from keras_pe.export.model.sizes.dimensions import (
    Dimension,
    SizeRange,
    all_dimensions,
    checked_sizes,
    dimensions_from_json,
)
from keras_pe.export.model.watch.decision_boundaries import Decisions
from keras_pe.export.model.watch.known_values import KnownValues
from keras_pe.export.processes.temporary_folder import Closing
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.worker import Worker


@dataclass(frozen=True)
class Expectation:
    """The answer of the reference to one case.

    Attributes:
        case: The case.
        outputs: The outputs; None if the reference refused the case.
        truth: The float64 rebuild's outputs; None without a rebuild.
        error: The error, if the reference refused the case.
        is_fair: Whether the case can show a fault. It cannot if the float64 rebuild refuses a case that the model
            answers. For a sequence shorter than a convolution's kernel, for example, TensorFlow's kernels return
            arbitrary memory in one precision and raise in another.
        in_float32: The outputs of the float32 rebuild of a model that computes in 16 bits, which are the reference of
            an artifact that computes in float32. None for other models, or without a rebuild.
    """

    case: Case
    outputs: Arrays | None
    truth: Arrays | None = None
    error: str | None = None
    is_fair: bool = True
    in_float32: Arrays | None = None


class Reference(Closing):
    """Answers a sequence of cases, or single sets of inputs. It is open within `with`, until `close`.

    Attributes:
        name: The name of the reference in the report.
        inputs: The inputs of the reference.
        version: The package and version of the reference.
        roles: The roles of the inputs, by name, with the user's ranges.
        sizes: Known sizes of the inputs' dynamic dimensions; empty if unknown.
        dimensions: The kind and the sizes of each dynamic dimension; empty if unknown.
        fixed: The sizes that the artifacts fix although the model declares them dynamic, by the dimension's name.
        model: The Keras model; None for other references.
        signature: The signature of the Keras model; None for other references.
        float64_model: The rebuild in float64; None without one.
        float32_model: The rebuild in float32 of a model that computes in 16 bits; None without one.
        recorded: Values of the inputs from the metadata of artifacts.
        layouts: The artifacts' layout of each input whose layout differs from the model's, by its name.
        decisions: The decisions of the model on its inputs; None if unknown.
        states: The inputs and outputs that carry the state of the model from call to call.
        no_rebuild: The reason that there is no float64 rebuild, as far as it is known; empty if there is one.
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
    recorded: KnownValues = KnownValues()
    layouts: Mapping[str, str] = MappingProxyType({})
    decisions: Decisions | None = None
    states: Sequence[State] = ()
    no_rebuild: str = "the reference is not a Keras model"

    @property
    @abstractmethod
    def basis(self) -> str:
        """The reference of the differences, in one sentence. Final after `answer`, while the reference is open."""

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        """Answers the cases of the check in this order, starting from the initial state of the reference."""
        return tuple(self._answer(case) for case in cases)

    @abstractmethod
    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the outputs for other inputs, from the initial state of the reference.

        Raises:
            RuntimeFailedError: If the reference refuses the inputs.
        """

    def expect_eager(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the outputs of `expect` in a call without a compiled graph, which would ignore changes of a layer.

        Raises:
            RuntimeFailedError: If the reference refuses the inputs.
        """
        return self.expect(inputs)

    def expect_uncached(self, tokens: Array, context: Sequence[Array] = (), *, is_wide: bool) -> Array:
        """Returns the logits of one sequence in a call of a decoder without its cache, `[length, vocabulary]`.

        Args:
            tokens: The tokens, `[length]`.
            context: The inputs that are equal in all calls, with one row.
            is_wide: Whether the float64 rebuild answers.

        Raises:
            RuntimeFailedError: If the reference is not a decoder, or refuses the tokens.
        """
        raise RuntimeRefusedError(f"{self.name} is not a decoder")

    def expect_in_float32(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the outputs of `expect` from the float32 rebuild, if there is one.

        Raises:
            RuntimeFailedError: If the rebuild refuses the inputs.
        """
        return self.expect(inputs)

    def expect_traced(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the outputs in a `tf.function`, since some layers compute differently in a graph.

        Raises:
            RuntimeRefusedError: If the reference refuses the inputs, or cannot be traced.
        """
        raise RuntimeRefusedError("the model cannot be traced")

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the float outputs of the float64 rebuild for other inputs; empty without a rebuild.

        Raises:
            RuntimeFailedError: If the rebuild refuses the inputs.
        """
        return {}

    def noise(
        self, cases: Sequence[Case], precision: str | None = None, *, by_row: bool = False, is_brief: bool = False
    ) -> Sequence[Mapping[str, Array]]:
        """Returns the noise floors near each case, by output, in the form of the tolerance policy.

        The floors are those of the model's own precision, or of each value in an accepted precision; empty if unknown.

        Args:
            cases: The cases whose inputs are perturbed.
            precision: The accepted precision.
            by_row: Whether to return a separate floor for each row.
            is_brief: Whether one sample is enough.
        """
        return [{} for _ in cases]

    def _answer(self, case: Case) -> Expectation:
        try:
            return Expectation(case, self.expect(case.inputs))
        except RuntimeFailedError as error:  # a crash or a hang only answers this case; the next one gets a new process
            return Expectation(case, None, error=str(error))


class StoredReference(Reference):
    """One stored case and its expected outputs.

    Attributes:
        case: The case.
        typed: The outputs with the model's types. The others may have NumPy's default types.
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
        raise RuntimeRefusedError("stored outputs belong to their own inputs")

    def _answer(self, case: Case) -> Expectation:
        if case is not self.case:
            return Expectation(case, None, error="no outputs are stored for this case")
        return Expectation(case, self._outputs)


class ArtifactReference(Reference):
    """An artifact in its own runtime.

    Raises:
        RuntimeRefusedError, RuntimeDiedError, RuntimeHungError: If the artifact does not load.
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
        with contextlib.suppress(ValueError, ImportError):  # another exporter's file, or an unreadable one
            self.dimensions = dimensions_from_json(read_artifact(path).metadata.get(SIZES_KEY, "{}"))
        self.dimensions = all_dimensions([spec.shape for spec in self.inputs], self.dimensions)
        if unknown := given.keys() - self.dimensions:
            self._worker.close()
            raise ArgValueError(
                "sizes", f"must be of {', '.join(sorted(self.dimensions))}. Received: {', '.join(sorted(unknown))}."
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
        if not self._worker.is_free:  # its process died on earlier inputs
            self._worker.load(self._path)
        return self._worker.run(inputs)
