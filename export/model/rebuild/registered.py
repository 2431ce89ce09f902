"""What another process imports before it can load a model, and what it cannot import."""

import json
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def registering_modules(path: Path) -> tuple[str, ...]:
    """Returns the modules of this process that register what a `.keras` file names.

    Only what the caller has imported is imported elsewhere: a file does not say what is run.
    """
    if "keras" not in sys.modules:
        return ()
    import keras

    with zipfile.ZipFile(path) as file:
        config = file.read("config.json").decode()
    registered = keras.saving.get_custom_objects().items()
    modules = {found.__module__ for name, found in registered if json.dumps(name) in config}
    return tuple(sorted(modules - {"__main__"}))


def local_layer(layers: Iterable[Any]) -> Any:
    """Returns the first layer whose class is known in this process only, None where there is none."""
    return next(
        (layer for layer in layers if type(layer).__module__ == "__main__" or "<locals>" in type(layer).__qualname__),
        None,
    )
