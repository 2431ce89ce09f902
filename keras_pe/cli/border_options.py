"""What an artifact takes and returns where that is not what the model does, as it is written on the command line."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

_OPTIONS = (
    click.option("--batch", type=click.IntRange(min=1), help="The one size of the batch. Default: what the model has."),
    click.option("--dtype", "dtypes", multiple=True, metavar="NAME=DTYPE", help="An input's type, as image=uint8."),
    click.option(
        "--layout",
        multiple=True,
        metavar="NAME=LAYOUT",
        help="channels_first or channels_last, for an input or output that has the other one in the model.",
    ),
    click.option(
        "--preprocessing",
        multiple=True,
        metavar="NAME=MODEL",
        help="A .keras file of the model that an input goes through before this one.",
    ),
    click.option("--output", "outputs", multiple=True, metavar="[NEW=]NAME", help="An output to keep. Default: all."),
    click.option(
        "--postprocessing",
        multiple=True,
        metavar="NAME=STEP",
        help="argmax, softmax, sigmoid, or top5 and the like, of the last axis of an output.",
    ),
)


def border_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the fields of a `Border`, which it receives by their names as `border`."""

    @functools.wraps(command)
    def call(
        batch: int | None,
        dtypes: tuple[str, ...],
        layout: tuple[str, ...],
        preprocessing: tuple[str, ...],
        outputs: tuple[str, ...],
        postprocessing: tuple[str, ...],
        **others: Any,
    ) -> Any:
        fields: dict[str, Any] = {
            "batch": batch,
            "dtypes": _pairs("--dtype", dtypes),
            "layout": _pairs("--layout", layout),
            "preprocessing": {name: Path(file) for name, file in _pairs("--preprocessing", preprocessing).items()},
            "outputs": _pairs("--output", (text if "=" in text else f"{text}={text}" for text in outputs)),
            "postprocessing": _pairs("--postprocessing", postprocessing),
        }
        return command(border={name: value for name, value in fields.items() if value}, **others)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def _pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Returns what stands behind each name.

    Raises:
        UsageError: If a text is not of the form NAME=VALUE, or a name comes twice.
    """
    pairs = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise click.UsageError(f"{option} must be NAME=VALUE. Received: {text}.")
        if name in pairs:
            raise click.UsageError(f"{option} must be given once for each name. Received: {name} twice.")
        pairs[name] = value
    return pairs
