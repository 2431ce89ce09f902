"""The commands on pages: those of this package run, and installing commands name the packages that CI installs."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from click.testing import CliRunner

from keras_pe.cli import main
from tests.source_tree import ROOT

# Commands of this package that another test runs: the demonstration trains a model, and a server is another
# machine's.
_TAKES_LONG, _ADDRESS = "demo", re.compile(r"http://")
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
_EXITS = re.compile(r"exits with (\d)")
_COMPLETION = re.compile(r"_KERAS_PE_COMPLETE=\w+ keras-pe")


def run_line(line: str) -> None:
    """Runs a line of a shell in the current folder, as far as this machine can.

    Raises:
        AssertionError: If it does not end with 0, or as its comment says, or if nobody knows the program.
    """
    command, _, comment = line.partition("  #")
    expected = int(found[1]) if (found := _EXITS.search(comment)) else 0
    if completion := _COMPLETION.search(command):
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = subprocess.run(completion[0], shell=True, env={**os.environ, **path}, capture_output=True, text=True)
        assert "keras" in done.stdout, line
    elif command.startswith("keras-pe "):
        run_command(command, expected)
    elif command.startswith("python ") and Path(command.split()[1]).is_file():
        done = subprocess.run([sys.executable, *command.split()[1:]], capture_output=True, text=True)
        assert done.returncode == expected, f"{line}\n{done.stderr}"
    else:
        assert is_installed_by_ci(command), f"nothing runs this line: {line}"


def run_command(command: str, expected: int = 0) -> None:
    """Runs a command of this package in this process, which has imported Keras already."""
    program, *arguments = shlex.split(command)
    assert program == "keras-pe", command
    if arguments[0] == _TAKES_LONG or _ADDRESS.search(command):
        known = main.commands[arguments[0]]
        known.make_context(arguments[0], arguments[1:])  # its options are there, and so are the files
        return
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == expected, f"{command}\n{done.output}"


def is_installed_by_ci(command: str) -> bool:
    """Whether a line installs what .ci/ or the package's own extras install, or starts what only a container has."""
    places = (ROOT / ".ci" / "places").read_text()
    match shlex.split(command):
        case ["docker", "run", *_]:
            return True
        case ["python", "-m", "venv", folder]:  # one that is there stands for it
            older = os.environ.get("KERAS_PE_TEST_OLDER")
            Path(folder).symlink_to(Path(older).parents[1] if older else sys.prefix)
            return True
        case ["apt-get", "install", *packages]:
            return all(re.search(rf"\b{package}\b", places) for package in packages)
        case ["npm", "install", *packages]:
            return all(f" {package}@" in places for package in packages if not package.startswith("-"))
        case ["python", "-m", "pip", "install", "-c", "constraints.txt", local]:
            return local.startswith(".") and set(re.findall(r"[\w-]+", local)) <= EXTRAS
        case ["python", "-m", "pip", "install", *packages] | [_, "install", *packages]:
            # keras-pe itself comes from a clone: no index has it.
            named = [package for package in packages if not package.startswith(".")]
            return all(package in places or package == "numpy" for package in named)
    return False
