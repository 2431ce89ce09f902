"""The README's examples run as they stand, one after the other."""

import re
from pathlib import Path
from typing import Any

import pytest

from keras_pe import timing_signal

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES) >= 5
    names: dict[str, Any] = {"table": timing_signal(range(40), 64)}
    for example in EXAMPLES:
        exec(example, names)
    assert names["report"].passed
    names["test_the_export"](names["assert_parity"])  # what the fixture is


def test_the_first_two_sh_blocks_are_one_line_each_and_install_what_was_tried() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    assert [block.count("\n") for block in blocks] == [1, 1]
    assert all(block.startswith("python -m pip install -c constraints.txt ") for block in blocks)


def test_every_script_and_file_that_is_named_is_there() -> None:
    named = re.findall(r"(?:benchmarks|tests|notebooks|docs|keras_pe)/[\w./-]+", README)
    assert named
    for path in named:
        assert (Path(__file__).parent.parent / path).exists(), path
