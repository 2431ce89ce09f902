"""`keras-pe identify`: finds the convention of a table of encodings."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_pe.cli.exit_codes import Command, tried
from keras_pe.cli.options import InputPath, json_option
from keras_pe.cli.tables_in_file import tables_in
from keras_pe.display import printable

if TYPE_CHECKING:
    from keras_pe.conventions import Match


@click.command(cls=Command)
@click.argument("file", type=InputPath(dir_okay=False))
@json_option("the matches")
def identify(file: Path, as_json: bool) -> int:
    """Print the convention, first position, layout and timescales of the tables of positions in FILE.

    FILE is an .npy file of (length, channels). Other files may contain such tables among other arrays: a .keras, .h5,
    .onnx, .npz, .safetensors, .pt or .pth file. If several matches are printed, the table fits each. If no table fits a
    convention, the command prints the nearest convention with its distance. Exits with 0 if there is a match, and with
    1 if there is no match or the table is too small. Exits with 2 if the file could not be read.
    """
    from keras_pe.conventions import identify as find

    with tried(what=str(file)):
        tables = tables_in(file)
        matches = [(name, match) for name, table in tables.items() for match in find(table)]
    if as_json:
        plain = [({"array": name} if name else {}) | dataclasses.asdict(match) for name, match in matches]
        click.echo(json.dumps(plain, indent=2))
    elif matches:
        texts = ((f"{name}\n" if name else "") + _describe(match) for name, match in matches)
        click.echo(printable("\n\n".join(texts)))
    else:
        click.echo(printable(_nearest_of(tables)))
    return 0 if any("conventions" not in match.undecided for _, match in matches) else 1


def _nearest_of(tables: Mapping[str, Any]) -> str:
    """Prints that no table fits a convention, and the nearest convention with its distance."""
    from keras_pe.conventions.identification.nearest import nearest

    distances = [(name, near) for name, table in tables.items() if (near := nearest(table))]
    text = "no known convention made this table" if "" in tables else "no known convention made a table in this file"
    if not distances:
        return text
    name, near = min(distances, key=lambda each: each[1].relative)
    scale = "" if f"{near.scale:.3g}" == "1" else f", multiplied by {near.scale:.3g}"
    share = f"{near.relative:.0%}" if near.relative >= 0.01 else f"{near.relative:.1g}"
    order = " on, descending" if near.step < 0 else ""
    return (
        f"{text}\nthe nearest is {near.convention!r}{f' to {name}' if name else ''}, from position {near.start_index}"
        f"{order}{scale}: off by {share} of the table's magnitude, and by {near.max_abs_diff:.2g} at most"
    )


def _describe(match: "Match") -> str:
    return "\n".join(f"{key:18}  {value}" for key, value in match.details().items())
