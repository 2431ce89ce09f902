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
    help="INPUT COLUMN: the column of an input, if the names differ. Columns A,B,C are the values of one input.",
)

batch_options = with_options(
    click.option("--batch-size", type=int, default=1024, show_default=True, help="Number of rows in a batch."),
    click.option(
        "--length-bucket", "length_buckets", type=int, multiple=True, help="Pad variable lengths to this size."
    ),
    click.option(
        "--pad",
        "pad_values",
        type=(str, float),
        multiple=True,
        callback=by_name,
        help="INPUT VALUE: the value that pads an input.",
    ),
    click.option("--sequence", metavar="COLUMN", help="Rows with one value in COLUMN are the steps of a sequence."),
)
