"""Code of somebody else raises or returns: it does not end this process as if all was well."""

import os
import subprocess
import sys

import pytest

from keras_pe.export.errors import ForeignExitError
from keras_pe.export.processes.foreign_code import foreign_code
from tests.source_tree import ROOT


class OwnError(BaseException):
    """No Exception, as that of a test framework that skips."""


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("done"), GeneratorExit(), OwnError("skipped")])
def test_a_base_exception_becomes_an_exception(error: BaseException) -> None:
    with pytest.raises(ForeignExitError, match=type(error).__name__) as raised, foreign_code():
        raise error
    assert ("to end the process" in str(raised.value)) == isinstance(error, SystemExit)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a rule"), MemoryError()])
def test_an_interrupt_or_an_exception_stays(error: BaseException) -> None:
    with pytest.raises(type(error)), foreign_code():
        raise error


ENDINGS = {
    "os._exit(0)": 2,
    "os._exit(7)": 7,
    "t = threading.Thread(target=os._exit, args=[0], daemon=True); t.start(); t.join(); time.sleep(60)": 2,
    "pid = os.fork() or os._exit(0); sys.exit(9 + os.waitpid(pid, 0)[1])": 1,  # raised again, and nobody catches it
    "multiprocessing.get_context('fork').Process(target=len, args=['']).start()": 0,
    "threading.Thread(target=sys.exit).start()": 0,
}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("code", "expected"), ENDINGS.items())
def test_a_process_ends_with_0_only_if_the_block_has_returned(code: str, expected: int) -> None:
    program = (
        "import multiprocessing, os, sys, threading, time\n"
        "from keras_pe.export.processes.foreign_code import foreign_code\n"
        f"with foreign_code():\n    {code}\nsys.exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == expected, done.stderr
    assert ("SystemExit: 9" in done.stderr) == ("fork()" in code)


def test_the_systems_own_function_is_back_after_the_last_block() -> None:
    before = os._exit
    with foreign_code(), foreign_code():
        assert os._exit is not before
    assert os._exit is before
