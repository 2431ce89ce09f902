"""`keras-pe plot`: a picture of an encoding, as PNG or SVG."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_pe.cli.exit_codes import Command, tried
from keras_pe.cli.options import InputPath
from keras_pe.cli.tables_in_file import read_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = ("heatmap", "similarity", "wavelengths", "error")


@click.command(cls=Command)
@click.argument("kind", type=click.Choice(_KINDS))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--convention",
    "names",
    multiple=True,
    help="Name of a convention. Default: tensor2tensor. Repeat the option for wavelengths.",
)
@click.option("--channels", type=click.IntRange(1), default=96, show_default=True, help="Width of the signal.")
@click.option("--length", type=click.IntRange(1), default=64, show_default=True, help="Number of positions.")
@click.option(
    "--table",
    type=InputPath(dir_okay=False),
    help="An .npy file of (length, channels) to draw instead of a convention's signal; error needs one.",
)
def plot(kind: str, picture: Path, names: tuple[str, ...], channels: int, length: int, table: Path | None) -> None:
    """Draw a heatmap, similarity, wavelengths or error of a signal or a table to PICTURE (.png or .svg).

    With error, the command draws the difference of a table from the exact signal of its convention. Exits with 1 if the
    table has no known convention, 2 if the command could not run.
    """
    if picture.suffix.lower() not in (".png", ".svg"):
        raise click.UsageError(f"PICTURE must end in .png or .svg. Received: {picture.name}.")
    if len(names) > 1 and kind != "wavelengths":
        raise click.UsageError(f"{kind} draws one convention. Received: {', '.join(names)}.")
    if table is not None and (names or kind == "wavelengths"):
        raise click.UsageError("--table goes with heatmap, similarity and error, and without --convention.")
    if table is None and kind == "error":
        raise click.UsageError("error needs a --table to compare with the exact signal.")
    from keras_pe.export.publishing.staging import staged_file

    with tried(MemoryError):
        axes = (
            _plot_table(kind, table)
            if table
            else _plot_conventions(kind, names or ("tensor2tensor",), channels, length)
        )
        with staged_file(picture, "The picture") as part:
            axes.figure.savefig(part, dpi=150)  # type: ignore[union-attr]  # a figure of its own, no part of another
    click.echo(f"{picture} written")


def _plot_conventions(kind: str, names: tuple[str, ...], channels: int, length: int) -> "Axes":
    import numpy as np

    from keras_pe import plots
    from keras_pe.conventions import convention
    from keras_pe.signal.formula import timing_signal

    chosen = [convention(name) for name in names]
    if kind == "wavelengths":
        axes = None
        for each in chosen:
            axes = plots.wavelengths(each.timescales(channels), label=each.name, ax=axes)
        assert axes is not None  # there is one convention at least
        return axes
    [each] = chosen
    if each.axes > 1:
        raise ValueError(f"{kind} draws positions along one axis. {each.name!r} is a convention for images.")
    positions = np.arange(each.start_index, each.start_index + length)
    signal = timing_signal(positions, channels, layout=each.layout, timescales=each.timescales(channels))
    axes = (plots.heatmap if kind == "heatmap" else plots.similarity)(signal, start_index=each.start_index)
    axes.set_title(f"{axes.get_title()} ({each.name})")
    return axes


def _plot_table(kind: str, path: Path) -> "Axes":
    import numpy as np

    from keras_pe import plots
    from keras_pe.conventions import identify
    from keras_pe.conventions.identification.encoding_table import as_matrix
    from keras_pe.signal.formula import timing_signal

    with np.errstate(invalid="ignore"):  # a damaged table may have signaling NaNs
        table = as_matrix(read_table(path)).astype(np.float64)
    if kind != "error":
        return (plots.heatmap if kind == "heatmap" else plots.similarity)(table)
    matches = identify(table)
    if not matches:
        raise click.ClickException(f"none of the conventions made {path}: there is no exact signal to compare with.")
    match = matches[0]
    arguments = match.layer_arguments()
    del arguments["start_index"]
    # A scale of 1 is fitted to 1 and a rounding error, which would hide where the table is exact.
    scale = 1.0 if abs(match.scale - 1.0) < 1e-5 else match.scale
    exact = scale * timing_signal(match.positions(len(table)), table.shape[1], **arguments)
    axes = plots.error_by_position(table, exact, start_index=match.start_index)
    if match.conventions:
        axes.set_title(f"{axes.get_title()} ({match.conventions[0]})")
    return axes
