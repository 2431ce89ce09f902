"""The position rules of implementations that number positions differently."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from keras_pe.signal.formula import Float64Array

Kind = Literal["direction", "start", "end", "example", "other"]

NEAR = [k for size in range(1, 9) for k in (size, -size)]  # offsets to try if the actual positions are unknown


@dataclass(frozen=True)
class PositionRule:
    """A rule by which an implementation may use other positions.

    Attributes:
        kind: The property of the positions that the rule changes; "example" is the example that positions belong to.
        description: The change in words, with the number in braces.
        apply: Returns the other positions, `(batch, length)`, from positions and a number.
        fit: Returns the number from our positions and the other positions; None if no number fits.
        tried: Numbers to try if the other positions are unknown; `(0.0,)` for a rule without a number.
    """

    kind: Kind
    description: str
    apply: Callable[[Float64Array, float], Float64Array]
    fit: Callable[[Float64Array, Float64Array], float | None] = lambda ours, theirs: 0.0
    tried: Sequence[float] = (0.0,)


def _ratio(ours: Float64Array, theirs: Float64Array) -> float | None:
    return float((ours * theirs).sum() / (ours * ours).sum()) if ours.any() else None


def _last_taken(ours: Float64Array, theirs: Float64Array) -> float | None:
    return float(theirs.max()) if (theirs < ours).any() else None


def _first_taken(ours: Float64Array, theirs: Float64Array) -> float | None:
    return float(theirs.min()) if (theirs > ours).any() else None


def _wrap(ours: Float64Array, theirs: Float64Array) -> float | None:
    fallen = (ours - theirs)[theirs < ours]
    return float(fallen.min()) if fallen.size and fallen.min() > 0 else None


_TABLE_ENDS = (*range(1, 16), *(2**k - 1 for k in range(5, 18)))
POSITION_RULES = (
    PositionRule("direction", "rotating in the other direction", lambda p, _: -p),
    PositionRule(
        "start",
        "with positions offset by {:g}",
        lambda p, k: p + k,
        lambda ours, theirs: float(np.median(theirs - ours)),
        NEAR,
    ),
    PositionRule(
        "start",
        "from position {:g}, for any start",
        lambda p, k: p - p[:, :1] + k,
        lambda ours, theirs: float(theirs.flat[0]),
        (),
    ),
    PositionRule(
        "end",
        "with positions beyond {0:g} clipped to {0:g}",
        np.minimum,
        _last_taken,
        _TABLE_ENDS,
    ),
    PositionRule("other", "with the position times {:g}", lambda p, k: p * k, _ratio, (2.0, 0.5)),
    PositionRule("other", "with positions below {0:g} clipped to {0:g}", np.maximum, _first_taken, (0.0, 1.0)),
    PositionRule(
        "other",
        "with the position of the first element for all elements of an example",
        lambda p, _: np.broadcast_to(p[:, :1], p.shape),
    ),
    PositionRule(
        "other",
        "with the position of the last element for all elements of an example",
        lambda p, _: np.broadcast_to(p[:, -1:], p.shape),
    ),
    PositionRule(
        "example",
        "with the positions of the first example for all examples",
        lambda p, _: np.broadcast_to(p[:1], p.shape),
    ),
    PositionRule("other", "with the positions in reverse order", lambda p, _: p[:, ::-1]),
    PositionRule("other", "with positions rounded down", lambda p, _: np.floor(p)),
    PositionRule("other", "with positions rounded to the nearest integer", lambda p, _: np.rint(p)),
    PositionRule(
        "other",
        "with positions counted from 0 again after every {:g}",
        np.mod,
        _wrap,
        (4.0, 8.0, 16.0, 32.0, 64.0, 128.0),
    ),
    PositionRule(
        "other",
        "with position {:g} everywhere",
        lambda p, k: np.full_like(p, k),
        lambda ours, theirs: float(theirs.flat[0]) if np.ptp(theirs) == 0 else None,
        (0.0, 1.0),
    ),
)
