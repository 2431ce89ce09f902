"""Runs a LiteRT file in LiteRT.js, in a page of a headless Chromium."""

import weakref
from collections.abc import Mapping
from pathlib import Path

from keras_pe.export.runtimes import Array, Arrays, tensor_info
from keras_pe.export.runtimes.external import hosts
from keras_pe.export.runtimes.external.bridge import Bridge

PACKAGE = "@litertjs/core"


class LiteRTJsRuntime:
    """A LiteRT file in LiteRT.js. WebGPU takes known sizes alone.

    Attributes:
        inputs: The inputs of the file.
        version: The package, its version, and where it runs.
        providers: One graph for "webgpu" if WebGPU computes the whole file, and otherwise for "wasm".
    """

    def __init__(self, path: str, accelerator: str) -> None:
        """Starts Chromium and opens the file there.

        Args:
            path: The file.
            accelerator: "wasm" or "webgpu".
        """
        folder = hosts.package_folder(PACKAGE)
        files = {"page.html": "litert_page.html", "litert_session.mjs": "litert_session.mjs", "wire.mjs": "wire.mjs"}
        served = {name: hosts.HERE / file for name, file in files.items()}
        self._bridge = Bridge({**served, "@litertjs": folder.parent})
        self._host = hosts.start("chromium", self._bridge.url)
        self._stop = weakref.finalize(self, _end, self._host, self._bridge)
        # Without JSPI, LiteRT.js fails if WebAssembly computes a part of a file for WebGPU.
        imported = {"request": "import", "folder": f"{PACKAGE}/wasm/", "jspi": accelerator == "webgpu"}
        about = self._bridge.ask(imported, {}, self._host.describe_end)[0]
        opening = {"accelerator": accelerator, "precision": "fp32", "model": self._bridge.share("model", Path(path))}
        opened = self._bridge.ask({"request": "open", **opening}, {}, self._host.describe_end)[0]
        self.inputs = tuple(tensor_info(name, shape, dtype) for name, dtype, shape in opened["inputs"])
        self.providers = {accelerator if opened["whole"] else "wasm": 1}
        device = f" on {opened['device']}" if opened["device"] else ""
        self.version = f"litertjs[{accelerator}] {about['version']} in {about['host']}{device}"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._bridge.ask({"request": "run"}, inputs, self._host.describe_end)[1]


def _end(host: hosts.Host, bridge: Bridge) -> None:
    host.close()
    bridge.close()
