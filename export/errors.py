"""The errors of an export and of a runtime, as classes that a program can tell apart, and what their sentences say."""

import errno
import functools
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.results import Array, Cause


class ExportError(Exception):
    """The model has no sound form in the format. Nothing was written, and what stood at the destination still does.

    Attributes:
        format: The format that was asked for.
        model: The model's name.
        reason: Why, in one or more sentences: what the message says between "stopped:" and "Nothing was written."
        layer: The name of the layer at fault, None where none is or it is not known.
        operator: TensorFlow's type of the operator at fault, such as "Svd"; None where none is.
    """

    def __init__(
        self, format: Format, model: str, reason: str, *, layer: str | None = None, operator: str | None = None
    ) -> None:
        super().__init__(f"{format.label} export of {model!r} stopped: {reason} Nothing was written.")
        self.format = format
        self.model = model
        self.reason = reason
        self.layer = layer
        self.operator = operator

    def __reduce__(self) -> tuple[Any, ...]:
        given = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return functools.partial(type(self), **given), ()


class TracingError(ExportError):
    """Keras cannot trace the model as one graph for all sizes of its dynamic dimensions."""


class UnsupportedError(ExportError):
    """Something in the model has no form in the format: an operator, a number type, state, randomness."""


class InvalidArtifactError(ExportError):
    """What was made is not valid in the format, or its runtime does not load or run it."""


class DisagreementError(ExportError):
    """What was made runs, and returns something else than Keras.

    The layer and the cause are those that `check_parity` would name. The operator is named where the layer computes
    with one alone.

    Attributes:
        case: What it was run on, in words, such as "drawn, batch 2, length 7".
        inputs: The same as arrays, by the names of the inputs.
        cause: Why it differs, None where that was not looked for.
    """

    def __init__(
        self,
        format: Format,
        model: str,
        reason: str,
        *,
        layer: str | None = None,
        operator: str | None = None,
        case: str = "",
        inputs: Mapping[str, Array] = MappingProxyType({}),
        cause: Cause | None = None,
    ) -> None:
        super().__init__(format, model, reason, layer=layer, operator=operator)
        self.case = case
        self.inputs = dict(inputs)
        self.cause = cause


class UnknownSizesError(ValueError):
    """The model takes none of the sizes that were tried; the cause is the model's own error.

    Attributes:
        asks_for_a_value: Whether the model takes arrays of a size and no symbols of it: Python asks for a number in a
            tensor.
    """

    asks_for_a_value = False


class ProcessDiedError(Exception):
    """A child process ended while it was asked for something."""


class ProcessHungError(Exception):
    """A child process did not answer in time, and was ended."""


class ForeignExitError(RuntimeError):
    """Code of a model, a runtime or a plug-in tried to end the process that called it, by `sys.exit()` for one."""


class UnreadRequestError(Exception):
    """A request cannot be read in a child process, which is out of step then: what is in it is not known there."""


class RuntimeFailedError(Exception):
    """A runtime returned nothing. One of those below."""


class RuntimeRefusedError(RuntimeFailedError):
    """A runtime answered with an error of its own."""


class InvalidAnswerError(RuntimeRefusedError):
    """A runtime returned something other than arrays by name."""


class RuntimeDiedError(RuntimeFailedError):
    """A runtime took its process with it."""


class RuntimeHungError(RuntimeFailedError):
    """A runtime did not answer in time."""


# What the loader, C++, TensorFlow, JAX, PyTorch, ONNX Runtime and CUDA say where memory ends.
_OUT_OF_MEMORY = re.compile(
    r"failed to map segment from shared object|[Cc]annot allocate memory|bad_alloc|bad allocation|RESOURCE_EXHAUSTED"
    r"|OOM when allocating|\b[Oo]ut of memory\b|CUDA_ERROR_OUT_OF_MEMORY|[Ff]ailed to allocate memory"
)
_WHAT_FOLLOWS = "Error encountered:"  # after a paragraph on what Keras was at
_IN_A_LAYER = re.compile(r"Exception encountered when calling (\w+\.\w+\(\))\.?")


def check_type(argument: str, given: object, kind: type) -> None:
    """Raises TypeError unless what was given for an argument is of a class."""
    if not isinstance(given, kind):
        raise TypeError(f"`{argument}` must be of type {kind.__name__}. Received: {argument}={given!r:.80}")


def check_share(argument: str, given: object) -> None:
    """Raises ValueError unless what was given for an argument is a number from 0 to 1."""
    if not (isinstance(given, Real) and 0 <= float(given) <= 1):
        raise ValueError(f"`{argument}` must be a share, from 0 to 1. Received: {given!r}.")


def check_whole(argument: str, given: object, least: int, most: int | None = None) -> None:
    """Raises unless what was given for an argument is a whole number in a range.

    Raises:
        TypeError: If it is no integer.
        ValueError: If it is out of range.
    """
    rule = f"a whole number from {least}" if most is None else f"a whole number from {least} to {most}"
    if not isinstance(given, Integral) or isinstance(given, bool):
        raise TypeError(f"`{argument}` must be {rule}. Received: {argument}={given!r:.80}.")
    if int(given) < least or (most is not None and int(given) > most):
        raise ValueError(f"`{argument}` must be {rule}. Received: {argument}={given!r}.")


def joined(sentences: Iterable[str]) -> str:
    """Returns sentences as one text that goes on after a colon, each said once."""
    first, *others = dict.fromkeys(sentences)
    return " ".join([first, *(sentence[0].upper() + sentence[1:] for sentence in others)])


def sentence(said: object) -> str:
    """Returns what another error says as a sentence: in one line, with one full stop at its end."""
    return f"{' '.join(str(said).split()).rstrip(' .')}."


def first_line(error: BaseException | None) -> str:
    """Returns what an error says in its first line, without the full stop.

    Of an error that Keras raises in a layer, which begins with the layers around it, that is what happened in the last.
    """
    said = re.sub(r"\x1b\[\d+m", "", _text(error)).rpartition("Exception encountered: ")[2]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    place = ""
    while len(lines) > 1:
        if around := _IN_A_LAYER.fullmatch(lines[0]):
            place = f"{around[1]}: "
        elif not lines[0].endswith(_WHAT_FOLLOWS):
            break
        lines.pop(0)
    line = f"{place}{lines[0].rstrip('.')}" if lines else type(error).__name__
    return f"memory ran out ({line})" if is_out_of_memory(error) else line


def typed(error: BaseException) -> str:
    """Returns an error's type and what it says, as Python's own last line of a traceback does."""
    said = _text(error)
    named = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"memory ran out ({named})" if is_out_of_memory(error) else named


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error comes of memory that has run out, itself or by way of what it was raised from."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if tells_out_of_memory(_text(error)):
            return True
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def tells_out_of_memory(text: str) -> bool:
    """Whether a text of a library or of the system is about memory that has run out."""
    return _OUT_OF_MEMORY.search(text) is not None


def _text(error: BaseException | None) -> str:
    """Returns what an error says; nothing where its own method fails at that."""
    try:
        return str(error)
    except Exception:  # a foreign class may do anything
        return ""
