"""A child process that holds an object of this package, and answers for it."""

import contextlib
import os
import pickle
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from keras_pe.export.errors import ProcessDiedError, ProcessHungError
from keras_pe.export.processes.process import Process

_START_LIMIT = 300.0  # Seconds: importing TensorFlow from a cold disk takes a minute.
_SERVE = "from keras_pe.export.processes.serve import main; main()"


class Child(Process):
    """A process with an object in it. It starts importing at once; `ask` calls a method of the object.

    It sees the modules of this process, ends with this process however that ends, and what it has started ends with it.
    """

    def __init__(
        self,
        factory: str,
        *arguments: Any,
        environment: Mapping[str, str] | None = None,
        name: str = "the process",
    ) -> None:
        """Starts the process.

        Args:
            factory: What makes the object, as "package.module:name".
            arguments: Those of the factory.
            environment: Variables for the process, which come before those of this one's environment.
            name: What messages call it.
        """
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # -P: a file of the current folder that is called like a package is not run.
        command = [sys.executable, "-P", "-c", _SERVE]
        super().__init__(command, {**(environment or {}), **paths}, name=name, in_group=True, in_pipes=True)
        self._answers: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._is_ready = self._is_asked = False
        with contextlib.suppress(ProcessDiedError):  # the first who asks is told
            self._send((factory, arguments))

    @property
    def is_free(self) -> bool:
        """Whether the process is there and owes no answer."""
        return not self._is_asked and not self.has_ended

    def ask(
        self,
        method: str,
        *arguments: Any,
        limit: float | None = None,
        told: Callable[[Any], None] = lambda note: None,
    ) -> Any:
        """Returns what a method of the object returns.

        Args:
            method: Its name.
            arguments: Its arguments.
            limit: Seconds that the answer may take.
            told: Called with each note that the object leaves meanwhile.

        Raises:
            ProcessDiedError: If the process is gone, or its answer cannot be read.
            ProcessHungError: If there was no answer in time. The process is gone.
            Exception: Whatever the method raises, or its factory.
        """
        if not self._is_ready:
            self._answer(_START_LIMIT, told)
            self._is_ready = True
        self._is_asked = True
        self._send((method, arguments))
        return self._answer(limit, told)

    def close(self) -> None:
        self.kill()
        self._reader.join()
        super().close()

    def _send(self, message: Any) -> None:
        assert self._popen.stdin is not None
        try:
            pickle.dump(message, self._popen.stdin, protocol=pickle.HIGHEST_PROTOCOL)
            self._popen.stdin.flush()
        except OSError:
            raise ProcessDiedError(self.how_it_ended()) from None
        except BaseException:  # the process has read half a message
            self.kill()
            raise

    def _answer(self, limit: float | None, told: Callable[[Any], None]) -> Any:
        status = "note"
        while status == "note":
            try:
                answer = self._answers.get(timeout=limit)
            except queue.Empty:
                if self.has_ended:  # another process that it has started holds the pipe
                    raise ProcessDiedError(self.how_it_ended()) from None
                self.kill()
                raise ProcessHungError(f"no answer in {limit:g} s") from None
            if answer is None:
                raise ProcessDiedError(self.how_it_ended())
            status, value = answer
            if status == "note":
                told(value)
        if status == "unreadable":
            self.kill()
            raise ProcessDiedError(f"{value}; {self.how_it_ended()}")
        self._is_asked = False
        if status == "error":
            raise value
        return value

    def _read(self) -> None:
        """Passes the process's answers on, and None when there will be no more."""
        assert self._popen.stdout is not None
        try:
            while True:
                self._answers.put(pickle.load(self._popen.stdout))
        except EOFError:
            self._answers.put(None)
        except Exception as error:  # a broken pickle raises whatever it meets; what comes after it cannot be told
            self._answers.put(("unreadable", f"its answer cannot be read ({type(error).__name__}: {error})"))
