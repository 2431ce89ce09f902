"""Starts what holds the sessions: Node, a headless Chromium, or another Python."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from keras_pe.export.runtimes import Process
from keras_pe.export.runtimes.external.requirements import find_chromium, find_node, find_package

HERE = Path(__file__).parent
_CHATTER = re.compile(r"\[[VI]:onnxruntime|:(INFO|WARNING|ERROR):|^\s*$")
_PLACED = re.compile(r"placed on \[(\w+)\]\. Number of nodes: (\d+)")

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


class Host(Process):
    """A process that holds sessions. It ends with the group of the process that started it."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command, name=command[0])

    def ended(self) -> str | None:
        """Says how the process ended; None while it runs."""
        return self.how_it_ended() if self.has_ended else None

    def log_lines(self) -> list[str]:
        return [line for line in super().log_lines() if not _CHATTER.search(line)]

    def placed(self) -> dict[str, int]:
        """Returns the number of nodes by execution provider, as ONNX Runtime logged it since the last call."""
        found: Counter[str] = Counter()
        for provider, count in _PLACED.findall("\n".join(super().log_lines())):
            found[provider] += int(count)
        self.clear_log()
        return dict(found)


def start_node(url: str) -> Host:
    """Starts `session.mjs` in Node.

    Raises:
        FileNotFoundError: If there is no Node.
    """
    return Host([_found(find_node(), "Node"), str(HERE / "session.mjs"), url])


def start_chromium(url: str) -> Host:
    """Opens the page of `session.mjs` in a headless Chromium with a profile of its own.

    Raises:
        FileNotFoundError: If there is no Chromium.
    """
    adapter = os.environ.get("KERAS_PE_WEBGPU_ADAPTER", "swiftshader")
    flags = [*_CHROMIUM, f"--use-webgpu-adapter={adapter}", f"--user-data-dir={tempfile.mkdtemp()}"]
    if os.geteuid() == 0:  # Chromium refuses to sandbox what root starts
        flags.append("--no-sandbox")
    return Host([_found(find_chromium(), "Chromium"), *flags, f"{url}page.html"])


def start_python(url: str, executable: str) -> Host:
    """Starts `session.py` in another installation of Python, which sees its own packages only."""
    return Host([executable, "-I", str(HERE / "session.py"), url])


def package_folder(name: str) -> Path:
    """Returns the folder of an npm package.

    Raises:
        FileNotFoundError: If it is not there.
    """
    return Path(_found(find_package(name), name))


def _found(place: str | Path | None, what: str) -> str:
    if place is None:
        raise FileNotFoundError(f"{what} is not there any more.")
    return str(place)
