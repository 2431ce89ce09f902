"""Finds and starts the hosts of sessions: Node, headless Chromium, or another Python.

`KERAS_PE_NODE` and `KERAS_PE_CHROMIUM` name the programs, `KERAS_PE_NODE_MODULES` the folder `node_modules`. Without
them the programs are looked for on the PATH, and the folder in the working directory and those above it, as Node does.
"""

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_pe.export.runtimes import Process

HERE = Path(__file__).parent
_CHATTER = re.compile(r"\[[VI]:onnxruntime|:(INFO|WARNING|ERROR):|^\s*$")
_PLACED = re.compile(r"placed on \[(\w+)\]\. Number of nodes: (\d+)")

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_BROWSER_PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)

# A page of its own that asks nobody for anything, with WebGPU on any machine.
_CHROMIUM = (
    "--headless=new",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-extensions",
    "--enable-unsafe-webgpu",
    "--enable-features=Vulkan",
)


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


def missing_in(host: str, package: str) -> str | None:
    """Names the package that a host, "node" or "chromium", lacks for an npm package, and its installation."""
    if host == "node" and find_node() is None:
        return "Node. Install it with: apt-get install nodejs npm (KERAS_PE_NODE names the program)"
    if host == "chromium" and find_chromium() is None:
        return "Chromium or Chrome. Install it with: apt-get install chromium (KERAS_PE_CHROMIUM names the program)"
    if find_package(package) is not None:
        return None
    # onnxruntime-node's own installation step fetches CUDA, which is not used here.
    return (
        f"the npm package {package!r}. Install it with: npm install --ignore-scripts {package} "
        "(KERAS_PE_NODE_MODULES names the folder node_modules, if it is not in this directory or above)"
    )


class Host(Process):
    """A process that holds sessions. It ends with the group of the process that started it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        super().__init__(command, environment, name=command[0])

    def describe_end(self) -> str | None:
        """Says how the process ended; None while it runs."""
        return self.how_it_ended() if self.has_ended else None

    def log_lines(self) -> list[str]:
        return [line for line in super().log_lines() if not _CHATTER.search(line)]

    def count_placements(self) -> dict[str, int]:
        """Returns the number of nodes by execution provider, as ONNX Runtime logged it since the last call."""
        found: Counter[str] = Counter()
        for provider, count in _PLACED.findall("\n".join(super().log_lines())):
            found[provider] += int(count)
        self.clear_log()
        return dict(found)


def start(host: str, url: str, executable: str = "") -> Host:
    """Starts what fetches its requests from an address.

    Args:
        host: "node" for `session.mjs` in Node, "chromium" for its page in a headless Chromium with a new profile.
            "python" runs `session.py` in another installation, which sees its own packages only.
        url: The address.
        executable: The other Python.

    Raises:
        FileNotFoundError: If the program does not exist.
    """
    if host == "python":
        return Host([executable, "-I", str(HERE / "session.py"), url])
    if host == "node":
        return Host([_find(find_node(), "Node"), str(HERE / "session.mjs"), url])
    adapter = os.environ.get("KERAS_PE_WEBGPU_ADAPTER", "swiftshader")
    flags = [*_CHROMIUM, f"--use-webgpu-adapter={adapter}", f"--user-data-dir={tempfile.mkdtemp()}"]
    if os.geteuid() == 0:  # Chromium refuses to sandbox what root starts
        flags.append("--no-sandbox")
    # The path of a socket has 103 characters at most, so Chromium's sockets are not in a folder of this folder.
    return Host([_find(find_chromium(), "Chromium"), *flags, f"{url}page.html"], {"TMPDIR": tempfile.gettempdir()})


def package_folder(name: str) -> Path:
    """Returns the folder of an npm package.

    Raises:
        FileNotFoundError: If it is not there.
    """
    return Path(_find(find_package(name), name))


def _program(variable: str, names: tuple[str, ...]) -> str | None:
    named = os.environ.get(variable)
    return next(filter(None, map(shutil.which, [named] if named else names)), None)


def _find(place: str | Path | None, what: str) -> str:
    if place is None:
        raise FileNotFoundError(f"{what} no longer exists.")
    return str(place)
