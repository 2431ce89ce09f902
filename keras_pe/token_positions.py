"""Positions of the tokens of padded and of packed sequences."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.protocols import Tensor
from keras_pe.signal.layouts import is_integer


def positions_from_mask(
    mask: Tensor | npt.ArrayLike,
    *,
    segment_ids: npt.ArrayLike | None = None,
    start_index: int = 0,
    padding_position: int = 0,
) -> Any:
    """Returns the position of each token, counted without padding, which may be on either side.

    fairseq numbers its tokens from `padding_idx + 1` and gives padding the position `padding_idx`:
    `positions_from_mask(mask, start_index=padding_idx + 1, padding_position=padding_idx)`.

    Args:
        mask: `(..., length)`, true or non-zero at tokens, false or zero at padding. A NumPy array or a nested list
            gives a NumPy array; a tensor of the Keras backend, symbolic or not, gives such a tensor.
        segment_ids: `(..., length)`, for several sequences packed into one row. The count begins anew at each change of
            the id, so two neighbors must have different ids. Packing belongs in the input pipeline, so this argument
            only accepts NumPy arrays.
        start_index: Position of the first token of each sequence.
        padding_position: Position of padding, which is encoded like any other position. Layers that must not see the
            padding therefore still need the mask.

    Returns:
        `(..., length)`, int32.

    Raises:
        TypeError: If `mask` is not an array, `segment_ids` come with a mask that is a tensor, or a number is not an
            integer.
        ValueError: If `mask` is a scalar, `segment_ids` are of another shape than `mask`, or a number exceeds int32.

    Source:
        fairseq 0.12.2, utils.py, `make_positions`.

    >>> positions_from_mask([[1, 1, 1, 0], [0, 0, 1, 1]]).tolist()
    [[0, 1, 2, 0], [0, 0, 0, 1]]
    >>> positions_from_mask([1, 1, 1, 1, 1, 0], segment_ids=[1, 1, 1, 2, 2, 0]).tolist()
    [0, 1, 2, 0, 1, 0]
    """
    if not (isinstance(mask, list | tuple) or hasattr(mask, "dtype")):
        raise ArgTypeError(
            "mask",
            f"must be an array or a tensor. Received: mask={mask!r:.80}. Without a mask there is no padding, "
            "and the layers count the positions 0, 1, 2, ... themselves.",
        )
    _check_int32("start_index", start_index)
    _check_int32("padding_position", padding_position)
    if not isinstance(mask, np.ndarray | list | tuple):
        return _positions_of_tensor(mask, segment_ids, start_index, padding_position)
    tokens = np.asarray(mask) != 0
    if tokens.ndim == 0:
        raise ArgValueError("mask", f"must have at least one axis. Received: mask={mask!r}.")
    count = np.cumsum(tokens, axis=-1, dtype=np.int32)
    if segment_ids is not None:
        count -= _tokens_before_segment(count - tokens, np.asarray(segment_ids))
    return np.where(tokens, count + np.int32(start_index - 1), np.int32(padding_position))


def _check_int32(name: str, value: Any) -> None:
    if not is_integer(value):
        raise ArgTypeError(name, f"must be an integer. Received: {name}={value!r:.80}")
    if not -(2**31) <= value < 2**31:
        raise ArgValueError(name, f"must be an int32. Received: {name}={value!r}.")


def _positions_of_tensor(mask: Any, segment_ids: Any, start_index: int, padding_position: int) -> Any:
    from keras import ops

    if segment_ids is not None:
        raise ArgTypeError(
            "mask",
            "must be a NumPy array if `segment_ids` are passed: number packed sequences in the input "
            f"pipeline. Received: mask={mask!r}.",
        )
    tokens = ops.not_equal(mask, ops.cast(0, mask.dtype))
    count = ops.cumsum(ops.cast(tokens, "int32"), axis=-1)
    return ops.where(tokens, count + (start_index - 1), ops.cast(padding_position, "int32"))


def _tokens_before_segment(tokens_before: npt.NDArray[np.int32], ids: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Returns, at each place, how many tokens of the row lie before its own segment."""
    if ids.shape != tokens_before.shape:
        raise ArgValueError(
            "segment_ids",
            "must be of the shape of `mask`. "
            f"Received: segment_ids of shape {ids.shape}, mask of shape {tokens_before.shape}.",
        )
    begins = np.ones(ids.shape, dtype=bool)
    begins[..., 1:] = ids[..., 1:] != ids[..., :-1]
    # The number of tokens before never falls along a row, so the largest at a beginning so far is the latest one.
    return np.maximum.accumulate(np.where(begins, tokens_before, np.int32(0)), axis=-1)
