"""The error of what could not be tried, and the exit codes of an interruption and of a fault that nobody foresaw."""

import contextlib
import traceback
from collections.abc import Iterator
from typing import Any

import click

_INTERRUPTED = 130  # 128, and the number of the signal


class CouldNotBeTriedError(click.ClickException):
    """What could not be tried, in a sentence: the exit code says so, too."""

    exit_code = 2


@contextlib.contextmanager
def tried(*others: type[Exception], what: str = "") -> Iterator[None]:
    """Runs a public function for a command: what it raises of an argument, a file or a package ends with code 2.

    Args:
        others: What else it may raise for such a reason.
        what: What the sentence is about, where the function cannot know it.
    """
    kinds: tuple[type[Exception], ...] = (ValueError, TypeError, ImportError, OSError, *others)
    try:
        yield
    except kinds as error:
        raise CouldNotBeTriedError(f"{what}: {error}" if what else str(error)) from error


class CommandGroup(click.Group):
    """A group of commands that ends with 2, and a traceback, where a command raises what it does not know.

    Python would end with 1, which says that what was asked does not hold, and so would click where it is interrupted:
    that ends with 130, as a shell expects of what Ctrl-C has ended.
    """

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click knows how to end at these
        except KeyboardInterrupt as error:
            click.echo("Interrupted.", err=True)
            raise click.exceptions.Exit(_INTERRUPTED) from error
        except Exception as error:
            traceback.print_exc()
            raise click.exceptions.Exit(CouldNotBeTriedError.exit_code) from error
