"""The exit codes of commands: the verdict, 2 with a reason for a failed attempt, 128 and more after a signal."""

import contextlib
import errno
import re
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

import click

from keras_pe.cli.standard_streams import Interrupt, at_interrupt, exit_code
from keras_pe.display import printable

# Arguments of public functions that commands have by other names.
_OTHERWISE_IN_PYTHON = {
    "acceptance": ("rules",),
    "acceptance.decisions": ("decisions", "rules"),
    "border.inputs": ("renamed",),
    "external_data_threshold": ("external_data",),
    "filepath": ("out",),
    "name": ("names",),
    "opset_version": ("opset",),
    "path": ("file", "artifact"),
}


class CouldNotBeTriedError(click.ClickException):
    """An error of a command, in a sentence; the exit code states it, too."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # It may quote a name from a file.


@contextlib.contextmanager
def tried(*others: type[Exception], what: str = "") -> Iterator[None]:
    """Runs a public function for a command: what it raises of an argument, a file or a package ends with code 2.

    Args:
        others: Further exceptions of the same kind.
        what: Subject of the sentence, if the function cannot infer it.
    """
    kinds: tuple[type[Exception], ...] = (ValueError, TypeError, ImportError, OSError, *others)
    try:
        yield
    except kinds as error:
        message = in_options(describe(error))
        raise CouldNotBeTriedError(f"{what}: {message}" if what else message) from error


def describe(error: Exception) -> str:
    """Returns the message of an error. An error of the system becomes its path and the reason.

    A full disk is the temporary folder's if the error has no path: the error of a file that a command writes has one.
    """
    if not (isinstance(error, OSError) and error.strerror):
        return str(error)
    message = ": ".join(str(each) for each in (error.filename, error.strerror) if each is not None)
    folder = tempfile.gettempdir()
    is_temporary = error.filename is None or str(error.filename).startswith(folder)
    if is_temporary and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{message}. The temporary folder is {folder}; TMPDIR names another one."
    return message


def in_options(message: str) -> str:
    """Returns the message of a public function with the options and arguments of the command that is running.

    The function calls its arguments by their names in Python, `atol` for one, which is --atol on the command line.
    Names within brackets belong to a received value and stay.
    """
    context = click.get_current_context(silent=True)
    given = context.command.params if context is not None else []
    names = {
        each.name: each.opts[0] if each.param_type_name == "option" else each.human_readable_name for each in given
    }
    others = ((python, own) for python, each in _OTHERWISE_IN_PYTHON.items() for own in each)
    names |= {python: names[own] for python, own in others if own in names}

    def name_option(match: re.Match[str]) -> str:
        return names.get(match[1], match[0])

    def show_option(match: re.Match[str]) -> str:
        before = match.string[: match.start()]
        opened, closed = (sum(map(before.count, brackets)) for brackets in ("([{", ")]}"))
        return match[0] if opened > closed or match[2] not in names else f"{match[1]}{names[match[2]]} "

    return printable(re.sub(r"(Received: |, )(\w+)=", show_option, re.sub(r"`([\w.]+)`", name_option, message)))


class Command(click.Command):
    """A command whose callback returns the exit code, None for 0.

    Nothing else chooses the exit code. If code of a model raises SystemExit, or anything that no command foresees, the
    command ends with 2 and a traceback. After Ctrl-C it ends with 130, after SIGTERM with 143, as a shell expects.
    """

    def invoke(self, context: click.Context) -> Any:
        from keras_pe.export.errors import describe, is_out_of_memory, sentence
        from keras_pe.export.processes.foreign_code import exiting_with

        interrupt = Interrupt()
        try:
            with at_interrupt(interrupt), exiting_with(CouldNotBeTriedError.exit_code):
                code = super().invoke(context)
                if interrupt.number is not None:  # Code that was called caught the exception.
                    raise KeyboardInterrupt
        except BaseException as error:
            if interrupt.number is not None:
                click.echo("Interrupted.", err=True)
                raise click.exceptions.Exit(exit_code(interrupt.number)) from error
            if isinstance(error, click.ClickException) and error.exit_code:
                raise
            if is_out_of_memory(error):
                raise CouldNotBeTriedError(f"The command could not run: {sentence(describe(error))}") from error
            traceback.print_exc()
            if not isinstance(error, Exception):
                click.echo(f"Error: code that was called raised {type(error).__name__}.", err=True)
            raise click.exceptions.Exit(CouldNotBeTriedError.exit_code) from error
        raise click.exceptions.Exit(code or 0)
