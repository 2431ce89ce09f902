"""Runs an ONNX file in a session of ONNX Runtime in Node, in a browser, or in another Python."""

import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_pe.export.runtimes import Array, Arrays, RuntimeRefusedError, tensor_info, weight_files
from keras_pe.export.runtimes.external import hosts
from keras_pe.export.runtimes.external.bridge import Bridge

if TYPE_CHECKING:
    from keras_pe.export.runtimes import InspectedModel

_MODEL, _PART = "model", "part"  # the sessions: the file as it is, and what is read inside it


class ExternalOnnxRuntime:
    """An ONNX file in a session of ONNX Runtime outside this Python.

    Attributes:
        inputs: Inputs of the artifact.
        version: The package, its version, and where it runs.
        providers: How many nodes each execution provider got, as the session itself says.
    """

    def __init__(
        self,
        path: str,
        host: str,
        package: str = "onnxruntime",
        module: str = "",
        variant: str = "",
        provider: str = "CPUExecutionProvider",
        level: str = "all",
        executable: str = "",
    ) -> None:
        """Starts the host and opens the file there.

        Args:
            path: The file.
            host: "node", "chromium" or "python".
            package: The package to import there.
            module: The file of the npm package that a page imports.
            variant: Variant of the package, for `version`.
            provider: The execution provider, as that package calls it.
            level: Level of graph optimization.
            executable: The other Python.
        """
        self._path, self._provider = Path(path), provider
        self._kind, self._package, self._module, self._executable = host, package, module, executable
        self._sessions: dict[str, tuple[Path | bytes, str]] = {}
        about = self._start()
        opened = self._open(_MODEL, self._path, level)
        self.inputs = tuple(tensor_info(name, shape, dtype) for name, dtype, shape in opened["inputs"])
        self.providers: dict[str, int] = opened.get("placed") or self._host.count_placements()
        device = f" on {opened['device']}" if opened["device"] else ""
        self.version = f"{package}{variant and f'[{variant}]'} {about['version']} in {about['host']}{device}"

    def _start(self) -> dict[str, Any]:
        """Starts the host, with the sessions that it had. Returns what it says of itself."""
        folder = None if self._kind == "python" else hosts.package_folder(self._package)
        files = {name: hosts.HERE / name for name in ("page.html", "session.mjs", "wire.mjs")}
        self._bridge = Bridge(files | ({self._package: folder} if folder else {}))
        self._host = hosts.start(self._kind, self._bridge.url, self._executable)
        where = {
            "node": {"module": self._package, "folder": str(folder)},
            "chromium": {"module": f"{self._package}/dist/{self._module}", "folder": f"{self._package}/dist"},
            "python": {},
        }
        self._stop = weakref.finalize(self, _end, self._host, self._bridge)
        self._is_stuck = False
        about = self._ask({"request": "import", **where[self._kind]})
        for session, (model, level) in self._sessions.items():
            self._open(session, model, level)
        return about

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._run(_MODEL, inputs)

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        computed = self._run(_PART, self._inspected.feeds(inputs, replaced), self._inspected.names)
        return self._inspected.as_read(computed)

    @cached_property
    def _inspected(self) -> "InspectedModel":
        """Reads tensors inside, in a session of its own."""
        from keras_pe.export.runtimes import InspectedModel

        inspected = InspectedModel(str(self._path))
        self._open(_PART, inspected.serialize(with_weights=True), "disabled")
        return inspected

    def _run(self, session: str, inputs: Mapping[str, Array], fetches: list[str] | None = None) -> Arrays:
        if self._is_stuck:
            self._stop()
            self._start()
        request = {"request": "run", "session": session, "fetches": fetches}
        try:
            return self._bridge.ask(request, inputs, self._host.describe_end)[1]
        except RuntimeRefusedError:
            # After a run that failed on WebGPU, onnxruntime-web 1.30 answers nothing more.
            self._is_stuck = self._provider == "webgpu"
            raise

    def _open(self, session: str, model: Path | bytes, level: str) -> dict[str, Any]:
        self._sessions[session] = (model, level)
        external = {} if isinstance(model, bytes) else weight_files(model)
        return self._ask(
            {
                "request": "open",
                "session": session,
                "model": self._bridge.share(session, model),
                "file": None if isinstance(model, bytes) else str(model.absolute()),
                "external": [
                    {"path": name, "url": self._bridge.share(f"weights-{i}", file)}
                    for i, (name, file) in enumerate(external.items())
                ],
                "provider": self._provider,
                "level": level,
            }
        )

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._bridge.ask(request, {}, self._host.describe_end)[0]


def _end(host: hosts.Host, bridge: Bridge) -> None:
    host.close()
    bridge.close()
