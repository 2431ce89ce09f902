"""The checker of words reports each of its rules, and nothing in plain words."""

import importlib.util
from pathlib import Path

import pytest

from tests.source_tree import ROOT

SCRIPT = ROOT / ".ci" / "words.py"
SPEC = importlib.util.spec_from_file_location("words", SCRIPT)
assert SPEC
assert SPEC.loader
WORDS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(WORDS)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ('"""What a layer returns."""', "headless clause"),
        ("x = 1  # of the image", "headless clause"),
        ('"""Returns that which it has of those."""', "pronouns"),
        ('"""The value is none of the layer."""', "is none"),
        ('"""The exporter is told its sizes."""', "speaks"),
        (f'"""Returns {"one " * 30}."""', "25 words"),
        ("def told(): ...", "without a verb"),
        ("def _of_rows(): ...", "without a verb"),
        ("def test_what_is_given_is_returned(): ...", "headless name"),
    ],
)
def test_a_fault_is_reported_by_its_rule(code: str, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"{code}\n")
    assert [fault for _, fault in WORDS.python_faults(path) if rule in fault]


@pytest.mark.parametrize(
    "code",
    [
        '"""Returns the sizes that the model accepts, or None if it has none."""',
        '"""Returns nothing.\n\n    >>> what_of_it("those")\n    """',
        "def need(): ...",
        "# Where are the weights?",
    ],
)
def test_plain_words_are_not_reported(code: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"{code}\n")
    assert list(WORDS.python_faults(path)) == []
