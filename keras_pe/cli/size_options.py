"""Sizes of dimensions, as they are written on the command line."""

from collections.abc import Iterable

import click


def parse_sizes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes by the name of the dimension: "height=64,224" gives {"height": (64, 224)}.

    Raises:
        UsageError: If a text is not of this form, or a dimension comes twice.
    """
    sizes = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")  # a file of another exporter may call a dimension "n=1"
        if name in sizes:
            raise click.UsageError(f"--sizes must be given once for each dimension. Received: {name} twice.")
        try:
            sizes[name] = tuple(int(number) for number in numbers.split(","))
        except ValueError:
            sizes[name] = ()
        if not name or not sizes[name] or min(sizes[name]) < 1:
            raise click.UsageError(f"--sizes must be NAME=SIZE,SIZE with whole numbers from 1. Received: {text}.")
    return sizes
