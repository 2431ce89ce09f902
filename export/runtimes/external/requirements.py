"""Where Node, Chromium and the npm packages are on this machine, or which command brings them.

`KERAS_PE_NODE` and `KERAS_PE_CHROMIUM` name the programs, `KERAS_PE_NODE_MODULES` the folder `node_modules`. Without
them the programs are looked for on the PATH, and the folder in the working directory and those above it, as Node does.
"""

import os
import shutil
from pathlib import Path

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_BROWSER_PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)


def find_node() -> str | None:
    """Returns Node's program, None if it is not there."""
    return _program("KERAS_PE_NODE", ("node", "nodejs"))


def find_chromium() -> str | None:
    """Returns the program of Chromium or Chrome, None if it is not there."""
    return _program("KERAS_PE_CHROMIUM", (*_BROWSERS, *_BROWSER_PLACES))


def find_package(name: str) -> Path | None:
    """Returns the folder of an npm package, None if it is not there."""
    named = os.environ.get("KERAS_PE_NODE_MODULES")
    here = Path.cwd()
    places = [Path(named)] if named else [folder / "node_modules" for folder in (here, *here.parents)]
    return next((place / name for place in places if (place / name / "package.json").is_file()), None)


def missing_in_node(package: str) -> str | None:
    """Says what is missing to run an npm package in Node, None if nothing is."""
    if find_node() is None:
        return _sentence("Node", "apt-get install nodejs npm", "KERAS_PE_NODE names the program")
    return _missing_package(package)


def missing_in_chromium(package: str) -> str | None:
    """Says what is missing to run an npm package in a browser, None if nothing is."""
    if find_chromium() is None:
        return _sentence("Chromium or Chrome", "apt-get install chromium", "KERAS_PE_CHROMIUM names the program")
    return _missing_package(package)


def _missing_package(package: str) -> str | None:
    if find_package(package) is not None:
        return None
    # onnxruntime-node's own installation step fetches CUDA, which is not used here.
    return _sentence(
        f"the npm package {package!r}",
        f"npm install --ignore-scripts {package}",
        "KERAS_PE_NODE_MODULES names the folder node_modules, if it is not in this directory or above",
    )


def _sentence(what: str, command: str, variable: str) -> str:
    return f"{what}. Install it with: {command} ({variable})"


def _program(variable: str, names: tuple[str, ...]) -> str | None:
    named = os.environ.get(variable)
    return next(filter(None, map(shutil.which, [named] if named else names)), None)
