"""The exit code of a command is its own: its verdict, 2 for what could not be tried, 130 after Ctrl-C."""

import contextlib
import errno
import os
import signal
import tempfile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from keras_pe.cli import main
from keras_pe.cli.exit_codes import Command, CouldNotBeTriedError, tried


@click.group()
def group() -> None:
    """A group with commands that end in every way."""


def command(function):
    return group.command(cls=Command)(function)


@command
def sentence() -> int:
    raise CouldNotBeTriedError("the file is a folder")


@command
def full() -> int:
    with tried():
        raise OSError(errno.ENOSPC, "No space left on device")
    return 0


@command
def surprise() -> int:
    raise KeyError("dtypes")


@command
def interruption() -> int:
    signal.raise_signal(signal.SIGINT)
    return 0


@command
def termination() -> int:
    signal.raise_signal(signal.SIGTERM)
    return 0


@command
def swallowed() -> int:
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException as error:
        raise ImportError("partially initialized module") from error
    return 0


@command
def finished() -> int:
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    return 0


@command
def verdict() -> int:
    return 1


@group.command(cls=Command)
@click.argument("name")
def other_code(name: str) -> int:
    """Raises what code of somebody else may raise to end the process."""

    class LastError(click.ClickException):
        exit_code = 0

    class NoExceptionError(BaseException):
        pass

    raise {
        "exit": SystemExit(0),
        "text": SystemExit("done"),
        "nothing": SystemExit(),
        "click": click.exceptions.Exit(0),
        "abort": click.Abort(),
        "message": LastError("done"),
        "interrupt": KeyboardInterrupt(),
        "generator": GeneratorExit(),
        "own": NoExceptionError(),
    }[name]


def test_a_check_that_could_not_be_tried_is_a_sentence_and_exit_code_2() -> None:
    done = CliRunner().invoke(group, ["sentence"])
    assert (done.exit_code, done.stderr) == (2, "Error: the file is a folder\n")


def test_a_fault_that_nobody_foresaw_is_exit_code_2_with_the_traceback() -> None:
    done = CliRunner().invoke(group, ["surprise"])
    assert done.exit_code == 2
    assert done.stderr.startswith("Traceback")
    assert "KeyError: 'dtypes'" in done.stderr


def test_a_command_keeps_the_exit_code_that_it_returns() -> None:
    assert CliRunner().invoke(group, ["verdict"]).exit_code == 1
    assert CliRunner().invoke(group, ["verdict", "--help"]).exit_code == 0
    assert CliRunner().invoke(group, ["surprise", "--bad"]).exit_code == 2


@pytest.mark.parametrize(
    "name", ["exit", "text", "nothing", "click", "abort", "message", "interrupt", "generator", "own"]
)
def test_other_code_cannot_choose_the_exit_code(name: str) -> None:
    done = CliRunner().invoke(group, ["other-code", name])
    assert done.exit_code == 2
    assert "Traceback" in done.stderr


@pytest.mark.parametrize("name", ["interruption", "swallowed", "finished"])
def test_an_interruption_ends_as_a_shell_expects_of_ctrl_c(name: str) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    done = CliRunner().invoke(group, [name])
    assert (done.exit_code, done.stderr) == (130, "Interrupted.\n")
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_sigterm_ends_as_ctrl_c_does_with_its_own_exit_code() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    done = CliRunner().invoke(group, ["termination"])
    assert (done.exit_code, done.stderr) == (143, "Interrupted.\n")
    assert signal.signal(signal.SIGTERM, before) is signal.SIG_DFL


@command
def memory() -> int:
    raise MemoryError


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("arguments", ["inspect {}", "identify {}", "export {} out.onnx", "check --replay {}"])
def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(arguments: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.keras")
    done = CliRunner().invoke(main, arguments.format(tmp_path / "pipe.keras").split())
    assert done.exit_code == 2
    assert "pipe or a device" in " ".join(done.output.split())


@pytest.mark.parametrize(
    "arguments",
    ["inspect {}", "identify {}", "export {} out.onnx", "check {} {}", "check --replay {}", "plot heatmap {}"],
)
def test_a_name_that_the_system_refuses_is_a_sentence_and_exit_code_2(arguments: str, tmp_path: Path) -> None:
    name = tmp_path / ("x" * 300 + ".png")
    done = CliRunner().invoke(main, arguments.format(name, name).split())
    assert done.exit_code == 2
    assert "File name too long" in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_memory_that_ran_out_is_a_sentence() -> None:
    done = CliRunner().invoke(group, ["memory"])
    assert done.exit_code == 2
    assert "memory ran out" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_temporary_folder_is_named_with_the_variable_that_moves_it() -> None:
    done = CliRunner().invoke(group, ["full"])
    assert done.exit_code == 2
    assert tempfile.gettempdir() in done.stderr
    assert "TMPDIR" in done.stderr


@group.command(cls=Command)
@click.argument("out")
@click.option("--atol")
@click.option("--opset", default=18)
def options(out: str, atol: str, opset: int) -> int:
    with tried():
        raise ValueError(
            "`atol` must be at least 0, `opset_version` a number, `filepath` free and `other` true. "
            "Received: atol=-1, other=Other([1], atol=2, opset={'out': 3}), opset=3."
        )


def test_an_argument_of_python_is_called_as_the_option_it_comes_from() -> None:
    done = CliRunner().invoke(group, ["options", "here", "--atol", "-1"])
    expected = "--atol must be at least 0, --opset a number, OUT free and `other` true. "
    expected += "Received: --atol -1, other=Other([1], atol=2, opset={'out': 3}), --opset 3."
    assert done.stderr == f"Error: {expected}\n"
