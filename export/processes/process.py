"""A subprocess with its folder, output and end; and a subprocess that holds an object."""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.errors import ProcessDiedError, ProcessHungError, tells_out_of_memory
from keras_pe.export.processes.descendants import end_marked, marks
from keras_pe.export.processes.temporary_folder import Closing, TemporaryFolder

_PATIENCE = 10.0  # seconds for the end of a process that has closed its pipe


class Process(Closing):
    """A program that has started. It reads nothing, and what it writes goes to a log.

    Attributes:
        pid: Its number.
        folder: Its folder for temporary files, such as a browser's profile. It is removed when the process ends.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        name: str = "the process",
        in_group: bool = False,
        in_pipes: bool = False,
    ) -> None:
        """Starts the program.

        Args:
            command: The program and its arguments.
            environment: Variables that come before those of this process's environment.
            name: Name in messages.
            in_group: Whether it leads a group of its own, which ends with it. So does what it has started in other
                groups and sessions, on Linux.
            in_pipes: Whether its standard streams are pipes, the standard error aside.

        Raises:
            OSError: If the program does not exist.
        """
        self._name, self._in_group = name, in_group
        self._letting_go = threading.Lock()  # one thread may close it while another reads how it ended
        self._may_have_others = True
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.folder = TemporaryFolder()
        self._popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if in_pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if in_pipes else self._log,
            stderr=self._log,
            env={
                **os.environ,
                "TMPDIR": str(self.folder.path),
                **(environment or {}),
                **marks(self.folder.path.name),
            },
            process_group=0 if in_group else None,
        )
        self.pid = self._popen.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process and its descendants are gone."""
        if self._popen.poll() is None:
            return False
        self._end_others()
        return True

    def kill(self) -> None:
        """Ends the process, and what it has started. Both are gone then."""
        self._popen.kill()
        self._popen.wait()
        self._end_others()

    def _end_others(self) -> None:
        """Ends what the process has started: once, as its number may be another group's later."""
        with self._letting_go:
            is_first, self._may_have_others = self._may_have_others, False
        if is_first:
            end_marked(self.folder.path.name)  # first, since it waits for those that it ends
            if self._in_group:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses a group of zombies
                    os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the process, and lets go of all that it held."""
        self.kill()
        for stream in filter(None, (self._popen.stdin, self._popen.stdout)):
            with contextlib.suppress(OSError):  # the last request is still in the buffer
                stream.close()
        with self._letting_go:
            self._log.close()
        self.folder.close()

    def how_it_ended(self) -> str:
        """Waits for the end, and returns its reason, with the last lines of the log. The process' descendants end as
        well.

        A process that has closed its pipe may go on all the same: it is ended after a while.
        """
        last = time.monotonic() + _PATIENCE
        while not (has_ended := self.has_ended) and time.monotonic() < last:
            time.sleep(0.01)
        self.kill()
        code = self._popen.wait()
        how = f"ended with signal {-code}" if code < 0 else f"ended with exit code {code}"
        how = how if has_ended else "closed its pipe and did not end"
        lines = self.log_lines()[-3:]
        if has_ended and (-code == signal.SIGKILL or any(map(tells_out_of_memory, lines))):
            how += " (memory may have run out)"
        return f"{self._name} {how}" + (f": {' | '.join(lines)}" if lines else "")

    def log_lines(self) -> list[str]:
        """Returns the output so far, or nothing after `close`."""
        with self._letting_go:
            if self._log.closed:
                return []
            # Not `seek`: the process writes at the position that both share.
            written = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0)
        return written.decode(errors="replace").strip().splitlines()

    def clear_log(self) -> None:
        """Forgets what it has written."""
        self._log.seek(0)
        self._log.truncate()


def import_paths() -> tuple[str, ...]:
    """Returns where a child process looks for modules: where this one does, and last in the current folder, if at all.

    In a notebook, and after `python -c`, this one looks there first.
    """
    return (*filter(None, sys.path), *([str(Path.cwd())] if "" in sys.path else []))


_START_LIMIT = 300.0  # Seconds: importing TensorFlow from a cold disk takes a minute.
_SERVE = "from keras_pe.export.processes.child_loop import main; main()"


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
            factory: Function that makes the object, as "package.module:name".
            arguments: Arguments of the factory.
            environment: Variables for the process, which come before those of this one's environment.
            name: Name in messages.
        """
        paths = {"PYTHONPATH": os.pathsep.join(import_paths())}
        # -P: a file of the current folder that is called like a package is not run.
        command = [sys.executable, "-P", "-c", _SERVE]
        super().__init__(command, {**(environment or {}), **paths}, name=name, in_group=True, in_pipes=True)
        self._answers: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._is_ready = self._is_asked = False
        with contextlib.suppress(ProcessDiedError):  # the next call raises it
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
        on_note: Callable[[Any], None] = lambda note: None,
    ) -> Any:
        """Returns what a method of the object returns.

        Args:
            method: Its name.
            arguments: Its arguments.
            limit: Seconds that the answer may take, however many notes come before it.
            on_note: Called with each note that the object leaves meanwhile.

        Raises:
            ProcessDiedError: If the process is gone, or its answer cannot be read.
            ProcessHungError: If there was no answer in time. The process is gone.
            UnreadRequestError: If the arguments cannot be made again there. The process ends.
            Exception: Whatever the method raises, or its factory.
        """
        if not self._is_ready:
            self._answer(_START_LIMIT, on_note)
            self._is_ready = True
        self._is_asked = True
        self._send((method, arguments))
        return self._answer(limit, on_note)

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
        except BaseException:
            if self._popen.stdin.closed:  # by another thread
                raise ProcessDiedError(self.how_it_ended()) from None
            self.kill()  # it has read half a message
            raise

    def _answer(self, limit: float | None, on_note: Callable[[Any], None]) -> Any:
        status, end = "note", time.monotonic() + (threading.TIMEOUT_MAX if limit is None else limit)
        while status == "note":
            try:
                answer = self._before(end)
            except queue.Empty:
                if self.has_ended:  # another process that it has started holds the pipe
                    raise ProcessDiedError(self.how_it_ended()) from None
                self.kill()
                raise ProcessHungError(f"no answer in {limit:g} s") from None
            if answer is None:
                raise ProcessDiedError(self.how_it_ended())
            status, value = answer
            if status == "note":
                on_note(value)
        if status == "unreadable":
            self.kill()
            raise ProcessDiedError(f"{value}; {self.how_it_ended()}")
        self._is_asked = False
        if status == "error":
            raise value
        return value

    def _before(self, end: float) -> tuple[str, Any] | None:
        """Returns the next message, or None if there will be no more.

        Raises:
            queue.Empty: If no message comes before `end`, or a note comes after it.
        """
        left = end - time.monotonic()
        message = self._answers.get(timeout=min(max(left, 0.0), threading.TIMEOUT_MAX))
        if left < 0 and message is not None and message[0] == "note":  # A child may send notes without end.
            raise queue.Empty
        return message

    def _read(self) -> None:
        """Passes the process's answers on, and None when there will be no more."""
        assert self._popen.stdout is not None
        try:
            while True:
                self._answers.put(pickle.load(self._popen.stdout))
        except EOFError:
            self._answers.put(None)
        except Exception as error:  # a broken pickle raises whatever it meets; the rest of the answer cannot be read
            self._answers.put(("unreadable", f"its answer cannot be read ({type(error).__name__}: {error})"))
