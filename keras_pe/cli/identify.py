"""`keras-pe identify`: which convention made this table of encodings?"""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from keras_pe.cli.errors import CouldNotBeTriedError
from keras_pe.cli.table_file import read_table

if TYPE_CHECKING:
    from keras_pe.conventions import Match


@click.command()
@click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the matches as JSON, and nothing else.")
def identify(table: Path, as_json: bool) -> None:
    """Say which convention, first position, layout and timescales made TABLE, an .npy file of (length, channels).

    Several matches are several explanations that the table cannot tell apart. Exits with 0 if there is one at least, 1
    if it is none of the conventions or the table is too small to tell which, 2 if the file could not be read.
    """
    from keras_pe.conventions import identify as find

    try:
        matches = find(read_table(table))
    except (ValueError, TypeError) as error:
        raise CouldNotBeTriedError(f"{table}: {error}") from error
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(match) for match in matches], indent=2))
    elif matches:
        click.echo("\n\n".join(_described(match) for match in matches))
    else:
        click.echo("none of these conventions made this table")
    raise SystemExit(0 if any("conventions" not in match.undecided for match in matches) else 1)


def _described(match: "Match") -> str:
    starts = ", ".join(map(str, (match.start_index, *match.other_starts[:5])))
    more = len(match.other_starts) - 5
    scales = match.timescales
    longest = "" if match.max_timescale is None else f" (max_timescale {match.max_timescale:.10g})"
    lines = {
        "convention": _names(match),
        "first position": starts + (f" or one of {more} more" if more > 0 else ""),
        "layout": "either" if "layout" in match.undecided else match.layout,
        "timescales": f"{len(scales)}, from {scales[0]:.6g} to {scales[-1]:.6g} positions{longest}",
        "scale": f"{match.scale:.6g}",
        "largest difference": f"{match.max_abs_diff:.2g}",
    }
    return "\n".join(f"{key:18}  {value}" for key, value in lines.items())


def _names(match: "Match") -> str:
    if "conventions" in match.undecided:
        return "not to be told: so few columns are one convention's as well as another's"
    return ", ".join(match.conventions) or f"none: the timescales are of {', '.join(match.timescales_of)}"
