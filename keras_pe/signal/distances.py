"""Slopes, buckets and log-spaced distances of relative encodings, in exact arithmetic."""

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.signal.formula import Float64Array, check_number

SlopeRule = Literal["press", "mpt", "paper"]
BucketRule = Literal["t5", "deberta", "clipped"]
IntArray = npt.NDArray[np.int32]


def alibi_slopes(num_heads: int, rule: SlopeRule = "press", bias_max: float = 8.0) -> Float64Array:
    """Returns the slope of each head's linear penalty: `2 ** (-bias_max * (i + 1) / num_heads)` for a power of two.

    Args:
        num_heads: Number of heads, at least 1.
        rule: Slopes for another number than a power of two. "press", the authors' code (Bloom, keras-hub,
            x-transformers):
            the slopes of the power below, then every other one of the power above. "mpt": the same slopes, as MPT's
            code writes them. "paper": the formula as it stands (MLX before version 0.30).
        bias_max: `alibi_bias_max` of MPT and keras-hub.

    Returns:
        `(num_heads,)`, float64; exact where they are powers of two.

    Source:
        Press et al., "Train Short, Test Long", arXiv 2108.12409, and ofirpress/attention_with_linear_biases.
    """
    if num_heads < 1:
        raise ArgValueError("num_heads", f"must be at least 1. Received: {num_heads=}.")
    if rule not in ("press", "mpt", "paper"):
        raise ArgValueError("rule", f"must be one of 'press', 'mpt', 'paper'. Received: {rule=}.")
    if rule == "paper":
        return _slopes(num_heads, bias_max)
    below: int = 2 ** (num_heads.bit_length() - 1)
    return np.concatenate([_slopes(below, bias_max), _slopes(2 * below, bias_max)[::2]])[:num_heads]


def _slopes(count: int, bias_max: float) -> Float64Array:
    slopes: Float64Array = 2.0 ** (-bias_max * np.arange(1, count + 1) / count)
    return slopes


def relative_buckets(
    rule: BucketRule = "t5", num_buckets: int = 32, max_distance: int = 128, *, bidirectional: bool = True
) -> IntArray:
    """Returns the bucket of each distance from `-max_distance` to `max_distance`; what is farther is as far as these.

    A distance is the key's position minus the query's. The begin of a bucket is computed in integers, so that no
    runtime's logarithm decides.

    Args:
        rule: "t5": half of the buckets for single distances, half for ranges that grow (T5). "deberta": the same about
            zero, to both sides, for a table of `2 * num_buckets` rows (DeBERTa v2 and v3, `position_buckets`).
            "clipped": each distance up to `max_distance` (Shaw).
        num_buckets: Number of buckets, an even one; "clipped" has no need of it.
        max_distance: Distance from which on all are one bucket; DeBERTa's `max_relative_positions`.
        bidirectional: Whether keys after the query have buckets of their own, for "t5"; else they are at distance 0.

    Returns:
        `(2 * max_distance + 1,)`, int32.

    Source:
        transformers 5.23.0, models/t5/modeling_t5.py and models/deberta_v2/modeling_deberta_v2.py; Shaw et al.,
        arXiv 1803.02155.
    """
    if rule not in _BUCKETS:
        raise ArgValueError("rule", f"must be one of {', '.join(map(repr, _BUCKETS))}. Received: {rule=}.")
    for name, value in (("num_buckets", num_buckets), ("max_distance", max_distance)):
        check_number(name, value)
    if rule != "clipped" and (num_buckets < 4 or num_buckets % 2 or max_distance < num_buckets):
        raise ArgValueError(
            "num_buckets",
            f"must be even, at least 4 and at most `max_distance`. Received: {num_buckets=}, {max_distance=}.",
        )
    return _BUCKETS[rule](num_buckets, max_distance, bidirectional).astype(np.int32)


def _t5(num_buckets: int, max_distance: int, bidirectional: bool) -> npt.NDArray[np.int64]:
    count = num_buckets // 2 if bidirectional else num_buckets
    single = count // 2
    steps, far = count - single, np.arange(max_distance + 1)
    begins = [_first_beyond(single, max_distance, part, far, itself=True) for part in _parts(steps)[1:]]
    buckets = np.where(far < single, far, single + np.searchsorted(begins, far, side="right"))
    if bidirectional:
        return np.concatenate([buckets[:0:-1], [0], buckets[1:] + count])
    return np.concatenate([buckets[::-1], np.zeros(max_distance, np.int64)])


def _deberta(num_buckets: int, max_distance: int, bidirectional: bool) -> npt.NDArray[np.int64]:
    middle, last = num_buckets // 2, max_distance - 1
    steps, far = middle - 1, np.arange(max_distance + 1)
    begins = [_first_beyond(middle, last, part, far, itself=False) for part in (*_parts(steps), Fraction(1))]
    buckets = np.where(far <= middle, far, middle + np.searchsorted(begins, far, side="right"))
    signed = np.concatenate([buckets[:0:-1], -buckets])  # query's position minus the key's
    indices: npt.NDArray[np.int64] = np.clip(signed + num_buckets, 0, 2 * num_buckets - 1)
    return indices


def _clip(num_buckets: int, max_distance: int, bidirectional: bool) -> npt.NDArray[np.int64]:
    return np.arange(2 * max_distance + 1)


def _parts(steps: int) -> list[Fraction]:
    return [Fraction(step, steps) for step in range(steps)]


def _first_beyond(near: int, far: int, part: Fraction, distances: npt.NDArray[np.int64], *, itself: bool) -> int:
    """Returns the first distance beyond `near * (far / near) ** part`, or at it, by exact powers of integers."""
    p, q = part.as_integer_ratio()
    bound = near ** (q - p) * far**p
    beyond = (int(n) for n in distances if int(n) ** q > bound or (itself and int(n) ** q == bound))
    return next(beyond, len(distances))


_BUCKETS: dict[str, Callable[[int, int, bool], npt.NDArray[np.int64]]] = {
    "t5": _t5,
    "deberta": _deberta,
    "clipped": _clip,
}


def log_spaced_distances(grid_shape: tuple[int, ...], trained_shape: tuple[int, ...]) -> Float64Array:
    """Returns the log-spaced distances of places of a grid, `(product of 2 * size - 1, axes)`, as in Swin v2.

    Along each axis they are `sign(x) * log2(1 + |x|) / log2(8)`, where `x` is 8 for positions at opposite ends of the
    trained grid. A trained axis of one position counts as an axis of two.

    Args:
        grid_shape: Sizes of the grid whose places are compared.
        trained_shape: Sizes of the grid that distances are measured by.

    Source:
        Liu et al., "Swin Transformer V2", arXiv 2111.09883, equation 4.
    """
    spaced = []
    for size, trained in zip(grid_shape, trained_shape, strict=True):
        x = 8.0 * np.arange(1 - size, size) / max(trained - 1, 1)
        spaced.append(np.sign(x) * np.log2(1.0 + np.abs(x)) / 3.0)
    return np.stack(np.meshgrid(*spaced, indexing="ij"), axis=-1).reshape(-1, len(spaced))
