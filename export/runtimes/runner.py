"""Runs an artifact in a runtime under the model's names."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from keras_pe.argument_errors import is_pattern, is_utf8
from keras_pe.export.artifacts.artifact import Format, TensorInfo
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.processes.temporary_folder import Closing
from keras_pe.export.runtimes.runtime import INTEGERS, NUMBERS, STEPS, Array, Arrays, LazyArrays, RuntimeSpec
from keras_pe.export.runtimes.runtime_session import RuntimeSession


def in_order(names: Iterable[str]) -> list[str]:
    """Returns names as they are counted, `output_2` before `output_10`: a signature of TensorFlow's keeps no order."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


@dataclass(frozen=True)
class Names:
    """The artifact's name by the model's, of the inputs and outputs of which the two differ.

    Attributes:
        inputs: Names of the inputs.
        outputs: Names of the outputs.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    def to_artifact(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns inputs under the artifact's names."""
        return {self.inputs.get(name, name): array for name, array in inputs.items()}

    def inner_to_artifact(self, tensors: Mapping[str, Array]) -> Arrays:
        """Returns tensors of the artifact, of which some may be outputs, under its own names."""
        return {self.outputs.get(name, name): array for name, array in tensors.items()}

    def to_model(self, tensors: Mapping[str, Array]) -> Arrays:
        """Returns what the artifact gave under the model's names; an inner tensor of such a name makes room."""
        own = {theirs: name for name, theirs in self.outputs.items()}
        inner = {name: array for name, array in tensors.items() if name in own or name not in self.outputs}
        return {own.get(name, name): array for name, array in inner.items()}


class Runner(Closing):
    """One runtime at a time, and what it has loaded.

    Every method raises `RuntimeRefusedError` with the runtime's own message, `RuntimeDiedError`, or `RuntimeHungError`
    if there was no answer in time, and nothing else.

    Attributes:
        spec: The runtime.
        inputs: Inputs of the artifact, once it is loaded.
        version: The runtime's package and version, once it has loaded something.
        providers: How many nodes of the graph each of its execution providers got.
        capabilities: The names of the methods of `InspectableRuntime` that it has.
        names: The map between the caller's names and the artifact's: set after `load`, for as long as it is loaded.
        seconds: How long it has run since it was loaded.
    """

    inputs: tuple[TensorInfo, ...]
    version: str
    providers: Mapping[str, int] = MappingProxyType({})
    capabilities: frozenset[str] = frozenset()

    def __init__(self, spec: RuntimeSpec) -> None:
        self.spec = spec
        self.names = Names()
        self.seconds = 0.0

    @abstractmethod
    def _ask(self, request: str, *arguments: Any, limit: float = 1.0) -> tuple[Any, float]:
        """Returns a session's answer, and the seconds that it took. `limit` is in times of what one may take."""

    @abstractmethod
    def _opening(self, path: Path | None) -> Sequence[Any]:
        """Returns the arguments of the runtime's class."""

    def load(self, path: Path | None = None, spec: RuntimeSpec | None = None) -> None:
        """Opens an artifact.

        Args:
            path: The artifact; None for the model itself, or what a server has.
            spec: Another runtime, or another variant of this one.
        """
        self.spec = spec or self.spec
        self.seconds = 0.0
        self.names = Names()
        if path is not None and not is_utf8(path):
            raise RuntimeRefusedError(f"the path of an artifact must be in UTF-8, which {path} is not: rename it")
        if path is not None and self.spec.format == Format.SAVED_MODEL and is_pattern(path):
            raise RuntimeRefusedError(f"TensorFlow reads the path {path} as a pattern: rename what has * ? [ or \\")
        about, _ = self._ask("load", self.spec.factory, self._opening(path), dict(self.spec.options))
        self.inputs, self.version, self.providers, self.capabilities = about

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns every output by name, and adds the time inside the runtime to `seconds`."""
        outputs, seconds = self._ask("run", self._select_inputs(inputs))
        self.seconds += seconds
        return self.names.to_model(outputs)

    def run_all(self, batches: Sequence[Mapping[str, Array]]) -> list[Arrays]:
        """Returns what `run` would for each of some batches, in one exchange; it may take as long for each.

        On a busy machine it is the exchanges that take the time: each waits for its turn at a processor several times.
        """
        given = [self._select_inputs(inputs) for inputs in batches]
        outputs, seconds = self._ask("run_all", given, limit=len(batches))
        self.seconds += seconds
        return [self.names.to_model(each) for each in outputs]

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        """See `InspectableRuntime`; only where "intermediates" is among the capabilities."""
        arrays, _ = self._ask("intermediates", self._select_inputs(inputs), self.names.inner_to_artifact(replaced))
        return self.names.to_model(arrays)

    def weights(self) -> LazyArrays:
        """See `InspectableRuntime`; empty if the runtime does not report any. Each is read on access."""
        return self._weights_of("")

    def dequantize(self) -> tuple[LazyArrays, LazyArrays]:
        """Returns what the constants of integers stand for, by their names, and the steps between two such numbers.

        Both are empty if the runtime does not report any. Each array is read on access.
        """
        return self._weights_of(NUMBERS), self._weights_of(STEPS)

    def integers(self) -> LazyArrays:
        """Returns the constants that are booleans, or integers of 32 or 64 bits. Each is read on access."""
        return self._weights_of(INTEGERS)

    def _weights_of(self, kind: str) -> LazyArrays:
        """Returns a runtime's arrays whose names have the prefix, without it; an empty prefix selects names without
        any."""
        every = self._tell("weights") or []
        named = (each for each in every if each.startswith(kind)) if kind else every
        names = [each.removeprefix(kind) for each in named if kind or not each.startswith((NUMBERS, STEPS, INTEGERS))]
        return LazyArrays(
            names, lambda name: self._weight(kind + name), lambda name: self._weight_in_pieces(kind + name)
        )

    def conditions(self, inputs: Mapping[str, Array]) -> Mapping[str, bool]:
        """See `InspectableRuntime`; nothing where the runtime does not tell."""
        return self._tell("conditions", self._select_inputs(inputs)) or {}

    def float_dtypes(self) -> tuple[str, ...]:
        """See `InspectableRuntime`; nothing where the runtime does not tell."""
        return self._tell("float_dtypes") or ()

    def metadata(self) -> dict[str, str]:
        """See `InspectableRuntime`; nothing where the runtime does not tell."""
        return self._tell("metadata") or {}

    def _select_inputs(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the inputs that the artifact takes, under its names."""
        taken = {spec.name for spec in self.inputs}
        return {name: array for name, array in self.names.to_artifact(inputs).items() if name in taken}

    def _weight(self, name: str) -> Array:
        pieces = [*self._weight_in_pieces(name)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _weight_in_pieces(self, name: str) -> Iterator[Array]:
        start, is_last = 0, False
        while not is_last:
            (rows, is_last), _ = self._ask("weight", name, start)
            start += len(rows) if rows.ndim else 1
            yield rows

    def _tell(self, what: str, *arguments: Any) -> Any:
        return self._ask(what, *arguments)[0] if what in self.capabilities else None


class InProcessRunner(Runner):
    """A runtime of the model itself."""

    def __init__(self, spec: RuntimeSpec, model: Any, signature: Any) -> None:
        super().__init__(spec)
        self._model, self._signature = model, signature
        self._session: RuntimeSession | None = None

    def close(self) -> None:
        self._session = None

    def _ask(self, request: str, *arguments: Any, limit: float = 1.0) -> tuple[Any, float]:
        if self._session is None:
            self._session = RuntimeSession(self.spec.factory)
        return self._session.ask(request, *arguments)

    def _opening(self, path: Path | None) -> Sequence[Any]:
        return self._model, self._signature
