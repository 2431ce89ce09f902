"""The argument MODEL where it is a file that Keras saved: what tells it from others, and the options of loading it."""

import importlib
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from keras_pe.cli.errors import CouldNotBeTriedError
from keras_pe.cli.quiet import start_keras

_OPTIONS = (
    click.option(
        "--import",
        "modules",
        multiple=True,
        metavar="MODULE",
        help="Import this before the model is loaded: it registers layers of your own. Looked for in this folder too.",
    ),
    click.option(
        "--unsafe",
        is_flag=True,
        help="Load Python code that the file holds, as that of a Lambda layer. Only for files of those you trust.",
    ),
)


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options of loading a model."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_model_file(path: Path) -> None:
    """Raises unless a file can be one that Keras saved a model to, without starting Keras, which takes seconds."""
    from keras_pe.export.model.saved_file import KERAS_SUFFIXES

    if path.suffix not in KERAS_SUFFIXES:
        raise CouldNotBeTriedError(f"MODEL must be a {', '.join(KERAS_SUFFIXES)} file. Received: {path}.")
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):
        raise CouldNotBeTriedError(f"{path} could not be loaded: it is no .keras file, or not a whole one.")


def prepare_keras(modules: Sequence[str], unsafe: bool) -> None:
    """Starts Keras and has it know what a model may be made of.

    Args:
        modules: What to import; from the current folder as well.
        unsafe: Whether Python code in a file may be loaded.

    Raises:
        CouldNotBeTriedError: If Keras does not start, or a module cannot be imported.
    """
    try:
        start_keras()
    except (ImportError, ValueError) as error:  # the latter where KERAS_BACKEND names none
        raise CouldNotBeTriedError(str(error)) from error
    import keras

    if unsafe:
        keras.config.enable_unsafe_deserialization()
    if modules:
        sys.path.insert(0, str(Path.cwd()))
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever a module raises
            raise CouldNotBeTriedError(f"--import {name} failed: {type(error).__name__}: {error}") from error
