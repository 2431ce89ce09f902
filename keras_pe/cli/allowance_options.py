"""The options of `keras-pe check` for an artifact that differs on purpose."""

from collections.abc import Callable, Mapping
from typing import Any

import click


def _parse_atol(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> float | Mapping[str, float]:
    """Returns the tolerance of all outputs, or by the name of the output: "score=1e-3" gives {"score": 1e-3}."""
    found: dict[str, float] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        try:
            found[name] = float(value if name or not separator else text)
        except ValueError:
            raise click.BadParameter(f"It must be VALUE or OUTPUT=VALUE. Received: {text}.") from None
    if "" not in found:
        return found or 0.0
    if len(found) > 1:
        raise click.BadParameter(f"It must be one VALUE, or OUTPUT=VALUE for each. Received: {' '.join(texts)}.")
    return found[""]


_OPTIONS = (
    click.option("--rtol", type=float, default=0.0, help="Accept a difference of this share of the value."),
    click.option(
        "--atol",
        multiple=True,
        callback=_parse_atol,
        metavar="[OUTPUT=]VALUE",
        help="Accept this absolute difference, in every output or in one.",
    ),
    click.option("--precision", help="Accept what rounding to it does: float16, bfloat16 or int8."),
    click.option(
        "--allow-changed",
        type=float,
        default=0.0,
        show_default=True,
        help="Share of the decisions, or of the rows of --data, that may change.",
    ),
)


def allowance_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the options for what is accepted."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
