"""The options that make batches from the rows of a data set: the fields of `Batching`."""

from collections.abc import Iterable

import click

from keras_pe.cli.options import by_name, with_options


def _columns(
    context: click.Context, parameter: click.Parameter, pairs: Iterable[tuple[str, str]]
) -> dict[str, str | tuple[str, ...]]:
    """Returns the column of each input, or its columns."""
    found = by_name(context, parameter, pairs)
    return {name: tuple(text.split(",")) if "," in text else text for name, text in found.items()}


column_option = click.option(
    "--column",
    "columns",
    type=(str, str),
    multiple=True,
    callback=_columns,
    help="INPUT COLUMN: where the names differ. Several columns, as A,B,C, are the values of one input.",
)

batch_options = with_options(
    click.option("--batch-size", type=int, default=1024, show_default=True, help="Rows fed together."),
    click.option(
        "--length-bucket", "length_buckets", type=int, multiple=True, help="A size to pad variable lengths to."
    ),
    click.option(
        "--pad",
        "pad_values",
        type=(str, float),
        multiple=True,
        callback=by_name,
        help="INPUT VALUE: what to pad it with.",
    ),
    click.option("--sequence", metavar="COLUMN", help="Rows with one value in COLUMN are the steps of a sequence."),
)
