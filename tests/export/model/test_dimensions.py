"""Which dynamic dimensions are the same is found out by trying, without Keras."""

from typing import Any

import pytest

from keras_pe.export.model.dimensions import UnknownSizesError, name_inputs, name_outputs


def _model(rule: Any) -> tuple[Any, Any]:
    """Returns `call` and `fits` of something that takes the sizes for which the rule holds."""

    def call(shapes: list[tuple[int, ...]]) -> None:
        if not rule(shapes):
            raise ValueError("these sizes do not fit")

    return call, lambda shapes: bool(rule(shapes))


def test_lengths_that_must_be_equal_share_a_name() -> None:
    shapes = [(None, None), (None, None), (None, None)]
    named = name_inputs(shapes, *_model(lambda s: s[0][1] == s[2][1]))
    assert named == [("batch", "length"), ("batch", "length_2"), ("batch", "length")]


def test_two_axes_of_one_input_may_be_equal() -> None:
    named = name_inputs([(None, None, None)], *_model(lambda s: s[0][1] == s[0][2]))
    assert named == [("batch", "length", "length")]


def test_a_rank_one_input_without_a_batch_is_found_out() -> None:
    named = name_inputs([(None, None), (None,)], *_model(lambda s: s[0][1] == s[1][0]))
    assert named == [("batch", "length"), ("length",)]


def test_larger_sizes_are_tried_where_small_ones_do_not_fit() -> None:
    assert name_inputs([(None, None)], *_model(lambda s: s[0][1] > 100)) == [("batch", "length")]


def test_lengths_of_sound_are_tried_where_a_single_length_is_dynamic() -> None:
    call, fits = _model(lambda s: s[0][1] > 4000)
    assert name_inputs([(None, None)], call, fits) == [("batch", "length")]
    assert name_outputs(["batch", "length"], lambda sizes: [call([(2, sizes["length"])]) or ()])[1]["length"] > 4000
    with pytest.raises(UnknownSizesError, match="do not fit"):
        name_inputs([(None, None, None)], call, fits)


def test_what_takes_no_sizes_says_why() -> None:
    with pytest.raises(UnknownSizesError, match="these sizes do not fit"):
        name_inputs([(None, None)], *_model(lambda _: False))


def test_an_output_follows_an_input_stays_or_has_a_size_of_its_own() -> None:
    def measure(sizes: dict[str, int]) -> list[tuple[int, ...]]:
        return [(sizes["batch"], sizes["length"], 8), (sizes["batch"], sizes["length"] // 2)]

    shapes, sizes = name_outputs(["batch", "length", 8], measure)
    assert shapes == [("batch", "length", 8), ("batch", "axis_1")]
    assert set(sizes) == {"batch", "length"}


def test_a_length_of_a_few_at_most_is_not_taken_for_the_batch() -> None:
    def measure(sizes: dict[str, int]) -> list[tuple[int, ...]]:
        if sizes["length"] > 3:
            raise ValueError("the table ends at 3")
        return [(sizes["batch"], sizes["length"])]

    shapes, sizes = name_outputs(["batch", "length"], measure)
    assert shapes == [("batch", "length")]
    assert sizes["length"] <= 3
