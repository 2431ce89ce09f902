"""The command line as a shell sees it: its streams may be closed or full, Ctrl-C may come at any time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT

INTERRUPTS = (
    "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept BaseException:\n    raise ImportError"
)


def notice_interrupts() -> None:
    """Undoes what a shell does for a program in the background, which ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(arguments: list[str], folder: Path | None = None, **options: object) -> "subprocess.CompletedProcess[str]":
    """Runs the command line in a process, with modules of a folder before those that are installed."""
    places = [*([str(folder)] if folder else []), str(ROOT), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    command = [sys.executable, "-m", "keras_pe", *arguments]
    options = {"preexec_fn": notice_interrupts, **options}
    return subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=300, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.quick_rows(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
@pytest.mark.parametrize("arguments", [["doctor"], ["--help"], ["doctor", "--help"]])
def test_a_full_standard_output_is_exit_code_2_and_a_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(arguments, stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left" in done.stderr


@pytest.mark.slow
def test_a_reader_that_has_gone_changes_no_verdict() -> None:
    read, write = os.pipe()
    os.close(read)
    done = run(["doctor"], stdout=write)
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == run(["doctor"], stdout=subprocess.DEVNULL).returncode


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_verdict(closed: str) -> None:
    command = f"exec {sys.executable} -m keras_pe identify README.md {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_sign_that_the_encoding_lacks_is_printed_as_its_number() -> None:
    code = "import sys; from keras_pe.cli.standard_streams import run; run(lambda: print('größe') or 1)"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "gr\\xf6\\xdfe\n", "")


@pytest.mark.parametrize("package", ["click", "rich"])
def test_ctrl_c_while_the_command_line_is_imported_is_130_without_a_traceback(tmp_path: Path, package: str) -> None:
    (tmp_path / f"{package}.py").write_text(INTERRUPTS)
    done = run(["doctor"], tmp_path)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


# Python prints these interrupts, and goes on: in a hook of the script's path, and in the callback of a module's lock.
SWALLOWED = {
    "path": "def interrupt(path):\n    if path == {script!r}:\n        raise KeyboardInterrupt\n    raise ImportError\n"
    "sys.path_hooks.insert(0, interrupt)",
    "lock": "def interrupt(frame, event, argument):\n    if event == 'call' and frame.f_code.co_name == 'cb':\n"
    "        raise KeyboardInterrupt\nsys.setprofile(interrupt)\nimport colorsys",
}


@pytest.mark.parametrize("hook", SWALLOWED.values(), ids=SWALLOWED)
def test_ctrl_c_that_python_swallows_before_the_script_starts_is_130(tmp_path: Path, hook: str) -> None:
    script = tmp_path / "keras-pe"
    script.write_text("from keras_pe.__main__ import main\nmain()")
    (tmp_path / "sitecustomize.py").write_text(f"import sys\n{hook.format(script=str(script))}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), *filter(None, sys.path)])}
    command, own = [sys.executable, script, "--help"], {"preexec_fn": notice_interrupts, "env": environment}
    done = subprocess.run(command, capture_output=True, text=True, **own)  # type: ignore[call-overload]
    assert (done.returncode, done.stdout) == (130, "")
    assert "KeyboardInterrupt" in done.stderr
    assert done.stderr.endswith("Interrupted.\n")


def test_ctrl_c_while_keras_is_imported_is_130_whatever_becomes_of_the_exception(tmp_path: Path) -> None:
    (tmp_path / "keras.py").write_text(INTERRUPTS)
    code = "from keras_pe.cli import start_keras, standard_streams; standard_streams.run(start_keras.start_keras)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), *filter(None, sys.path)])}
    command, own = [sys.executable, "-c", code], {"preexec_fn": notice_interrupts, "env": environment}
    done = subprocess.run(command, capture_output=True, text=True, **own)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


ENDINGS = {
    "a thread that goes on": "threading.Thread(target=time.sleep, args=[600]).start()",
    "a daemon that ends the process": "threading.Thread(target=late, daemon=True).start()",
    "an exit that is registered": "atexit.register(lambda: os._exit(0))",
    "an error that is registered": "atexit.register(sys.exit, 0)",
    "a stream that is closed": "sys.stdout.close()",
    "no stream": "sys.stdout = None",
}


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize("code", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("verdict", [0, 1])
def test_the_exit_code_is_the_commands(code: str, verdict: int) -> None:
    program = (
        "import atexit, os, sys, threading, time\nfrom keras_pe.cli.standard_streams import run\n"
        "def late():\n    while 'ends' not in globals(): pass\n    os._exit(0)\n"
        f"def command():\n    {code}\n    return {verdict}\n"
        "atexit.register(lambda: globals().update(ends=True))\nrun(command)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == verdict, done.stderr
