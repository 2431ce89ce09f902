"""The errors of exports and runtimes, as distinct classes, and the sentences of their messages."""

import errno
import functools
import re
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Self

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.target_layers import TargetLayer
from keras_pe.export.results import Array, Cause


class ExportError(Exception):
    """The model cannot be exported correctly to the format. Nothing was written, and the destination is unchanged.

    Attributes:
        format: The requested format.
        model: The model's name.
        reason: The reason in one or more sentences, which the message has between "stopped:" and "Nothing was written."
        layer: The name of the layer at fault; None if no layer is, or the layer is unknown.
        operator: TensorFlow's type of the operator at fault, such as "Svd"; None if no operator is.
        file: The file of the user's code at fault, as Python names it; None if it is unknown.
        line: The line in that file.
    """

    def __init__(
        self,
        format: Format,
        model: str,
        reason: str,
        *,
        layer: str | None = None,
        operator: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(f"{format.label} export of {model!r} stopped: {reason} Nothing was written.")
        self.format = format
        self.model = model
        self.reason = reason
        self.layer = layer
        self.operator = operator
        self.file = file
        self.line = line

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), **self._arguments()), ()

    def _arguments(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def with_evidence(self, evidence: str, **fields: Any) -> Self:
        """Returns the error with one or more sentences added to its reason, and with other values of some fields."""
        return type(self)(**{**self._arguments(), "reason": f"{self.reason} {evidence}", **fields})


class TracingError(ExportError):
    """Keras cannot trace the model as one graph for all sizes of its dynamic dimensions."""


class UnsupportedError(ExportError):
    """The format, or the device of `target`, cannot express a part of the model.

    The part is an operator, a dtype, state or randomness.

    Attributes:
        layers: The operators of each layer, with the rules of the device that they break; empty without `target`.
    """

    def __init__(
        self,
        format: Format,
        model: str,
        reason: str,
        *,
        layers: tuple[TargetLayer, ...] = (),
        **location: Any,
    ) -> None:
        super().__init__(format, model, reason, **location)
        self.layers = layers


class InvalidArtifactError(ExportError):
    """The written artifact is not valid in the format, or its runtime does not load or run the artifact."""


class DisagreementError(ExportError):
    """The written artifact runs, and its outputs differ from Keras.

    `check_parity` would report the same layer and cause. The operator is set only if the layer has one that computes.

    Attributes:
        case: The inputs of the run in words, such as "drawn, batch 2, length 7".
        inputs: The inputs of the run as arrays, by name.
        cause: The cause of the difference; None if the export did not search for the cause.
    """

    def __init__(
        self,
        format: Format,
        model: str,
        reason: str,
        *,
        case: str = "",
        inputs: Mapping[str, Array] = MappingProxyType({}),
        cause: Cause | None = None,
        **location: Any,
    ) -> None:
        super().__init__(format, model, reason, **location)
        self.case = case
        self.inputs = dict(inputs)
        self.cause = cause


class UnknownSizesError(ValueError):
    """The model refuses all tried sizes. The `__cause__` is the model's own error.

    Attributes:
        asks_for_a_value: Whether the model accepts arrays but not symbolic tensors, since its Python code needs the
            value of a tensor.
        layer: The path of the layer that refuses the sizes; None if it is unknown.
        rows: The number of rows of the layer's table of positions if the table is too short; None otherwise.
        file: The file of the user's code that raised the cause, as Python names it; None if it is unknown.
        line: The line in that file.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        asks_for_a_value: bool = False,
        layer: str | None = None,
        rows: int | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.asks_for_a_value = asks_for_a_value
        self.layer = layer
        self.rows = rows
        self.file = file
        self.line = line

    def with_text(self, text: str) -> Self:
        """Returns the error with another text."""
        return type(self)(text, **vars(self))


class ProcessDiedError(Exception):
    """A subprocess ended before it answered a request."""


class ProcessHungError(Exception):
    """A subprocess did not answer in time, and was ended."""


class ForeignExitError(RuntimeError):
    """Code of a model, a runtime or a plug-in tried to end the process that called it, for example by `sys.exit()`.

    An error of a class that is not an `Exception` would end the process as well.
    """

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Returns the error for what the code raised."""
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return cls(f"code that was called tried to end the process ({describe(error)})")
        return cls(f"code that was called raised an error that is not an Exception ({describe(error)})")


class UnreadRequestError(Exception):
    """A subprocess cannot unpickle a request. The two processes may then disagree on which answer comes next."""


class RuntimeFailedError(Exception):
    """A runtime returned no outputs. This is the base class of the errors below."""


class RuntimeRefusedError(RuntimeFailedError):
    """A runtime answered with an error of its own."""


class InvalidAnswerError(RuntimeRefusedError):
    """A runtime returned something other than arrays by name."""


class RuntimeDiedError(RuntimeFailedError):
    """A runtime crashed, and its process ended."""


class RuntimeHungError(RuntimeFailedError):
    """A runtime did not answer in time."""


# The messages of the loader, C++, TensorFlow, JAX, PyTorch, ONNX Runtime and CUDA if memory is exhausted.
_OUT_OF_MEMORY = re.compile(
    r"failed to map segment from shared object|[Cc]annot allocate memory|bad_alloc|bad allocation|RESOURCE_EXHAUSTED"
    r"|OOM when allocating|\b[Oo]ut of memory\b|CUDA_ERROR_OUT_OF_MEMORY|[Ff]ailed to allocate memory"
)
_WHAT_FOLLOWS = "Error encountered:"  # the end of a paragraph by Keras, after which the actual message begins
_IN_A_LAYER = re.compile(r"Exception encountered when calling (\w+\.\w+\(\))\.?")


def check_type(argument: str, given: object, kind: type) -> None:
    """Raises TypeError unless the value of an argument is an instance of a class."""
    if not isinstance(given, kind):
        raise ArgTypeError(argument, f"must be of type {kind.__name__}. Received: {argument}={given!r:.80}")


def check_share(argument: str, given: object) -> None:
    """Raises ValueError unless the value of an argument is a number from 0 to 1."""
    if not (isinstance(given, Real) and 0 <= float(given) <= 1):
        raise ArgValueError(argument, f"must be a share, from 0 to 1. Received: {given!r}.")


def check_whole(argument: str, given: object, least: int, most: int | None = None) -> None:
    """Raises unless the value of an argument is a whole number in a range.

    Raises:
        TypeError: If the value is not an integer.
        ValueError: If the value is out of range.
    """
    rule = f"a whole number from {least}" if most is None else f"a whole number from {least} to {most}"
    if not isinstance(given, Integral) or isinstance(given, bool):
        raise ArgTypeError(argument, f"must be {rule}. Received: {argument}={given!r:.80}.")
    if int(given) < least or (most is not None and int(given) > most):
        raise ArgValueError(argument, f"must be {rule}. Received: {argument}={given!r}.")


def join_sentences(sentences: Iterable[str]) -> str:
    """Returns distinct sentences as one text. The first keeps its case, since the text follows a colon."""
    first, *others = dict.fromkeys(sentences)
    return " ".join([first, *(sentence[0].upper() + sentence[1:] for sentence in others)])


def sentence(message: object) -> str:
    """Returns the message of another error as one line that ends with one full stop."""
    return f"{' '.join(str(message).split()).rstrip(' .')}."


def first_line(error: BaseException | None) -> str:
    """Returns the first line of an error's message, without the full stop; the first two if a sentence spans them.

    Keras puts the names of the outer layers before the message of an error in a layer. They are skipped, except for the
    innermost layer.
    """
    message = re.sub(r"\x1b\[\d+m", "", _text(error)).rpartition("Exception encountered: ")[2]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    place = ""
    while len(lines) > 1:
        if around := _IN_A_LAYER.fullmatch(lines[0]):
            place = f"{around[1]}: "
        elif not lines[0].endswith(_WHAT_FOLLOWS):
            break
        lines.pop(0)
    if len(lines) > 1 and lines[0].endswith((":", ",")):
        lines[0] = f"{lines[0]} {lines[1]}"
    line = f"{place}{lines[0].rstrip('.')}" if lines else type(error).__name__
    return f"memory ran out ({line})" if is_out_of_memory(error) else line


def describe(error: BaseException) -> str:
    """Returns the type and the message of an error, like the last line of a traceback."""
    message = _text(error)
    if isinstance(error, ForeignExitError):  # its message names the class that the code raised
        return message
    named = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return f"memory ran out ({named})" if is_out_of_memory(error) else named


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or an error in its chain of causes, reports exhausted memory."""
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
    """Whether a message of a library or of the system reports exhausted memory."""
    return _OUT_OF_MEMORY.search(text) is not None


def _text(error: BaseException | None) -> str:
    """Returns the message of an error; an empty text if the error's own `__str__` raises."""
    try:
        return str(error)
    except Exception:  # a foreign class may do anything
        return ""
