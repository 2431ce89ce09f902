"""Reorders channels for another convention: channels of a signal, or of the weights before a rotary encoding."""

from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.conventions.catalogue import convention
from keras_pe.signal.layouts import RotaryLayout, column_order


def channel_permutation(source: str, target: str, channels: int) -> npt.NDArray[np.intp]:
    """Returns the `p` with `target_signal == source_signal[..., p]` at every position.

    A model that was trained with the source's encoding gives equal results with the target's encoding if `p` also
    reorders the channels of its embeddings. The permutation ignores first positions, which change rows, not channels.

    Args:
        source: Name of the convention to start from.
        target: Name of the convention to arrive at.
        channels: Width of both signals.

    Raises:
        ValueError: If a name is unknown, a convention has no signal of this width, or the timescales of the two differ.
            No order of channels then transforms one into the other.

    >>> channel_permutation("x-transformers", "paper", 6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    one, other = convention(source), convention(target)
    for name, each in (("source", one), ("target", other)):
        if each.axes > 1:
            raise ArgValueError(
                name,
                f"must be the convention of a sequence: images have a block of columns for each axis. "
                f"Received: {name}={each.name!r}.",
            )
    scales, wanted = one.timescales(channels), other.timescales(channels)
    # Two formulas of one value differ by a few units in the last place. Two schedules differ by parts in a thousand.
    if len(scales) != len(wanted) or not np.allclose(scales, wanted, rtol=1e-9, atol=0.0):
        raise ValueError(
            f"No order of channels turns {source!r} into {target!r} at {channels} channels: their timescales differ, "
            f"{_span(scales)} against {_span(wanted)}. Keep {source!r} in the ported model: "
            f"keras_pe.from_convention({source!r}, {channels})."
        )
    theirs_order = column_order(len(scales), channels, one.layout)
    needed = column_order(len(wanted), channels, other.layout)
    return np.argsort(theirs_order)[np.searchsorted(np.sort(theirs_order), needed)]


def _span(scales: npt.NDArray[np.float64]) -> str:
    listed = [f"{each:.4g}" for each in scales]
    if len(listed) > 4:
        listed[2:-2] = ["..."]
    return f"{len(scales)} of them ({', '.join(listed)})"


def permute_rotary_weights(
    weights: npt.ArrayLike, source: RotaryLayout, target: RotaryLayout, *, head_dim: int, rotary_dim: int | None = None
) -> npt.NDArray[Any]:
    """Returns the weights of a query or key projection for another rotary layout, with unchanged attention scores.

    Both projections must be permuted. Meta's checkpoints are "interleaved"; Hugging Face's of the same models "halves".

    Args:
        weights: Kernel or bias. The last axis has the channels of one head, as in `EinsumDense` with
            `(inputs, heads, head_dim)`, or of all heads in turn, as in `Dense` with `(inputs, heads * head_dim)`.
            PyTorch's `Linear` has them on the first axis: pass `weight.T`.
        source: Layout that the weights were trained with.
        target: Layout of the new model.
        head_dim: Number of channels of a head.
        rotary_dim: Number of channels that rotate; None for all.

    Raises:
        ValueError: If a layout is unknown, or `head_dim` does not divide the last axis.

    >>> permute_rotary_weights(np.arange(6), "interleaved", "halves", head_dim=6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    array = np.asarray(weights)
    width = head_dim if rotary_dim is None else rotary_dim
    are_counts = all(isinstance(each, int | np.integer) and each >= 2 for each in (head_dim, width))
    if not are_counts or not array.ndim or array.shape[-1] % head_dim or width % 2 or width > head_dim:
        raise ArgValueError(
            "head_dim",
            "must divide the last axis of `weights`, and `rotary_dim` must be even and at most `head_dim`. "
            f"Received: weights.shape={array.shape}, {head_dim=}, {rotary_dim=}.",
        )
    order = np.arange(head_dim)
    order[_input_channels(target, width)] = _input_channels(source, width)
    by_head = array.reshape(*array.shape[:-1], -1, head_dim)
    return by_head[..., order].reshape(array.shape)


def _input_channels(layout: RotaryLayout, width: int) -> npt.NDArray[np.intp]:
    """Returns the first channels of all pairs, then the second channels."""
    if layout not in get_args(RotaryLayout):
        raise ValueError(f"Unknown layout {layout!r}. Choose one of: {', '.join(get_args(RotaryLayout))}.")
    order = np.arange(width)
    return order if layout == "halves" else np.concatenate([order[::2], order[1::2]])
