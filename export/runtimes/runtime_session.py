"""A loaded artifact in a runtime: answers requests, and checks the form of the runtime's answers."""

import pkgutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import (
    InvalidAnswerError,
    RuntimeFailedError,
    RuntimeRefusedError,
    describe,
)
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.runtimes.runtime import Array, as_dtype, as_texts

_MOST_AT_ONCE = 2**24  # bytes of a weight that are sent together
_OPTIONAL = ("intermediates", "weights", "conditions", "float_dtypes", "metadata")


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
        _refuse_errors(lambda: pkgutil.resolve_name(factory))

    def ask(self, request: str, *arguments: Any) -> tuple[Any, float]:
        """Returns an answer, and the seconds that it took.

        Raises:
            RuntimeRefusedError: Whatever the runtime raises.
            RuntimeDiedError: If what the runtime drives is gone.
        """
        own: dict[str, Callable[..., Any]] = {"load": self._load, "unload": self._unload, "run_all": self._run_all}
        own |= {"weights": self._name_weights, "weight": self._weight}
        start = time.perf_counter()
        answer = _refuse_errors(lambda: own[request](*arguments) if request in own else self._tell(request, *arguments))
        return answer, time.perf_counter() - start

    def _tell(self, what: str, *arguments: Any) -> Any:
        """Returns the runtime's own answer, in the promised form."""
        return _FORMS[what](getattr(self._runtime, what)(*arguments))

    def _load(self, factory: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
        self._unload()  # the one before makes room
        runtime = pkgutil.resolve_name(factory)(*arguments, **options)
        capabilities = frozenset(_OPTIONAL).intersection(dir(runtime))
        providers = {str(name): int(count) for name, count in dict(getattr(runtime, "providers", {})).items()}
        about = _check_inputs(runtime.inputs), str(runtime.version), providers, capabilities
        self._runtime = runtime
        return about

    def call(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Returns the result of a function.

        Raises:
            RuntimeRefusedError: Whatever the function raises.
        """
        return _refuse_errors(lambda: function(*arguments))

    def _unload(self) -> None:
        self._runtime, self._weights, self._read = None, {}, ("", None)

    def _run_all(self, batches: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [self._tell("run", inputs) for inputs in batches]

    def _name_weights(self) -> list[str]:
        self._weights = self._runtime.weights()
        return [_check_text(name) for name in self._weights]

    def _weight(self, name: str, start: int) -> tuple[Any, bool]:
        """Returns the rows of a weight from one on, as many as are sent together, and whether they are the last."""
        if start == 0 or self._read[0] != name:  # reading it may copy it
            self._read = name, np.asarray(self._weights[name])
        weight = self._read[1]
        if weight.nbytes <= _MOST_AT_ONCE:
            return weight, True
        stop = start + max(1, _MOST_AT_ONCE * len(weight) // weight.nbytes)
        return weight[start:stop], stop >= len(weight)


def _check_inputs(inputs: Iterable[Any]) -> tuple[TensorInfo, ...]:
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
        name = _check_text(each)
        try:
            found[name] = form(value)
        except InvalidAnswerError as error:
            raise InvalidAnswerError(f"{error} as {name!r}") from error
    return found


def _check_array(value: Any) -> Array:
    """Returns an array in this machine's order of bytes, or texts as Python's: some runtimes return bytes.

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
    return as_texts(array) if is_text else array.astype(array.dtype.newbyteorder("="), copy=False)


def _is_extended_float(dtype: np.dtype[Any]) -> bool:
    """Whether a type is one of ml_dtypes, such as bfloat16, which NumPy takes for bytes."""
    return dtype.type.__module__.partition(".")[0] == "ml_dtypes"


def _check_text(name: Any) -> str:
    """Returns a name, or raises InvalidAnswerError if it is not a text."""
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
    "run": lambda outputs: _by_name(outputs, _check_array),
    "intermediates": lambda tensors: _by_name(tensors, _check_array),
    "conditions": lambda conditions: _by_name(conditions, bool),
    "metadata": lambda texts: _by_name(texts, str),
    "float_dtypes": lambda names: tuple(map(_check_text, names)),
}


def _refuse_errors(function: Callable[[], Any]) -> Any:
    """Returns what a function returns; whatever it raises is a runtime's answer, and no reason to end."""
    try:
        with foreign_code():
            return function()
    except RuntimeFailedError:  # in the words of the runtime that it drives
        raise
    except Exception as error:
        raise RuntimeRefusedError(describe(error)) from error
