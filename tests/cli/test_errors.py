"""What could not be tried ends with 2, also where nobody foresaw why."""

import click
from click.testing import CliRunner

from keras_pe.cli.errors import CommandGroup, CouldNotBeTriedError


@click.group(cls=CommandGroup)
def group() -> None:
    """A group with commands that end in every way."""


@group.command()
def sentence() -> None:
    raise CouldNotBeTriedError("the file is a folder")


@group.command()
def surprise() -> None:
    raise KeyError("dtypes")


@group.command()
def interruption() -> None:
    raise KeyboardInterrupt


@group.command()
def refusal() -> None:
    raise SystemExit(1)


def test_what_could_not_be_tried_is_a_sentence_and_exit_code_2() -> None:
    done = CliRunner().invoke(group, ["sentence"])
    assert (done.exit_code, done.stderr) == (2, "Error: the file is a folder\n")


def test_a_fault_that_nobody_foresaw_is_exit_code_2_with_the_traceback() -> None:
    done = CliRunner().invoke(group, ["surprise"])
    assert done.exit_code == 2
    assert done.stderr.startswith("Traceback")
    assert "KeyError: 'dtypes'" in done.stderr


def test_a_command_keeps_the_exit_code_that_it_chose() -> None:
    assert CliRunner().invoke(group, ["refusal"]).exit_code == 1
    assert CliRunner().invoke(group, ["--help"]).exit_code == 0
    assert CliRunner().invoke(group, ["surprise", "--bad"]).exit_code == 2


def test_an_interruption_ends_as_a_shell_expects_of_ctrl_c() -> None:
    done = CliRunner().invoke(group, ["interruption"])
    assert (done.exit_code, done.stderr) == (130, "Interrupted.\n")
