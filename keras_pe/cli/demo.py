"""`keras-pe demo`: trains a Transformer on real data, exports it, and checks the files."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_pe.cli.exit_codes import Command, CouldNotBeTriedError
from keras_pe.cli.start_keras import start_keras
from keras_pe.cli.tables import add_row, text_table, whole_console
from keras_pe.export.dependencies import require

if TYPE_CHECKING:
    from rich.table import Table

    from keras_pe.demo.demonstration import Demonstration


# The names of keras_pe.demo.file_faults, which imports Keras.
FAULTS = (
    "layout",
    "start",
    "convention",
    "causal",
    "activation",
    "epsilon",
    "int8",
    "half",
    "scale",
    "sign",
    "rows",
    "missing",
    "nan",
    "file",
)


@click.command(cls=Command)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="keras-pe-demo")
@click.option(
    "--break",
    "fault",
    type=click.Choice(FAULTS),
    help="Also plant this fault in the exported file, and print the report of its check.",
)
def demo(folder: Path, fault: str | None) -> int:
    """Train, export and check a forecaster of carbon dioxide, and write all files to FOLDER (keras-pe-demo).

    Exits with 0 if the runtimes agree, the forecast beats the baseline, and a requested fault is named by its cause.
    Exits with 1 if not, and with 2 if the demonstration could not run.
    """
    try:
        require("demo", "keras", "tensorflow", "tf2onnx", "onnx", "onnxruntime", "matplotlib", extra="demo")
        folder.mkdir(parents=True, exist_ok=True)
        start_keras()
        from keras_pe.export.progress import telling

        with telling(True) as tell:
            from keras_pe.demo.demonstration import timed_demo

            found, seconds = timed_demo(folder, lambda stage, done, total: tell(done or 0, total, stage), fault)
    except (ValueError, ImportError, OSError) as error:
        raise CouldNotBeTriedError(str(error)) from error
    output = whole_console()
    output.print(_table(found))
    if found.broken is not None:
        from keras_pe.export.parity.reports.text import WIDTH, render_terminal

        output.print(render_terminal(found.broken.document(), min(output.width, WIDTH)), soft_wrap=True)
        output.print(f"With pictures: {found.folder / 'broken.html'}", markup=False)
    verdict = "passed" if found.passed else "FAILED"
    output.print(f"{verdict} in {seconds:.0f} s; everything is in {found.folder}", markup=False)
    return 0 if found.passed else 1


def _table(found: "Demonstration") -> "Table":
    rmse = found.rmse
    table = text_table("", "", title="twelve months ahead, ten years never seen")
    for name, label in [
        ("baseline", "error of 'same month last year' (RMSE)"),
        ("keras", "error of the forecast by Keras (RMSE)"),
        ("onnxruntime", "error of the forecast by ONNX Runtime (RMSE)"),
    ]:
        add_row(table, (label, f"{rmse[name]:.3f} ppm"))
    add_row(table, ("below the baseline by", f"{100 * (1 - rmse['keras'] / rmse['baseline']):.0f} %"))
    add_row(table, ("Keras and ONNX Runtime differ by at most", f"{found.max_abs_diff:.1e} ppm"))
    for result in found.parity.results:
        worst = result.worst
        difference = f", max difference {worst[1].max_abs_diff:.1e}" if worst else ""
        verdict = "passed" if result.passed else "FAILED"
        add_row(table, (f"parity in {result.runtime}", f"{verdict}{difference}"))
    return table
