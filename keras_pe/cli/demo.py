"""`keras-pe demo`: train a Transformer on real data, export it, and show that the exports say the same."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_pe.cli.errors import Command, CouldNotBeTriedError
from keras_pe.cli.starting import start_keras
from keras_pe.export.dependencies import require

if TYPE_CHECKING:
    from rich.table import Table

    from keras_pe.demo.demonstration import Demonstration


# The names of keras_pe.demo.breaking, which imports Keras.
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
    help="Break the exported file in this way as well, and show what a check says of it.",
)
def demo(folder: Path, fault: str | None) -> int:
    """Train, export and check a forecaster of carbon dioxide, and leave everything in FOLDER (keras-pe-demo).

    Exits with 0 if the runtimes agree, the forecast beats the baseline, and a fault that was asked for is named by its
    cause; with 1 if not, 2 if it could not be tried.
    """
    from rich.console import Console

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
    output = Console()
    output.print(_table(found))
    if found.broken is not None:
        from keras_pe.export.parity.reports.text import render_terminal

        output.print(render_terminal(found.broken.document(), output.width), soft_wrap=True)
        if output.is_terminal:
            click.launch(str(found.folder / "broken.html"))
    output.print(f"{'passed' if found.passed else 'FAILED'} in {seconds:.0f} s; everything is in {found.folder}")
    return 0 if found.passed else 1


def _table(found: "Demonstration") -> "Table":
    from rich.table import Table
    from rich.text import Text

    rmse = found.rmse
    table = Table(title="twelve months ahead, ten years never seen", show_header=False)
    for name, label in [
        ("baseline", "error of 'same month last year' (RMSE)"),
        ("keras", "error of the forecast by Keras (RMSE)"),
        ("onnxruntime", "error of the forecast by ONNX Runtime (RMSE)"),
    ]:
        table.add_row(label, f"{rmse[name]:.3f} ppm")
    table.add_row("below the baseline by", f"{100 * (1 - rmse['keras'] / rmse['baseline']):.0f} %")
    table.add_row("Keras and ONNX Runtime differ by at most", f"{found.max_abs_diff:.1e} ppm")
    for result in found.parity.results:
        worst = result.worst
        difference = f", max difference {worst[1].max_abs_diff:.1e}" if worst else ""
        # As text: rich would take the brackets of "onnxruntime[all]" for markup.
        table.add_row(Text(f"parity in {result.runtime}"), f"{'passed' if result.passed else 'FAILED'}{difference}")
    return table
