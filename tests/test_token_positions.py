"""Tokens are counted from the start of their sequence, wherever the padding is."""

from typing import Any

import numpy as np
import pytest

from keras_pe import positions_from_mask

MASKS = np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0]])
COUNTED = np.array([[0, 1, 2, 3, 9, 9], [9, 9, 0, 1, 2, 3], [0, 9, 1, 2, 9, 3], [9, 9, 9, 9, 9, 9]])


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float32])
def test_padding_on_either_side_is_not_counted(dtype: type) -> None:
    positions = positions_from_mask(MASKS.astype(dtype), padding_position=9)
    np.testing.assert_array_equal(positions, COUNTED)
    assert positions.dtype == np.int32


@pytest.mark.parametrize("padding_idx", [0, 1, 5])
def test_fairseq_numbering(padding_idx: int) -> None:
    # fairseq 0.12.2, utils.make_positions: (cumsum(mask, dim=1) * mask) + padding_idx
    expected = np.cumsum(MASKS, axis=1) * MASKS + padding_idx
    positions = positions_from_mask(MASKS, start_index=padding_idx + 1, padding_position=padding_idx)
    np.testing.assert_array_equal(positions, expected)


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_a_tensor_gives_a_tensor_with_the_same_numbers(dtype: str) -> None:
    from keras import KerasTensor, ops

    positions = positions_from_mask(ops.convert_to_tensor(MASKS.astype(dtype)), padding_position=9)
    assert positions.dtype == "int32"
    np.testing.assert_array_equal(ops.convert_to_numpy(positions), COUNTED)
    symbolic = positions_from_mask(KerasTensor((None, None), dtype=dtype))
    assert (symbolic.shape, symbolic.dtype) == ((None, None), "int32")


def test_packed_sequences_are_counted_each_from_its_own_start() -> None:
    segments = np.array([[1, 1, 1, 2, 2, 0, 0], [7, 7, 3, 7, 7, 7, 7]])
    positions = positions_from_mask(segments != 0, segment_ids=segments, start_index=1)
    np.testing.assert_array_equal(positions, [[1, 2, 3, 1, 2, 0, 0], [1, 2, 1, 1, 2, 3, 4]])


def test_padding_inside_a_packed_sequence_is_not_counted() -> None:
    positions = positions_from_mask([0, 1, 1, 0, 1, 1], segment_ids=[1, 1, 1, 2, 2, 2], padding_position=-1)
    np.testing.assert_array_equal(positions, [-1, 0, 1, -1, 0, 1])


def test_segments_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`segment_ids` must be of the shape of `mask`.*\(3,\).*\(2,\)"):
        positions_from_mask([1, 1], segment_ids=[1, 1, 1])


def test_segments_of_a_tensor_are_refused() -> None:
    from keras import ops

    with pytest.raises(TypeError, match="number packed sequences in the input pipeline"):
        positions_from_mask(ops.ones((1, 2)), segment_ids=[[1, 2]])


def test_a_scalar_is_no_mask() -> None:
    with pytest.raises(ValueError, match="at least one axis"):
        positions_from_mask(np.array(1))


def test_no_mask_at_all_is_refused_with_what_it_means() -> None:
    with pytest.raises(TypeError, match=r"Received: mask=None\."):
        positions_from_mask(None)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"mask": 3}, TypeError, r"`mask` must be an array or a tensor\. Received: mask=3"),
        ({"start_index": 1.5}, TypeError, r"`start_index` must be an integer\. Received: start_index=1\.5"),
        (
            {"padding_position": None},
            TypeError,
            r"`padding_position` must be an integer\. Received: padding_position=N",
        ),
        ({"start_index": 2**31}, ValueError, r"`start_index` must be an int32\. Received: start_index=2147483648"),
    ],
)
def test_numbers_that_are_no_positions_are_refused(given: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        positions_from_mask(**{"mask": MASKS, **given})
