"""Runs a runtime in a child process, so that its crash or hang is an answer and not the end of the caller."""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.runtimes.lazy_arrays import LazyArrays
from keras_pe.export.runtimes.names import Names
from keras_pe.export.runtimes.runtime import Array, Arrays, RuntimeSpec

_START_LIMIT = 300.0  # Seconds: importing TensorFlow from a cold disk takes a minute.


class Worker:
    """One runtime in one child process. The process starts importing at once; `load` opens an artifact.

    Another `load` opens another artifact, with another runtime if one is given, in the same process, or in a new one if
    the process is gone. Every method raises `RuntimeRefusedError` with the runtime's own message, `RuntimeDiedError`,
    or `RuntimeHungError` after `timeout` seconds without an answer. The process is gone after the latter two.

    Attributes:
        names: What the artifact calls otherwise than those who ask: set after `load`, for as long as it is loaded.
    """

    inputs: tuple[TensorInfo, ...]
    version: str
    providers: Mapping[str, int]

    def __init__(self, spec: RuntimeSpec, timeout: float, environment: Mapping[str, str] | None = None) -> None:
        """Starts the process.

        Args:
            spec: The runtime.
            timeout: Seconds that an answer may take.
            environment: Variables for the process, which come before those of this one's environment.
        """
        self.spec = spec
        self._environment = dict(environment or {})
        self.seconds = 0.0
        self.names = Names()
        self.capabilities: frozenset[str] = frozenset()
        self._timeout = timeout
        self._start()

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        # What the process leaves there, such as a browser's profile, goes when it goes, however it ends.
        self._room = tempfile.TemporaryDirectory(prefix="keras-pe-", ignore_cleanup_errors=True)
        environment = {
            **os.environ,
            **self._environment,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": self._room.name,
        }
        self._process = subprocess.Popen(
            # -P: a file of the current folder that is called like a package is not run.
            [sys.executable, "-P", "-c", "from keras_pe.export.runtimes.child import main; main()", self.spec.factory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            process_group=0,  # its own, which `close` ends: a process that the runtime has started may outlive it
        )
        self._answers: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._ready = self._is_asked = False

    @property
    def is_free(self) -> bool:
        """Whether the process is there and owes no answer."""
        return not self._is_asked and not self._has_ended(os.WNOHANG)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, path: Path | None, spec: RuntimeSpec | None = None) -> None:
        """Opens an artifact.

        Args:
            path: The artifact.
            spec: Another runtime, or another variant of this one.
        """
        if self._ready and self._has_ended(os.WNOHANG):
            self.close()
            self._start()
        self.spec = spec or self.spec
        self.seconds = 0.0
        self.names = Names()
        about, _ = self._ask("load", self.spec.factory, str(path), dict(self.spec.options))
        self.inputs, self.version, self.providers, self.capabilities = about

    def unload(self) -> None:
        """Lets the artifact go, if there is one, which frees its memory. The process stays."""
        if self._ready:
            self._ask("unload")

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns every output by name, and adds the time inside the runtime to `seconds`."""
        outputs, seconds = self._ask("run", self.names.given(inputs))
        self.seconds += seconds
        return self.names.returned(outputs)

    def run_all(self, batches: Sequence[Mapping[str, Array]]) -> list[Arrays]:
        """Returns what `run` would for each of some batches, in one exchange; it may take as long for each.

        On a busy machine it is the exchanges that take the time: each waits for its turn at a processor several times.
        """
        outputs, seconds = self._ask(
            "run_all", [self.names.given(inputs) for inputs in batches], limit=self._timeout * len(batches)
        )
        self.seconds += seconds
        return [self.names.returned(each) for each in outputs]

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        """See `InspectableRuntime`; only where "intermediates" is among the capabilities."""
        arrays, _ = self._ask("intermediates", self.names.given(inputs), self.names.replaced(replaced))
        return self.names.returned(arrays)

    def weights(self) -> Mapping[str, Array]:
        """See `InspectableRuntime`; nothing where the runtime does not tell. Each comes when it is asked for."""
        names = self._ask("weights")[0] if "weights" in self.capabilities else []
        return LazyArrays(names, lambda name: self._ask("weight", name)[0])

    def float_dtypes(self) -> tuple[str, ...]:
        """See `InspectableRuntime`; nothing where the runtime does not tell."""
        return tuple(self._ask("float_dtypes")[0]) if "float_dtypes" in self.capabilities else ()

    def metadata(self) -> dict[str, str]:
        """See `InspectableRuntime`; nothing where the runtime does not tell."""
        return dict(self._ask("metadata")[0]) if "metadata" in self.capabilities else {}

    def close(self) -> None:
        """Ends the process, and those that it has started."""
        self._kill_group()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what it was sent last is still in the buffer
                    stream.close()
        self._log.close()
        self._room.cleanup()

    def _ask(self, request: str, *arguments: Any, limit: float | None = None) -> Any:
        if not self._ready:
            self._answer(_START_LIMIT)
            self._ready = True
        assert self._process.stdin is not None
        self._is_asked = True
        try:
            pickle.dump((request, arguments), self._process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except (BrokenPipeError, OSError):
            raise RuntimeDiedError(self._obituary()) from None
        return self._answer(self._timeout if limit is None else limit)

    def _answer(self, limit: float) -> Any:
        try:
            answer = self._answers.get(timeout=limit)
        except queue.Empty:
            if self._has_ended(os.WNOHANG):  # another process that it has started holds the pipe
                raise RuntimeDiedError(self._obituary()) from None
            self._kill_group()
            raise RuntimeHungError(f"no answer in {limit:g} s") from None
        if answer is None:
            raise RuntimeDiedError(self._obituary())
        self._is_asked = False
        status, value = answer
        if status == "unreadable":
            self._kill_group()
            raise RuntimeDiedError(f"{value}; {self._obituary()}")
        if status == "died":
            raise RuntimeDiedError(value)
        if status == "refused":
            raise RuntimeRefusedError(value)
        return value

    def _read(self) -> None:
        """Passes the child's answers on, and None when there will be no more."""
        assert self._process.stdout is not None
        try:
            while True:
                self._answers.put(pickle.load(self._process.stdout))
        except EOFError:
            self._answers.put(None)
        except Exception as error:  # a broken pickle raises whatever it meets; what comes after it cannot be told
            self._answers.put(("unreadable", f"its answer cannot be read ({type(error).__name__}: {error})"))

    def _has_ended(self, options: int = 0) -> bool:
        """Whether the process is gone; waits for it unless told not to. Its number stays its own until `wait`."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | options) is not None

    def _kill_group(self) -> None:
        """Ends the process, and those that it has started, while its number is still its own."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _obituary(self) -> str:
        """Says how the process ended, with the last lines it wrote. What it has started ends as well."""
        self._has_ended()
        self._kill_group()
        code = self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with {how}" + (f": {' | '.join(lines[-3:])}" if lines else "")
