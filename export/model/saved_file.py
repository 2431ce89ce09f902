"""Model files of Keras: their format, the loading, and the modules that a file needs."""

import contextlib
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.zip_files import ImplausibleSizeError
from keras_pe.export.errors import first_line
from keras_pe.export.model.foreign_file import SAVE_AGAIN, describe_foreign, read_configuration, saved_by
from keras_pe.export.model.watch.keras_internals import loads_python_code, sequential_models_built_once

KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")
"""The suffixes of the files that Keras loads."""

_OLD = KERAS_SUFFIXES[1:]
_LONGEST = 300  # characters of an error by Keras, which may print a whole configuration
_BY_ACCIDENT = (TypeError, LookupError, AttributeError, RecursionError)  # Keras raises ValueError on purpose
_UNKNOWN = re.compile(
    r"(?:Could not (?:locate|deserialize)|Unknown) \w+:? '[^']*'(?: because its parent module \S+ cannot be imported)?"
    r"|Cannot deserialize object of type `\w+`"
)
_LAMBDA = re.compile(r"Could not interpret [\w ]+ identifier(?=: \{)")
_IMPORT_IT = (
    "Import the module that defines it and registers it with Keras first, on the command line with --import MODULE."
)
_OLDER = (
    "Keras {} saved the file, and Keras 3 does not load every such file. Build the model in Keras 3, call "
    "model.load_weights({!r}), and save it as .keras."
)


class MissingCodeError(ValueError):
    """A file needs Python code that this process lacks or may not run. The file itself may be intact."""


def is_in_old_format(path: Path) -> bool:
    """Whether a path has a suffix of the old HDF5 format. The file is not opened."""
    return path.suffix in _OLD


def load_model(path: str | os.PathLike[str]) -> Any:
    """Returns the model of a file without compiling it. The layers of this package are registered.

    The sizes that the file claims are checked before Keras reads the file.

    Raises:
        MissingCodeError: If this process lacks the code of a layer, or may not run it.
        ValueError: If the file contains no complete model, or Keras cannot load it for any other reason.
    """
    check_saved_file(Path(path))
    import keras

    import keras_pe  # noqa: F401 - registers the layers

    try:
        with sequential_models_built_once():
            return keras.saving.load_model(path, compile=False)
    except Exception as error:
        is_refused = _holds_python_code(Path(path)) and not loads_python_code()
        kind = MissingCodeError if is_refused or _UNKNOWN.match(first_line(error)) else ValueError
        raise kind(f"{path} could not be loaded: {why_not_loaded(error, Path(path))}") from error


def check_saved_file(path: Path) -> None:
    """Raises ValueError if a file contains no complete Keras model. The message names the content and the way out.

    Keras is not imported.
    """
    if foreign := describe_foreign(path):
        raise ValueError(foreign)
    if path.suffix not in KERAS_SUFFIXES:
        raise ArgValueError("model", f"must be a {', '.join(KERAS_SUFFIXES)} file. Received: {path}.")
    try:
        read_configuration(path)
    except Exception as error:  # a damaged file may raise any error
        raise ValueError(
            f"{path} could not be loaded: its content cannot be read ({first_line(error)}). "
            f"{'' if isinstance(error, ImplausibleSizeError) else SAVE_AGAIN}".rstrip()
        ) from error


def why_not_loaded(error: BaseException | None, path: Path, for_unknown: str = _IMPORT_IT) -> str:
    """Returns the reason why Keras could not load a file, and the way out if one is known.

    Args:
        error: The error that Keras raised.
        path: The file.
        for_unknown: The way out for an unknown class or function.
    """
    if _holds_python_code(path) and not loads_python_code():
        return (
            "it holds the Python code of a Lambda layer. If you trust its author, allow it with --unsafe on the "
            "command line, or with keras.config.enable_unsafe_deserialization()."
        )
    text = textwrap.shorten(first_line(error), _LONGEST, placeholder=" ...")
    version = saved_by(path)
    is_older = bool(version) and int(version.partition(".")[0]) < 3
    older = _OLDER.format(version, str(path)) if is_older else ""
    if unknown := _UNKNOWN.match(text):  # drop the rest of the text, a page of configuration
        return " ".join(filter(None, (f"{unknown[0]}. {for_unknown}".strip(), older)))
    if unread := _LAMBDA.match(text):
        return f"{unread[0]}: Keras saves a lambda there, which it cannot load. Give the function a name. {for_unknown}"
    if isinstance(error, json.JSONDecodeError):
        return f"its configuration is not valid JSON ({text}). {SAVE_AGAIN}"
    if is_older:
        return f"{text}. {older}"
    if is_in_old_format(path) and not isinstance(error, OSError):  # an OSError means that the file is damaged
        return (
            f"{text}. Keras cannot load all that it saves in the format .h5, such as a sum 'x + y' of two layers. Save "
            "the model as .keras where it was made."
        )
    if isinstance(error, _BY_ACCIDENT):
        text = f"Keras cannot read the configuration in the file ({type(error).__name__}: {text})"
    return f"{text}. {_way_out(version)}"


def _way_out(version: str) -> str:
    """Returns the way out for a file of a version of Keras; an empty text stands for an unknown version."""
    import keras

    own = keras.version()
    if version in ("", own):
        return SAVE_AGAIN
    return (
        f"Keras {version} saved the file, and Keras {own} is installed. Install keras=={version}, or save the model "
        f"again with Keras {own}."
    )


def _holds_python_code(path: Path) -> bool:
    return not is_in_old_format(path) and '"__lambda__"' in _configuration(path)


def registering_modules(path: Path) -> tuple[str, ...]:
    """Returns the modules of this process that have registered the custom objects of a model file.

    A subprocess imports these modules. Only modules that the caller has imported count, so a file cannot choose the
    code that runs.
    """
    if "keras" not in sys.modules:
        return ()
    import keras

    config = _configuration(path)
    registered = keras.saving.get_custom_objects().items()
    modules = {found.__module__ for name, found in registered if json.dumps(name) in config}
    return tuple(sorted(modules - {"__main__"}))


def _configuration(path: Path) -> str:
    """Returns the JSON of a file's model; an empty text for a damaged file, which `load_model` reports."""
    with contextlib.suppress(Exception):
        return read_configuration(path)
    return ""


def local_layer(layers: Iterable[Any]) -> Any:
    """Returns the first layer whose class another process cannot import; None if all can be imported."""
    return next(
        (layer for layer in layers if type(layer).__module__ == "__main__" or "<locals>" in type(layer).__qualname__),
        None,
    )
