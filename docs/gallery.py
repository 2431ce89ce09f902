"""Writes docs/gallery.md and its pictures: the report of a check for each planted fault.

Usage: python docs/gallery.py
"""

import re
import tempfile
from pathlib import Path

import keras
from edited_files import EDITED
from fault_examples import Example
from faulty_states import FAULTY_STATES
from mistaken_models import MISTAKEN
from other_interfaces import OTHER_INTERFACES
from quantized_files import QUANTIZED
from right_files import NOT_OF_FILES

from keras_pe.demo.file_faults import FAULTS
from keras_pe.demo.forecaster import build_forecaster
from keras_pe.export import Cause
from keras_pe.export.parity.reports.document import Part
from keras_pe.export.parity.reports.drawing import draw

ROOT = Path(__file__).parent.parent
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"

_INTRODUCTION = """\
<!-- Written by docs/gallery.py, which runs what it shows. -->
# Gallery of causes

Each section plants a fault, and shows the text and the picture of its report, and the remedy. A command beside the
fault shows the same on your machine, with the page that `--report report.html` writes. The other faults are planted by
`docs/edited_files.py`, `docs/mistaken_models.py`, `docs/faulty_states.py`, `docs/other_interfaces.py`,
`docs/quantized_files.py` and `docs/right_files.py`. The last digits of small differences are those of one machine.
[Causes](causes.md) has the meaning of each cause.

In each picture the filled area is the error over the axis that tells most, the dotted line is Keras' own, and the
dashed line is what is allowed.
"""
_PORT = re.compile(r"(?<=127\.0\.0\.1):\d+/")
_FOLDER = re.compile(rf"{re.escape(tempfile.gettempdir())}/tmp\w+/")


def _demonstrate(name: str) -> Example:
    """Returns a fault of the demonstration."""

    def make(path: Path) -> keras.Model:
        keras.utils.set_random_seed(0)
        model = build_forecaster(blocks=1)
        FAULTS[name].make(model, path)
        return model

    return Example(f"{FAULTS[name].story} `keras-pe demo --break {name}`", make)


_ALL = {
    **EDITED,
    **FAULTY_STATES,
    **MISTAKEN,
    **NOT_OF_FILES,
    **OTHER_INTERFACES,
    **QUANTIZED,
    **{fault.cause: _demonstrate(name) for name, fault in FAULTS.items()},
}
SHOWN = {cause: _ALL[cause] for cause in Cause}
"""The fault of each cause."""


def report(cause: Cause) -> Part:
    """Returns what the report says of the file that has the fault of a cause."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model = SHOWN[cause].make(path)
        parts = SHOWN[cause].check(model, path).document().parts
    return next(part for part in parts if any(each.text.startswith(cause) for each in part.statements))


def section(cause: Cause, part: Part) -> str:
    """Returns a cause with its fault, words and picture."""
    lines = [f"\n## {cause}\n", f"{SHOWN[cause].story}\n"]
    statements = [f"- **{each.label}**: {_escape(each.text)}" for each in part.statements]
    picture = [f"\n```{{raw}} html\n:file: gallery/{_file(cause)}\n```"] if _drawn(part) else []
    return "\n".join([*lines, *statements, *picture]) + "\n"


def _file(cause: Cause) -> str:
    return "-".join(re.findall(r"\w+", cause.lower())) + ".svg"


def _drawn(part: Part) -> str:
    shown = [picture for picture in part.pictures if picture.content]
    return draw(shown[0]) if shown else ""


def _escape(text: str) -> str:
    text = _PORT.sub(":8000/", _FOLDER.sub("", text))  # others in every run
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "\\<").replace("[", "\\[")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for picture in PICTURES.glob("*.svg"):
        picture.unlink()
    text = _INTRODUCTION
    for cause in SHOWN:
        part = report(cause)
        text += section(cause, part)
        if svg := _drawn(part):
            (PICTURES / _file(cause)).write_text(svg + "\n")
    PAGE.write_text(text)
