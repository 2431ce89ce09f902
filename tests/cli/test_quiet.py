"""A command starts Keras in a process of its own: without a word, and without what no command uses."""

import subprocess
import sys

import pytest

CODE = """
import gc, importlib.util, sys
from keras_pe.cli.quiet import start_keras

start_keras()
unused = [name for name in ("IPython", "matplotlib", "pandas") if name in sys.modules]
print(unused, importlib.util.find_spec("matplotlib") is not None, gc.isenabled(), gc.get_freeze_count() > 100_000)
frozen = gc.get_freeze_count()
start_keras()
print(gc.get_freeze_count() == frozen)
"""


@pytest.mark.slow
def test_it_imports_what_is_needed_and_leaves_the_rest_to_those_who_ask():
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.stdout.split("\n")[:2] == ["[] True True True", "True"]
    assert done.stderr == ""
