"""Which dynamic dimensions are the same, and which sizes they take, is found out by asking, without Keras."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimension_search import NamedShapes, find_dimensions
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange
from keras_pe.export.model.sizes.found_sizes import name_outputs


def find(shapes: Sequence[Any], rule: Callable[..., bool], **given: Sequence[int]) -> NamedShapes:
    """Returns what is found of something that takes the shapes for which the rule holds."""
    return find_dimensions(shapes, lambda shapes: bool(rule(shapes)), given)


def same_batch(shapes: Sequence[Sequence[int]]) -> bool:
    return len({shape[0] for shape in shapes}) == 1


def test_lengths_that_must_be_equal_share_a_name() -> None:
    found = find([(None, None)] * 3, lambda s: same_batch(s) and s[0][1] == s[2][1])
    assert found.shapes == [("batch", "length"), ("batch", "length_2"), ("batch", "length")]
    assert found.dimensions == {
        "batch": Dimension(Kind.BATCH, "batch"),
        "length": Dimension(Kind.LENGTH, "length"),
        "length_2": Dimension(Kind.LENGTH, "length_2"),
    }


def test_two_axes_of_one_input_may_be_equal() -> None:
    assert find([(None, None, None)], lambda s: s[0][1] == s[0][2]).shapes == [("batch", "length", "length")]


def test_a_rank_one_input_without_a_batch_is_found_out() -> None:
    found = find([(None, None), (None,)], lambda s: s[0][1] == s[1][0])
    assert found.shapes == [("batch", "length"), ("length",)]


def test_first_axes_that_need_not_be_equal_are_not_one_batch() -> None:
    nodes_and_edges = find([(None, 8), (None, 2), (None, 3)], lambda s: s[1][0] == s[2][0])
    assert nodes_and_edges.shapes == [("batch", 8), ("batch_2", 2), ("batch_2", 3)]


def test_many_inputs_that_must_be_equal_are_one() -> None:
    assert find([(None, 1)] * 9, same_batch).shapes == [("batch", 1)] * 9


def test_images_have_heights_and_widths() -> None:
    assert find([(None, None, None, 3)], lambda _: True).shapes == [("batch", "height", "width", 3)]
    assert find([(None, 3, None, None)], lambda _: True).shapes == [("batch", 3, "height", "width")]
    assert find([(None, None, None, 3)], lambda s: s[0][1] == s[0][2]).shapes == [("batch", "height", "height", 3)]


def test_each_dimension_has_the_sizes_that_it_takes() -> None:
    def rule(shapes: Any) -> bool:
        _, height, width, _ = shapes[0]
        return height % 32 == 0 and width % 8 == 0 and width > 32

    assert list(find([(None, None, None, 3)], rule).dimensions.values()) == [
        Dimension(Kind.BATCH, "batch"),
        Dimension(Kind.HEIGHT, "height", SizeRange(32, 32)),
        Dimension(Kind.WIDTH, "width", SizeRange(40, 8)),
    ]


def test_one_size_alone_is_found_and_is_the_only_one() -> None:
    found = find([(None, None)], lambda s: s[0][1] == 197)
    assert found.dimensions["length"].sizes == SizeRange(197, 0)


def test_sound_is_found_by_its_length() -> None:
    found = find([(None, None)], lambda s: s[0][1] >= 3900)
    assert found.dimensions["length"].sizes == SizeRange(3900, 1)


def test_names_and_sizes_of_the_caller_are_kept() -> None:
    def rule(shapes: Any) -> bool:
        return shapes[0][1] == shapes[1][1] and shapes[0][1] in (77, 99)

    found = find([(None, "words"), (None, "words")], rule, words=(99, 77))
    assert found.shapes == [("batch", "words"), ("batch_2", "words")]
    assert found.dimensions["words"].sizes == SizeRange(77, 0, given=(99, 77))


def test_sizes_that_were_given_are_not_searched_for() -> None:
    asked: list[int] = []

    def rule(shapes: Any) -> bool:
        asked.append(shapes[0][1])
        return True

    find([(None, None, 5)], rule, length=(640, 64))
    assert set(asked) == {640}


def test_what_takes_no_sizes_is_refused() -> None:
    with pytest.raises(UnknownSizesError):
        find([(None, None)], lambda _: False)


def test_an_output_follows_an_input_stays_or_has_a_size_of_its_own() -> None:
    rows = [
        ({"batch": 3, "height": 32, "width": 33}, [(3, 8, 32), (1, 1, 3)]),
        ({"batch": 5, "height": 96, "width": 98}, [(5, 8, 96), (3, 1, 5)]),
        ({"batch": 7, "height": 224, "width": 226}, [(7, 8, 224), (7, 1, 7)]),
    ]
    # The last output's first size is the batch's in one row and something else in the others.
    assert name_outputs(rows) == [("batch", 8, "height"), ("axis_0", 1, "batch")]


def test_dimensions_that_have_the_size_of_a_weight_alone_are_found_with_few_questions() -> None:
    asked: set[tuple[tuple[int, ...], ...]] = set()

    def takes(shapes: list[tuple[int, ...]]) -> bool:
        asked.add(tuple(shapes))
        return same_batch(shapes) and {size for shape in shapes for size in shape[1:3]} == {197}

    found = find_dimensions([(None, None, None, 3)] * 4, takes, {}, weight_sizes=(8, 197))
    assert [own.sizes for name, own in found.dimensions.items() if name != "batch"] == [SizeRange(197, 0)] * 8
    # The likely sizes and those of weights; batches; each step up and down, of all at once and of the first; and six of
    # each other.
    assert len(asked) <= 22 + 2 + 4 + 2 * 2 * 26 + 7 * 6
