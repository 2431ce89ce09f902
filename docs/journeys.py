"""Counts how often four journeys pass from file to file, in a real run, and writes the table into docs/architecture.md.

Usage: python docs/journeys.py [--print]

A hand-over is a function that calls one of another file of this package: counted once, however often it happens. A
pair of files that call each other is an exchange: the reader goes there and back. A lambda is read where it is written,
and counts as neither. What happens in child processes, what Keras and TensorFlow call back, and what runs at an import
is left out.
"""

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- journeys: written by docs/journeys.py -->", "<!-- end of journeys -->"
_HOME = (str(ROOT / "keras_pe") + os.sep, str(ROOT / "export") + os.sep)

Handover = tuple[str, str, str, str]  # the caller's file and function, the callee's


def _file(frame: FrameType) -> str | None:
    """Returns the file of this package that a frame runs, None for any other."""
    path = frame.f_code.co_filename.replace(f"keras_pe{os.sep}export{os.sep}", f"export{os.sep}")
    return path.removeprefix(str(ROOT) + os.sep) if path.startswith(_HOME) else None


@contextlib.contextmanager
def traced(handovers: set[Handover]) -> Iterator[None]:
    """Collects the hand-overs of what runs inside."""

    def notice(frame: FrameType, event: str, argument: Any) -> None:
        callee = _file(frame) if event == "call" else None
        caller = frame.f_back
        # A context manager is entered by contextlib, on behalf of whoever wrote `with`.
        while callee and caller and caller.f_code.co_filename == contextlib.__file__:
            caller = caller.f_back
        if not callee or not caller or frame.f_code.co_name == "<lambda>":
            return
        if "<module>" in (frame.f_code.co_name, caller.f_code.co_name):
            return
        source = _file(caller)
        if source and source != callee:
            handovers.add((source, caller.f_code.co_qualname, callee, frame.f_code.co_qualname))

    sys.setprofile(notice)
    try:
        yield
    finally:
        sys.setprofile(None)


def journeys(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields each journey and what to call: a layer, an export, a check of it, and the same on the command line."""
    import keras
    import numpy as np
    from click.testing import CliRunner

    import keras_pe
    from keras_pe.cli import main
    from keras_pe.export import check_parity, export_onnx

    inputs = keras.Input((None,), dtype="int32", name="tokens")
    x = keras_pe.SinusoidalPositionEncoding()(keras.layers.Embedding(50, 16, mask_zero=True)(inputs))
    x = keras.layers.MultiHeadAttention(2, 8)(x, x)
    model = keras.Model(inputs, keras.layers.Dense(2, name="scores")(x), name="encoder")
    model.save(folder / "model.keras")
    place = folder / "model.onnx"
    report = str(folder / "report.html")
    command = ["check", str(folder / "model.keras"), str(place), "--report", report]

    layer = keras_pe.SinusoidalPositionEncoding()
    yield "the layer's call", lambda: layer(np.zeros((2, 7, 16), "float32"))
    yield "`export_onnx`", lambda: export_onnx(model, place)
    yield "`check_parity`", lambda: check_parity(model, [place])
    yield "`keras-pe check --report`", lambda: CliRunner().invoke(main, command, catch_exceptions=False)


def table() -> str:
    """Returns the table: for each journey its files, its hand-overs, and its exchanges."""
    lines = ["| journey | files | hand-overs | exchanges |", "| --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        for name, run in journeys(Path(folder)):
            handovers: set[Handover] = set()
            with traced(handovers):
                run()
            pairs = {(source, target) for source, _, target, _ in handovers}
            files = {file for pair in pairs for file in pair}
            exchanges = {frozenset(pair) for pair in pairs if pair[::-1] in pairs}
            lines.append(f"| {name} | {len(files)} | {len(handovers)} | {len(exchanges)} |")
            for first, second in sorted(map(sorted, exchanges)):
                print(f"{name}: {first} and {second} call each other")
    return "\n".join(lines)


def main() -> None:
    """Writes the table, or prints it."""
    found = table()
    print(found)
    if "--print" not in sys.argv:
        page = ROOT / "docs" / "architecture.md"
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
