"""The examples in docstrings print what they say."""

import doctest
import importlib

import pytest

from tests.source_tree import modules

EXAMPLES = sorted(name for name, path in modules().items() if ">>> " in path.read_text())


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_say(name: str) -> None:
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted
    assert not failed
