"""Where a failure comes from and why, as far as it was found out."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """A cause, and what speaks for it.

    Attributes:
        cause: A short fixed phrase, such as "wrong layout", or "unknown".
        evidence: A sentence or two, with the numbers.
        layer: The path of the Keras layer where the fault is, where that is known.
        output: The output that shows it, where it is one.
    """

    cause: str
    evidence: str
    layer: str | None = None
    output: str | None = None


@dataclass(frozen=True)
class LayerResult:
    """One Keras layer's output in the artifact, in the order in which the model computes.

    Attributes:
        layer: The layer's path, with the number of the call behind it where there are several.
        tensor: The artifact's tensor that holds the output; None where none does.
        max_abs_diff: The distance between the two in the artifact as it is; infinity where there is no such tensor.
        tolerance: The distance that is allowed.
        differs: Whether it is larger.
        originates_here: Whether the fault is this layer's own: with the outputs of the layers at fault before it
            replaced by Keras' own it still differs. None where this could not be tried.
    """

    layer: str
    tensor: str | None
    max_abs_diff: float
    tolerance: float
    differs: bool
    originates_here: bool | None = None


@dataclass(frozen=True)
class Proof:
    """What the artifact returns with the outputs of the layers at fault replaced by Keras' own.

    Attributes:
        layers: The layers whose outputs were replaced.
        max_abs_diff: Of the output that is furthest out of tolerance, from what Keras returns.
        tolerance: What is allowed for it.
        holds: Whether all outputs are within tolerance: the layers explain the whole difference.
    """

    layers: tuple[str, ...]
    max_abs_diff: float
    tolerance: float
    holds: bool
