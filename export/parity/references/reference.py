"""What the artifacts are measured against: a Keras model, another artifact, or stored outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from keras_pe.export.artifact import TensorInfo
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.messages import first_line
from keras_pe.export.model.state import state_left_alone
from keras_pe.export.parity.inputs.cases import Case
from keras_pe.export.parity.inputs.roles import find_roles
from keras_pe.export.parity.inputs.sweep import Role
from keras_pe.export.runtimes.runtime import Arrays
from keras_pe.export.runtimes.worker import Worker


@dataclass(frozen=True)
class Expectation:
    """What the reference says to one case.

    Attributes:
        case: What it was asked.
        outputs: Its answer, None where it refused.
        truth: The float64 rebuild's answer, None where there is no rebuild.
        refused: Its error where it refused.
        is_fair: Whether the case tells anything. It does not where the float64 rebuild refuses what the model answers:
            TensorFlow's kernels return what happens to be in memory for, say, a sequence shorter than a convolution's
            kernel, in one precision and not in another.
    """

    case: Case
    outputs: Arrays | None
    truth: Arrays | None = None
    refused: str | None = None
    is_fair: bool = True


class Reference(Protocol):
    """Answers a sequence of cases.

    Attributes:
        name: What the report calls it.
        basis: What differences are measured against, in one sentence.
        inputs: What it takes.
        version: Its package and version.
        roles: What its inputs are for, by name.
    """

    name: str
    basis: str
    inputs: tuple[TensorInfo, ...]
    version: str
    roles: Mapping[str, Role]

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        """Answers the cases in this order, from the state that the reference was given in."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...


class ArtifactReference:
    """An artifact as the reference: its runtime's answers, and tolerances by dtype."""

    def __init__(self, path: Path, worker: Worker) -> None:
        self.name = str(path)
        self.basis = f"{path} in {worker.spec.name}, tolerance by dtype"
        self._worker = worker
        worker.load(path)
        self.inputs = worker.inputs
        self.version = worker.version
        self.roles: Mapping[str, Role] = {}

    def close(self) -> None:
        self._worker.close()

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        return tuple(self._answer(case) for case in cases)

    def _answer(self, case: Case) -> Expectation:
        try:
            return Expectation(case, self._worker.run(case.inputs))
        except RuntimeRefusedError as error:
            return Expectation(case, None, refused=str(error))


class StoredReference:
    """Outputs that were stored with their inputs."""

    def __init__(self, name: str, stored: Mapping[str, tuple[Case, Arrays]]) -> None:
        self.name = name
        self.basis = "stored outputs, tolerance by dtype"
        self.version = ""
        self.roles: Mapping[str, Role] = {}
        self._stored = stored
        inputs = next(iter(stored.values()))[0].inputs
        self.inputs = tuple(TensorInfo(name, array.shape, array.dtype.name) for name, array in inputs.items())

    @property
    def cases(self) -> tuple[Case, ...]:
        """The stored cases."""
        return tuple(case for case, _ in self._stored.values())

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        return tuple(self._answer(case) for case in cases)

    def _answer(self, case: Case) -> Expectation:
        if case.name in self._stored:
            return Expectation(case, self._stored[case.name][1])
        return Expectation(case, None, refused="no outputs are stored for it")

    def close(self) -> None:
        pass


class KerasReference:
    """A Keras model in this process: its own answers, and those of its float64 rebuild where there can be one."""

    def __init__(self, model: Any, input_signature: Any = None) -> None:
        import keras

        from keras_pe.export.model.cloning import with_dtype
        from keras_pe.export.model.signature import model_signature

        self.model = model
        self.signature = model_signature(model, input_signature)
        self.name = model.name
        self.inputs = self.signature.inputs
        self.version = f"keras {keras.__version__}"
        self.roles: Mapping[str, Role] = find_roles(self.inputs, self.run)
        try:
            self.wide: Any = with_dtype(model, "float64")
            self.basis = "a float64 rebuild of the model, at most 8 times Keras' own error"
        except ValueError:
            self.wide = None
            self.basis = "Keras' own answer (no float64 rebuild is possible), tolerance by dtype"

    @classmethod
    def load(cls, path: Path, input_signature: Any = None) -> Self:
        """Opens a `.keras` file."""
        import keras

        import keras_pe  # noqa: F401 - registers the layers

        return cls(keras.saving.load_model(path, compile=False), input_signature)

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        with state_left_alone():
            answers = tuple(self._answer(case) for case in cases)
        if self.wide is not None and not any(each.truth for each in answers if each.outputs):
            self.wide = None  # a layer that insists on its own precision
            self.basis = "Keras' own answer (the float64 rebuild does not run), tolerance by dtype"
        if self.wide is None:
            return answers
        return tuple(
            replace(each, outputs=None, refused="its float64 rebuild refuses it", is_fair=False)
            if each.outputs and each.truth is None
            else each
            for each in answers
        )

    def close(self) -> None:
        self.wide = None

    def _answer(self, case: Case) -> Expectation:
        try:
            outputs = self.predict(self.model, case.inputs)
        except Exception as error:  # whatever a layer raises is the model's answer to this case
            return Expectation(case, None, refused=f"{type(error).__name__}: {first_line(error)}")
        return Expectation(case, outputs, self._truth(case, outputs))

    def _truth(self, case: Case, outputs: Arrays) -> Arrays | None:
        if self.wide is None:
            return None
        try:
            truth = self.predict(self.wide, case.inputs)
        except Exception:  # as above
            return None
        return {name: array for name, array in truth.items() if array.dtype == "float64"}

    def run(self, inputs: Mapping[str, Any]) -> Arrays:
        """Returns what the model says."""
        with state_left_alone():
            return self.predict(self.model, inputs)

    def predict(self, model: Any, inputs: Mapping[str, Any]) -> Arrays:
        """Returns what a model of this signature says."""
        import keras

        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
        answer = self.signature.call(model, tensors)
        return {name: keras.ops.convert_to_numpy(tensor) for name, tensor in answer.items()}
