"""The errors for invalid arguments, which have the name of the argument as a field."""

import os


class _ArgError(Exception):
    """An invalid argument.

    Attributes:
        argument: The name of the argument. None if Keras has raised the error again, which keeps the message alone.
    """

    def __init__(self, argument: str, text: str = "") -> None:
        """Makes the error.

        Args:
            argument: The name of the argument, with which the message begins. Without `text` it is the whole message.
            text: The rest of the message: the rule, the received value, and a way out.
        """
        super().__init__(f"`{argument}` {text}" if text else argument)
        self.argument = argument if text else None


class ArgValueError(_ArgError, ValueError):
    """An argument has an invalid value."""


class ArgTypeError(_ArgError, TypeError):
    """An argument has an invalid type."""


def check_path(argument: str, given: object) -> None:
    """Raises TypeError unless the value of an argument is a path."""
    if not isinstance(given, str | os.PathLike):
        raise ArgTypeError(argument, f"must be a path. Received: {argument}={given!r:.80}")


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a text in UTF-8, as TensorFlow, pyarrow and most runtimes require."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether TensorFlow reads the path of a SavedModel as a pattern of names, and does not find its variables."""
    return not set("*?[\\").isdisjoint(os.fspath(path))
