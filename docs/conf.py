"""The configuration of Sphinx: python -m sphinx -W -b html docs docs/_build/html."""

import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from keras_pe.version import __version__

# The notebooks' kernels inherit this.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

project = "keras_pe"
copyright = "the authors of keras_pe, Apache-2.0"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
suppress_warnings = ["config.cache"]  # an entry of another site's inventory that cannot be stored does not matter

# Pages.
smartquotes = False  # names and options stand as they are typed
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 300  # seconds a cell
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "remove"  # TensorFlow logs at its start

# Docstrings: Google's sections and Keras' own, with code between single backticks.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88  # a longer one has a line for each parameter
napoleon_custom_sections = [
    ("Call arguments", "params_style"),
    "Input shape",
    "Output shape",
    "Source",
    "Deviation",
]


def _answers(site: str) -> bool:
    """Whether a site's inventory can be read; without a network the names of other packages are plain text."""
    try:
        with urllib.request.urlopen(f"{site}/objects.inv", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


# keras.io has no inventory.
_OTHERS = {"python": "https://docs.python.org/3", "numpy": "https://numpy.org/doc/stable"}
intersphinx_mapping = {name: (site, None) for name, site in _OTHERS.items() if _answers(site)}

# Appearance.
html_theme = "furo"
html_title = f"keras_pe {version}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
html_show_sourcelink = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


# Python's spelling of a signature, and the spelling that people know.
_NAMES = {
    r"<factory>": "...",
    r"[\w.]*_?Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]": "ArrayLike",
    r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[[^]]*\]\]": "numpy.ndarray",
}


def _read_sections(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Tells napoleon which section an own heading stands for."""
    lines[:] = ["Keyword Args:" if line == "Args (by name alone):" else line for line in lines]


def _read_signature(app: Any, what: str, name: str, found: Any, options: Any, given: str, returned: str) -> Any:
    """Writes types by the names that people know, and constants by their values."""

    def value(constant: re.Match[str]) -> str:
        return f"= {getattr(sys.modules[found.__module__], constant[1])!r}"

    for shown, known in _NAMES.items():
        given, returned = (text and re.sub(shown, known, text) for text in (given, returned))
    return given and re.sub(r"= ([A-Z][A-Z_]+)\b", value, given), returned


def setup(app: Any) -> None:
    """Registers what is above; sections are read before napoleon does."""
    app.connect("autodoc-process-signature", _read_signature)
    app.connect("autodoc-process-docstring", _read_sections, priority=400)
