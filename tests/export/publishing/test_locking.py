"""One process at a time, and nothing left behind."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from keras_pe.export.publishing.staging import locked

_HOLD = """
import sys
from pathlib import Path
from keras_pe.export.publishing.staging import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_no_two_hold_it_at_once_and_the_file_is_gone_afterwards(tmp_path: Path) -> None:
    count, most = 0, 0

    def hold() -> None:
        nonlocal count, most
        for _ in range(20):
            with locked(tmp_path / "lock"):
                count += 1
                most = max(most, count)
                os.sched_yield()
                count -= 1

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_another_process_is_waited_for_until_it_lets_go_or_dies(tmp_path: Path) -> None:
    for end in ("close", "kill"):
        command = [sys.executable, "-c", _HOLD, str(tmp_path / "lock")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            taken = threading.Event()

            def take(taken: threading.Event = taken) -> None:
                with locked(tmp_path / "lock"):
                    taken.set()

            thread = threading.Thread(target=take)
            thread.start()
            assert not taken.wait(0.2)
            process.stdin.close() if end == "close" else process.kill()
            thread.join()
            assert taken.is_set()
    assert list(tmp_path.iterdir()) == []
