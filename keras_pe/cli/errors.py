"""The error of what could not be tried, and the exit code of a fault that nobody foresaw."""

import traceback
from typing import Any

import click


class CouldNotBeTriedError(click.ClickException):
    """What could not be tried, in a sentence: the exit code says so, too."""

    exit_code = 2


class CommandGroup(click.Group):
    """A group of commands that ends with 2, and a traceback, where a command raises what it does not know.

    Python would end with 1, which says that what was asked does not hold.
    """

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click knows how to end at these
        except Exception as error:
            traceback.print_exc()
            raise click.exceptions.Exit(CouldNotBeTriedError.exit_code) from error
