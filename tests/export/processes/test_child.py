"""A child process ends with its parent, reports before it answers, and is ended if it is out of step."""

import colorsys
import contextlib
import errno
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from keras_pe.export.errors import ForeignExitError, ProcessDiedError, ProcessHungError
from keras_pe.export.processes.child_loop import note
from keras_pe.export.processes.process import Child
from keras_pe.export.processes.temporary_folder import TemporaryFolder
from tests.source_tree import ROOT

PARENT = """
import sys, threading
from keras_pe.export.processes.process import Child
child = Child("tests.export.processes.test_child:Held")
print(child.ask("pid"), child.folder.path, flush=True)
child.ask("compute")
"""


class WithCauseError(Exception):
    """An error whose cause is pickled with it, as tblib does."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {"__cause__": self.__cause__}


class Held:
    """The object in the child."""

    def pid(self) -> int:
        return os.getpid()

    def compute(self) -> None:
        while True:
            sum(range(1000))

    def count(self, end: int) -> int:
        for number in range(end):
            note(number)
        return end

    def count_for_ever(self) -> None:
        for number in itertools.count():
            note(number)
            time.sleep(0.01)

    def unreadable(self) -> Any:
        return Unreadable()

    def close_all(self) -> None:
        os.closerange(0, 100)
        time.sleep(600)

    def raises_from_local_class(self) -> None:
        class LocalError(Exception):
            pass

        raise WithCauseError("refused") from LocalError()

    def raises(self) -> None:
        raise KeyError(lambda: None)  # cannot be sent

    def run_out(self, way: str) -> None:
        if way == "bad_alloc":
            os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
            os.abort()
        os.kill(os.getpid(), signal.SIGKILL)

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def exits(self, error: BaseException) -> None:
        raise error

    def starts(self, ways: list[str]) -> list[int]:
        """Starts programs that go on, each in its own way, and returns their numbers."""
        return [int(subprocess.check_output([sys.executable, "-c", STARTS[way]], text=True)) for way in ways]


# Programs that print the number of another one, and end before it.
STARTS = {
    "in the group": "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=-3).pid)",
    "in a session": (
        "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=-3).pid)"
    ),
    "as a daemon": (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        os.closerange(0, 3)\n"
        "        time.sleep(600)\n"
    ),
    "by a child of its own": (
        "from keras_pe.export.processes.process import Process\n"
        "import os\n"
        "one = Process(['setsid', 'sh', '-c', 'sleep 600 & echo $!; wait'], in_pipes=True)\n"
        "print(int(one._popen.stdout.readline()), flush=True)\n"
        "os._exit(0)\n"
    ),
    "with memory": (  # the system frees it before the process is gone
        "import subprocess, sys\n"
        "code = 'import time; held = b\"1\" * 2**29; print(flush=True); time.sleep(600)'\n"
        "one = subprocess.Popen([sys.executable, '-c', code], stdout=-1, start_new_session=True)\n"
        "one.stdout.readline(); print(one.pid)"
    ),
    "with nohup": "import subprocess; print(subprocess.Popen(['nohup', 'setsid', 'sleep', '600'], stdout=-3).pid)",
}


class Unreadable:
    """Is written, and raises when it is read."""

    def __reduce__(self) -> Any:
        return divmod, (1, 0)


def is_there(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_that_computes_ends_with_a_parent_that_is_killed_and_its_folder_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # no other test makes directories there
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp_path)}
    (tmp_path / "keras-pe-demo").mkdir()  # a user's own
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=paths)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().split()
    assert is_there(int(pid))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 30  # a busy machine may take its time
    while is_there(int(pid)) and time.monotonic() < end:
        pass
    assert not is_there(int(pid))
    assert Path(folder).exists()
    with TemporaryFolder():
        assert not Path(folder).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["keras-pe-demo"]


@pytest.mark.slow
def test_notes_come_before_the_answer() -> None:
    notes: list[int] = []
    with Child(f"{__name__}:Held") as child:
        assert child.ask("count", 3, on_note=notes.append) == 3
    assert notes == [0, 1, 2]
    note("in a process that does not serve, nobody hears it")


@pytest.mark.slow
def test_notes_give_an_answer_no_more_time() -> None:
    with Child(f"{__name__}:Held") as child:
        child.ask("pid")
        start = time.monotonic()
        with pytest.raises(ProcessHungError, match=r"no answer in 0\.3 s"):
            child.ask("count_for_ever", limit=0.3)
        assert time.monotonic() - start < 60
        assert child.has_ended


def test_an_answer_may_be_waited_for_without_end() -> None:
    with Child(f"{__name__}:Held") as child:
        assert child.ask("count", 1, limit=float("inf")) == 1


@pytest.mark.slow
def test_an_error_that_cannot_be_sent_arrives_in_words_and_the_child_goes_on() -> None:
    with Child(f"{__name__}:Held") as child:
        with pytest.raises(RuntimeError, match="KeyError: <function"):
            child.ask("raises")
        with pytest.raises(WithCauseError, match="refused"):  # its cause, of a local class, stays in the child
            child.ask("raises_from_local_class")
        assert child.ask("count", 2) == 2


@pytest.mark.slow
def test_a_child_whose_answer_cannot_be_read_is_out_of_step_and_ends() -> None:
    with Child(f"{__name__}:Held") as child:
        with pytest.raises(ProcessDiedError, match=r"its answer cannot be read \(ZeroDivisionError"):
            child.ask("unreadable")
        assert not child.is_free


def test_a_child_that_closes_its_pipe_and_goes_on_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keras_pe.export.processes.process._PATIENCE", 0.0)
    with Child(f"{__name__}:Held", name="the child") as child:
        with pytest.raises(ProcessDiedError, match=r"^the child closed its pipe and did not end$"):
            child.ask("close_all")
        assert not is_there(child.pid)


def test_a_child_that_another_thread_ended_is_gone_for_whoever_asks() -> None:
    child = Child(f"{__name__}:Held", name="the child")
    assert child.ask("count", 1) == 1
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)  # waited for, and `Popen` not yet told
    assert child.has_ended
    child.close()
    with pytest.raises(ProcessDiedError, match=r"^the child ended with "):
        child.ask("count", 1)


IN_A_FOLDER = """
from keras_pe.export.processes.process import Child
with Child("own:Own") as child:
    print(*child.ask("places"), sep="\\n")
"""


@pytest.mark.slow
def test_a_child_sees_the_current_folder_where_its_parent_does_and_looks_there_last(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import colorsys\nclass Own:\n    def places(self):\n        return __file__, colorsys.__file__\n"
    )
    (tmp_path / "colorsys.py").write_text("")  # Python's own is taken
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*flags: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, *flags, "-c", IN_A_FOLDER]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert run().stdout.splitlines() == [str(tmp_path / "own.py"), colorsys.__file__]
    assert "No module named 'own'" in run("-P").stderr


def test_an_unpicklable_argument_is_the_callers_error_and_the_child_ends() -> None:
    with Child(f"{__name__}:Held") as child:
        assert child.ask("count", 1) == 1
        with pytest.raises((AttributeError, TypeError)):
            child.ask("count", lambda: None)
        assert not child.is_free


def test_a_folder_in_use_stays_and_goes_at_the_end() -> None:
    with TemporaryFolder() as one:
        with TemporaryFolder() as other:
            assert one.path.exists()
            assert one.path != other.path
        assert not other.path.exists()
        assert str(one.path).startswith(tempfile.gettempdir())
    assert not one.path.exists()


@pytest.mark.quick_rows(1)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", ["close", "kill", "a crash", "an error of ours"])
def test_descendants_of_a_child_end_with_it_in_whatever_session(end: str) -> None:
    with contextlib.suppress(ZeroDivisionError), Child(f"{__name__}:Held") as child:
        pids = child.ask("starts", list(STARTS))
        assert len(pids) == len(STARTS)
        assert all(map(is_there, pids))
        if end == "kill":
            child.kill()
        elif end == "a crash":
            with pytest.raises(ProcessDiedError):
                child.ask("die")
        elif end == "an error of ours":
            raise ZeroDivisionError
    assert not any(map(is_there, pids))


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit()])
def test_a_child_whose_code_exits_answers_with_an_error_and_goes_on(error: BaseException) -> None:
    with Child(f"{__name__}:Held") as child:
        with pytest.raises(ForeignExitError, match=type(error).__name__):
            child.ask("exits", error)
        assert child.ask("count", 2) == 2


def test_a_child_needs_no_call_that_macos_has_only_since_python_3_13(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "waitid")
    with Child(f"{__name__}:Held", name="the child") as child:
        assert child.ask("count", 1) == 1
        with pytest.raises(ProcessDiedError, match="signal 11"):
            child.ask("die")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EACCES, errno.EBADF])
def test_a_folder_whose_file_system_grants_no_locks_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse_lock(descriptor: int, *, blocking: bool = True) -> bool:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("keras_pe.export.processes.temporary_folder.lock_descriptor", refuse_lock)
    with TemporaryFolder() as one, TemporaryFolder() as other:
        assert sorted(tmp_path.iterdir()) == sorted([one.path, other.path])
    assert not list(tmp_path.iterdir())


def test_a_child_that_the_system_kills_or_that_tells_so_may_have_had_no_memory() -> None:
    for way in ("killed", "bad_alloc"):
        told = pytest.raises(ProcessDiedError, match="memory may have run out")
        with Child(f"{__name__}:Held", name="the child") as child, told:
            child.ask("run_out", way)
