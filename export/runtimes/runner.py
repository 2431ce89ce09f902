"""Runs an artifact in a runtime, in a child process or in this process, under the model's names."""

import pickle
import pkgutil
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import (
    ForeignExitError,
    InvalidAnswerError,
    ProcessDiedError,
    ProcessHungError,
    RuntimeDiedError,
    RuntimeFailedError,
    RuntimeHungError,
    RuntimeRefusedError,
    UnreadRequestError,
    describe,
)
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.processes.process import Child, Closing
from keras_pe.export.runtimes.runtime import NUMBERS, STEPS, Array, Arrays, LazyArrays, RuntimeSpec, as_dtype

_MOST_AT_ONCE = 2**24  # bytes of a weight that are sent together
_OPTIONAL = ("intermediates", "weights", "conditions", "float_dtypes", "metadata")

_SESSION = "keras_pe.export.runtimes.runner:RuntimeSession"


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

    def _weights_of(self, kind: str) -> LazyArrays:
        """Returns a runtime's arrays whose names have the prefix, without it; an empty prefix selects names without
        any."""
        every = self._tell("weights") or []
        named = (each for each in every if each.startswith(kind)) if kind else every
        names = [each.removeprefix(kind) for each in named if kind or not each.startswith((NUMBERS, STEPS))]
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


class RuntimeSession:
    """The loaded artifact, and its weights after their first access."""

    def __init__(self, factory: str) -> None:
        """Imports the first runtime.

        Raises:
            RuntimeRefusedError: If it cannot be imported.
        """
        self._runtime: Any = None
        self._weights: Mapping[str, Any] = {}
        self._read: tuple[str, Any] = "", None
        _as_refusal(lambda: pkgutil.resolve_name(factory))

    def ask(self, request: str, *arguments: Any) -> tuple[Any, float]:
        """Returns an answer, and the seconds that it took.

        Raises:
            RuntimeRefusedError: Whatever the runtime raises.
            RuntimeDiedError: If what the runtime drives is gone.
        """
        own: dict[str, Callable[..., Any]] = {"load": self._load, "unload": self._unload, "run_all": self._run_all}
        own |= {"weights": self._name_weights, "weight": self._weight}
        start = time.perf_counter()
        answer = _as_refusal(lambda: own[request](*arguments) if request in own else self._tell(request, *arguments))
        return answer, time.perf_counter() - start

    def _tell(self, what: str, *arguments: Any) -> Any:
        """Returns the runtime's own answer, in the promised form."""
        return _FORMS[what](getattr(self._runtime, what)(*arguments))

    def _load(self, factory: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        self._unload()  # the one before makes room
        runtime = pkgutil.resolve_name(factory)(*arguments, **options)
        capabilities = frozenset(_OPTIONAL).intersection(dir(runtime))
        providers = {str(name): int(count) for name, count in dict(getattr(runtime, "providers", {})).items()}
        about = _as_inputs(runtime.inputs), str(runtime.version), providers, capabilities
        self._runtime = runtime
        return about

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Returns the result of a function.

        Raises:
            RuntimeRefusedError: Whatever the function raises.
        """
        return _as_refusal(lambda: function(*arguments))

    def _unload(self) -> None:
        self._runtime, self._weights, self._read = None, {}, ("", None)

    def _run_all(self, batches: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [self._tell("run", inputs) for inputs in batches]

    def _name_weights(self) -> list[str]:
        self._weights = self._runtime.weights()
        return [_as_text(name) for name in self._weights]

    def _weight(self, name: str, start: int) -> tuple[Any, bool]:
        """Returns the rows of a weight from one on, as many as are sent together, and whether they are the last."""
        if start == 0 or self._read[0] != name:  # reading it may copy it
            self._read = name, np.asarray(self._weights[name])
        weight = self._read[1]
        if weight.nbytes <= _MOST_AT_ONCE:
            return weight, True
        stop = start + max(1, _MOST_AT_ONCE * len(weight) // weight.nbytes)
        return weight[start:stop], stop >= len(weight)


def _as_inputs(inputs: Iterable[Any]) -> tuple[TensorInfo, ...]:
    """Returns the inputs that a runtime declares.

    Raises:
        TypeError: If it is not a `TensorInfo`, or of a type without an array.
    """
    specs = tuple(inputs)
    for each in specs:
        if not isinstance(each, TensorInfo) or not isinstance(each.name, str):
            raise TypeError(f"a runtime's `inputs` must be `TensorInfo`s. Received: {each!r:.80}")
        try:
            as_dtype(each.dtype)
        except TypeError:
            raise TypeError(f"input {each.name!r} is of type {each.dtype}, and no array is.") from None
    return specs


def _by_name(values: Any, form: Callable[[Any], Any]) -> dict[str, Any]:
    """Returns what a runtime tells by name, each value in a form.

    Raises:
        InvalidAnswerError: If it is not by name, or a value has no such form.
    """
    if not isinstance(values, Mapping):
        raise InvalidAnswerError(f"a runtime must return a mapping of names to values. Received: {_shown(values)}")
    found = {}
    for each, value in values.items():
        name = _as_text(each)
        try:
            found[name] = form(value)
        except InvalidAnswerError as error:
            raise InvalidAnswerError(f"{error} as {name!r}") from error
    return found


def _as_array(value: Any) -> Array:
    """Returns an array in this machine's order of bytes.

    Raises:
        InvalidAnswerError: If it is not an array of numbers or texts, nor of what NumPy makes one.
    """
    try:
        array = np.asarray(value)
    except Exception as error:  # rows of unequal length, or whatever a foreign class raises
        raise InvalidAnswerError(f"a runtime must return arrays. Received: {_shown(value)} ({error})") from error
    is_text = array.dtype.kind in "OSU" and not isinstance(value, str | bytes)
    is_text = is_text and all(isinstance(each, str | bytes) for each in array.flat)
    if not (is_text or array.dtype.kind in "biufc" or _is_extended_float(array.dtype)):
        raise InvalidAnswerError(f"a runtime must return arrays of numbers or texts. Received: {_shown(value)}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _is_extended_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of ml_dtypes, such as bfloat16, which NumPy takes for bytes."""
    return dtype.type.__module__.partition(".")[0] == "ml_dtypes"


def _as_text(name: Any) -> str:
    if not isinstance(name, str):
        raise InvalidAnswerError(f"a runtime must return texts as names. Received: {_shown(name)}")
    return name


def _shown(value: Any) -> str:
    """Returns what a value is in one short line."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"{type(value).__name__} {' '.join(repr(value).split()):.60}"


# Promised results of each method of a runtime.
_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "run": lambda outputs: _by_name(outputs, _as_array),
    "intermediates": lambda tensors: _by_name(tensors, _as_array),
    "conditions": lambda conditions: _by_name(conditions, bool),
    "metadata": lambda texts: _by_name(texts, str),
    "float_dtypes": lambda names: tuple(map(_as_text, names)),
}


def _as_refusal(function: Callable[[], Any]) -> Any:
    """Returns what a function returns; whatever it raises is a runtime's answer, and no reason to end."""
    try:
        with foreign_code():
            return function()
    except RuntimeFailedError:  # in the words of the runtime that it drives
        raise
    except Exception as error:
        raise RuntimeRefusedError(describe(error)) from error


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


class Worker(Runner):
    """One runtime in one child process. The process starts importing at once; `load` opens an artifact.

    Another `load` opens another artifact, with another runtime if one is passed, in the same process. It starts a new
    process if the old one is gone, as after `RuntimeDiedError` and `RuntimeHungError`. `call` runs a function there.

    Attributes:
        process: The child.
    """

    def __init__(self, spec: RuntimeSpec, timeout: float, environment: Mapping[str, str] | None = None) -> None:
        """Starts the process.

        Args:
            spec: The runtime.
            timeout: Seconds that an answer may take.
            environment: Variables for the process, which come before those of this one's environment.
        """
        super().__init__(spec)
        self._timeout, self._environment = timeout, environment
        self.process = self._start()
        self._was_asked = False

    def _start(self) -> Child:
        return Child(_SESSION, self.spec.factory, environment=self._environment)

    @property
    def is_free(self) -> bool:
        """Whether the process is there and owes no answer."""
        return self.process.is_free

    def load(self, path: Path | None = None, spec: RuntimeSpec | None = None) -> None:
        self._restart_if_ended()
        super().load(path, spec)

    def unload(self) -> None:
        """Lets the artifact go, if there is one, which frees its memory. The process stays."""
        if self._was_asked:
            self._ask("unload")

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function in the child process, such as a conversion, and returns its result.

        Args:
            function: A function of a module, which the child process imports.
            *arguments: Its arguments.

        Raises:
            RuntimeRefusedError: With the error of the function.
            RuntimeDiedError: If the process ended.
            RuntimeHungError: If there was no result in time.
        """
        self._restart_if_ended()
        return self._send("call", function, arguments, limit=self._timeout)

    def _restart_if_ended(self) -> None:
        """Starts another process if this one ended after a request. One that ended before any says why when asked."""
        if self._was_asked and self.process.has_ended:
            self.process.close()
            self.process = self._start()
        self._was_asked = True

    def close(self) -> None:
        self.process.close()

    def _ask(self, request: str, *arguments: Any, limit: float = 1.0) -> tuple[Any, float]:
        answer: tuple[Any, float] = self._send("ask", request, *arguments, limit=self._timeout * limit)
        return answer

    def _send(self, method: str, *arguments: Any, limit: float) -> Any:
        """Returns the result of a method of the session, called in the child process."""
        try:
            return self.process.ask(method, *arguments, limit=limit)
        except ProcessDiedError as error:
            raise RuntimeDiedError(str(error)) from None
        except ProcessHungError as error:
            raise RuntimeHungError(str(error)) from None
        except UnreadRequestError as error:  # an option that is not known there
            raise RuntimeRefusedError(str(error)) from error
        except (pickle.PicklingError, AttributeError, TypeError, ForeignExitError) as error:  # or cannot be sent
            raise RuntimeRefusedError(describe(error)) from error

    def _opening(self, path: Path | None) -> Sequence[Any]:
        return (str(path),)
