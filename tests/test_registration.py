"""`import keras_pe` is enough for Keras to find the layers, however Keras is imported, and does not import it.

A registration happens once in a process, so each test has a process of its own; several share one if possible.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOOK_UP = "keras.saving.get_registered_object('keras_pe>SinusoidalPositionEncoding') is not None"


def run(code: str, *, folder: Path = ROOT) -> str:
    """Returns what a fresh process prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_question_whether_keras_is_there_does_not_spend_the_registration() -> None:
    code = (
        "import importlib.util, sys, keras_pe\n"
        "spec = importlib.util.find_spec('keras')\n"
        "assert spec.loader.get_filename() == spec.origin\n"  # a loader that can be asked as the one found could
        "assert 'keras' not in sys.modules\n"
        "import keras\n"
        "assert type(keras.__loader__) is type(keras.__spec__.loader) is type(importlib.__loader__)\n"
        f"print({LOOK_UP})"
    )
    assert run(code) == "True"


@pytest.mark.slow
def test_other_import_hooks_a_reload_and_a_first_import_that_failed_are_no_hindrance() -> None:
    code = (
        "import importlib, importlib.util, os, sys\n"
        "class Before:\n"  # as libraries do that patch others after their import: it asks all finders from within
        "    asking = False\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name != 'keras' or self.asking: return None\n"
        "        self.asking = True\n"
        "        try: return importlib.util.find_spec(name)\n"
        "        finally: self.asking = False\n"
        "class Old:\n"  # without find_spec: Python 3.12 passes it over, 3.11 asks for this
        "    def find_module(self, name, path=None): return None\n"
        "import keras_pe\n"
        "sys.meta_path.insert(0, Before())\n"
        "sys.meta_path.append(Old())\n"
        "count = len(sys.meta_path)\n"
        "importlib.reload(keras_pe)\n"
        "assert len(sys.meta_path) == count\n"
        "import keras_pe.registration as registration\n"
        "importlib.reload(registration).register_with_keras()\n"  # a second finder that does what the first does
        "os.environ['KERAS_BACKEND'] = 'none of them'\n"
        "try: import keras\n"
        "except ValueError: pass\n"
        "else: raise AssertionError\n"
        "del os.environ['KERAS_BACKEND']\n"
        "for name in [name for name in sys.modules if name.split('.')[0] == 'keras']: del sys.modules[name]\n"
        "import keras\n"
        f"assert {LOOK_UP}\n"
        "importlib.reload(keras)\n"
        f"print({LOOK_UP})"
    )
    assert run(code) == "True"


@pytest.mark.slow
def test_a_thread_that_imports_keras_with_a_loader_of_the_old_kind_registers_the_layers() -> None:
    code = (
        "import importlib.machinery, sys, threading\n"
        "class OldLoader:\n"  # has load_module alone, as loaders had before Python 3.4
        "    def __init__(self, loader): self.loader = loader\n"
        "    def load_module(self, name):\n"
        "        module = sys.modules[name]\n"
        "        self.loader.exec_module(module)\n"
        "        return module\n"
        "class OldFinder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name != 'keras': return None\n"
        "        spec = importlib.machinery.PathFinder.find_spec(name, path)\n"
        "        spec.loader = OldLoader(spec.loader)\n"
        "        return spec\n"
        "sys.meta_path.insert(0, OldFinder())\n"
        "import keras_pe\n"
        "threads = [threading.Thread(target=lambda: __import__('keras')) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        f"import keras; print({LOOK_UP})"
    )
    assert run(code) == "True"


@pytest.mark.slow
def test_keras_pe_that_is_imported_while_a_thread_imports_keras_waits_for_it() -> None:
    code = (
        "import sys, threading\n"
        "begun = threading.Event()\n"
        "class Listener:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'keras.src': begun.set()\n"
        "sys.meta_path.insert(0, Listener())\n"
        "threading.Thread(target=lambda: __import__('keras')).start()\n"
        "begun.wait()\n"
        "assert 'keras' in sys.modules\n"
        "import keras_pe\n"
        "import keras\n"
        f"print({LOOK_UP})"
    )
    assert run(code) == "True"


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("first", ["rotations.composed", "layers.axes"])
def test_any_module_may_be_the_first_that_is_imported(first: str) -> None:
    """Importing Keras imports the layers, and with them modules that are being imported already."""
    assert run(f"import keras_pe.{first}, keras\nprint({LOOK_UP})") == "True"
