"""Writes docs/gallery.md and its pictures: what a check says of each fault of the demonstration, made by running it.

Usage: python docs/gallery.py
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import keras

from keras_pe.demo.breaking import FAULTS, Fault
from keras_pe.demo.forecaster import build_forecaster
from keras_pe.export import Cause, check_parity
from keras_pe.export.parity.presentation.remedies import REMEDIES
from keras_pe.export.parity.reports.document import Part
from keras_pe.export.parity.reports.drawing import draw

ROOT = Path(__file__).parent.parent
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"

_INTRODUCTION = """\
<!-- Written by docs/gallery.py, which runs what it shows. -->
# Gallery of causes

For each cause a fault that makes it, what the report says and draws, and what to do now. On your machine
`keras-pe demo --break layout` shows the same, with the page that `--report report.html` writes. The last digits of
small differences are those of one machine. What each cause means is on [its own page](causes.md).

In each picture the filled area is the error over the axis that tells most, the dotted line is Keras' own, and the
dashed line is what is allowed.
"""
_REST = """
## The others

| cause | what to do now |
| --- | --- |
"""

_FOLDER = re.compile(rf"{re.escape(tempfile.gettempdir())}/tmp\w+/")


def parts() -> Iterator[tuple[str, Fault, Part]]:
    """Yields each fault with its name and what the report says of the broken file."""
    keras.utils.set_random_seed(0)
    model = build_forecaster(blocks=1)
    with tempfile.TemporaryDirectory() as folder:
        for name, fault in FAULTS.items():
            path = Path(folder) / name / "forecaster.onnx"
            path.parent.mkdir()
            fault.make(model, path)
            (part,) = check_parity(model, path, runtimes="onnxruntime[all]").document().parts
            yield name, fault, part


def section(name: str, fault: Fault, part: Part) -> str:
    """Returns a cause with its fault, words and picture."""
    lines = [f"\n## {fault.cause}\n", f"{fault.story} `keras-pe demo --break {name}`\n"]
    said = [f"- **{each.label}**: {_escaped(each.text)}" for each in part.statements]
    picture = [f"\n```{{raw}} html\n:file: gallery/{name}.svg\n```"] if _drawn(part) else []
    return "\n".join([*lines, *said, *picture]) + "\n"


def rest() -> str:
    """Returns the causes that no fault of the demonstration makes, with their remedies."""
    made = {fault.cause for fault in FAULTS.values()}
    rows = [f"| {cause} | {remedy} |" for cause, remedy in REMEDIES.items() if cause not in made]
    return _REST + "\n".join(rows) + "\n"


def _drawn(part: Part) -> str:
    shown = [picture for picture in part.pictures if picture.content]
    return draw(shown[0]) if shown else ""


def _escaped(text: str) -> str:
    text = _FOLDER.sub("", text)  # another in every run
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "\\<").replace("[", "\\[")


if __name__ == "__main__":
    assert set(REMEDIES) == set(Cause)
    PICTURES.mkdir(exist_ok=True)
    text = _INTRODUCTION
    for name, fault, part in parts():
        text += section(name, fault, part)
        if svg := _drawn(part):
            (PICTURES / f"{name}.svg").write_text(svg + "\n")
    PAGE.write_text(text + rest())
