"""The order of channels that turns one convention's signal into another's."""

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.catalogue import convention
from keras_pe.signal.layouts import column_order


def channel_permutation(source: str, target: str, channels: int) -> npt.NDArray[np.intp]:
    """Returns the `p` with `target_signal == source_signal[..., p]` at every position.

    A model trained with the source's encoding keeps its meaning under the target's when the channels of its embeddings
    are reordered by `p` too. First positions are not the permutation's matter: they differ by rows, not by channels.

    Args:
        source: Name of the convention to start from.
        target: Name of the convention to arrive at.
        channels: Width of both.

    Raises:
        ValueError: If a name is unknown, if a convention has no signal of this width, or if their timescales differ,
            so that no order of channels makes one of the other.

    >>> channel_permutation("x-transformers", "paper", 6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    one, other = convention(source), convention(target)
    for name, each in (("source", one), ("target", other)):
        if each.axes > 1:
            raise ValueError(
                f"`{name}` must be the convention of a sequence: images have a block of columns for each axis. "
                f"Received: {name}={each.name!r}."
            )
    scales, wanted = one.timescales(channels), other.timescales(channels)
    # Two formulas of one number differ by a few units in the last place; two schedules by parts in a thousand.
    if len(scales) != len(wanted) or not np.allclose(scales, wanted, rtol=1e-9, atol=0.0):
        raise ValueError(
            f"No order of channels turns {source!r} into {target!r} at {channels} channels: their timescales differ, "
            f"{_span(scales)} against {_span(wanted)}. Keep {source!r} in the ported model: "
            f"keras_pe.from_convention({source!r}, {channels})."
        )
    held = column_order(len(scales), channels, one.layout)
    needed = column_order(len(wanted), channels, other.layout)
    return np.argsort(held)[np.searchsorted(np.sort(held), needed)]


def _span(scales: npt.NDArray[np.float64]) -> str:
    listed = [f"{each:.4g}" for each in scales]
    if len(listed) > 4:
        listed[2:-2] = ["..."]
    return f"{len(scales)} of them ({', '.join(listed)})"
