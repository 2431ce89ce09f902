"""The search finds equal dynamic dimensions and their accepted sizes by trials, without Keras."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimension_search import FIRST, find_dimensions
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, NamedShapes, SizeRange
from keras_pe.export.model.sizes.found_sizes import name_outputs


def find(shapes: Sequence[Any], rule: Callable[..., bool], **given: Sequence[int]) -> NamedShapes:
    """Returns the search result for a function that accepts the shapes for which the rule holds."""
    return next(find_dimensions(shapes, lambda shapes: bool(rule(shapes)), given))


def same_batch(shapes: Sequence[Sequence[int | None]]) -> bool:
    return len({shape[0] for shape in shapes} - {None}) < 2


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


def test_nodes_and_their_connections_have_no_batch() -> None:
    found = find([(None, None), (None, 3)], lambda s: s[0][0] == s[0][1] == s[1][0])
    assert found.shapes == [("length", "length"), ("length", 3)]


def test_first_axes_that_need_not_be_equal_are_not_one_batch() -> None:
    nodes_and_edges = find([(None, 8), (None, 2), (None, 3)], lambda s: s[1][0] == s[2][0])
    assert nodes_and_edges.shapes == [("batch", 8), ("batch_2", 2), ("batch_2", 3)]


def test_many_inputs_that_must_be_equal_are_one() -> None:
    assert find([(None, 1)] * 9, same_batch).shapes == [("batch", 1)] * 9


def test_many_that_must_be_equal_are_told_from_others_that_must() -> None:
    def in_two_lengths(first: slice, second: slice) -> list[int | str]:
        shapes = [(None, None)] * 10
        known = lambda shapes: {shape[1] for shape in shapes} - {None}  # noqa: E731
        found = find(shapes, lambda s: all(len(known(s[part])) < 2 for part in (first, second)))
        return [shape[1] for shape in found.shapes]

    assert in_two_lengths(slice(4), slice(4, None)) == ["length"] * 4 + ["length_2"] * 6
    assert in_two_lengths(slice(0, None, 2), slice(1, None, 2)) == ["length", "length_2"] * 5


def test_an_independent_dimension_has_its_own_name_though_unknown_sizes_are_refused() -> None:
    def rule(shapes: Any) -> bool:
        return None not in {size for shape in shapes for size in shape} and len({shape[1] for shape in shapes[:3]}) == 1

    assert [shape[1] for shape in find([(None, None)] * 5, rule).shapes] == ["length"] * 3 + ["length_2", "length_3"]


def test_a_dimension_refused_only_beside_unknown_sizes_is_equal_to_no_other() -> None:
    def rule(shapes: Any) -> bool:
        sizes = [shape[1] for shape in shapes]
        return len({*sizes[:3]} - {None}) < 2 and not (None in sizes[:3] and sizes[3] not in (None, 24))

    assert [shape[1] for shape in find([(None, None)] * 4, rule).shapes] == ["length"] * 3 + ["length_2"]


@pytest.mark.parametrize("parts", [(slice(3), slice(3, None)), (slice(0, None, 2), slice(1, None, 2))])
def test_equal_lengths_are_found_where_one_size_stands_for_those_that_are_not_known(parts: tuple[slice, slice]) -> None:
    def rule(shapes: Any) -> bool:  # as JAX infers shapes
        return all(len({83 if size is None else size for _, size in shapes[part]}) == 1 for part in parts)

    found = find([(None, None)] * 6, rule).shapes
    assert [{shape[1] for shape in found[part]} for part in parts] == [{"length"}, {"length_2"}]


def test_sixty_that_must_be_equal_are_found_with_few_questions() -> None:
    asked = 0

    def rule(shapes: Any) -> bool:
        nonlocal asked
        asked += 1
        return same_batch(shapes)

    assert find([(None, 1)] * 60, rule).shapes == [("batch", 1)] * 60
    assert asked < 200  # one, pairs of it, and what stands in a row or at equal distances


def test_a_batch_of_pairs_and_one_of_a_row_alone_are_found() -> None:
    assert find([(None, None)], lambda s: s[0][0] % 2 == 0).dimensions["batch"].sizes == SizeRange(2, 2)
    assert find([(None, None)], lambda s: s[0][0] == 1).dimensions["batch"].sizes == SizeRange(1, 0)


def test_sizes_that_belong_together_are_found_if_they_are_given() -> None:
    again = find([(None, None, None, 3)] * 2, lambda s: s[0][1] == 2 * s[1][1], height=(8,), height_2=(4,))
    assert [own.sizes for own in again.dimensions.values() if own.kind is Kind.HEIGHT] == [
        SizeRange(8, 0, given=(8,)),
        SizeRange(4, 0, given=(4,)),
    ]


@pytest.mark.parametrize("inputs", [1, 6])
def test_a_model_that_takes_no_sizes_is_asked_few_questions(inputs: int) -> None:
    asked: set[Any] = set()

    def takes(shapes: Any) -> bool:
        asked.add(tuple(shapes))
        return False

    with pytest.raises(UnknownSizesError):
        next(find_dimensions([(None, None, None, 3)] * inputs, takes, {}))
    assert len(asked) <= 4 * len(FIRST)  # each with three batches and with none


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


def test_one_size_alone_is_found_if_a_weight_has_it_and_is_the_only_one() -> None:
    found = next(find_dimensions([(None, None)], lambda s: s[0][1] == 197, {}, weight_sizes=(197,)))
    assert found.dimensions["length"].sizes == SizeRange(197, 0)


def test_one_place_that_is_broadcast_to_all_is_no_size() -> None:
    found = find([(None, None, None, 3)], lambda s: (s[0][1] // 16) * (s[0][2] // 16) in (1, 196))
    assert found.dimensions["height"].sizes == found.dimensions["width"].sizes == SizeRange(224, 1, 239)


def test_sound_is_found_by_its_length() -> None:
    found = find([(None, None)], lambda s: s[0][1] >= 3900)
    assert found.dimensions["length"].sizes == SizeRange(3900, 1)


def test_names_and_sizes_of_the_caller_are_kept() -> None:
    def rule(shapes: Any) -> bool:
        return shapes[0][1] == shapes[1][1] and shapes[0][1] in (77, 99)

    found = find([(None, "words"), (None, "words")], rule, words=(99, 77))
    assert found.shapes == [("batch", "words"), ("batch_2", "words")]
    assert found.dimensions["words"].sizes == SizeRange(77, 0, given=(99, 77))


def test_a_dimension_that_the_caller_has_named_is_what_its_place_says() -> None:
    found = find([("rows", "batch", 3), ("rows", "width")], lambda _: True)
    assert {name: own.kind for name, own in found.dimensions.items()} == {
        "rows": Kind.BATCH,
        "batch": Kind.LENGTH,
        "width": Kind.WIDTH,
    }


@pytest.mark.parametrize("more", [{}, {"length": (16,)}])
def test_given_sizes_are_those_of_equal_axes_in_an_input_with_fewer_axes(more: dict[str, tuple[int]]) -> None:
    """The axes of the mask have the kind of a length until the model shows that they equal the height and the width."""
    shapes = [(None, None), (None, None, None, 16), (None, None, None)]
    found = find(shapes, lambda s: s[1][:3] == s[2], height=(18,), width=(20,), **more)
    assert found.shapes[2] == found.shapes[1][:3]
    assert [str(found.dimensions[name].sizes) for name in ("height", "width")] == ["18 (given)", "20 (given)"]


def test_sizes_that_were_given_are_not_searched_for() -> None:
    asked: list[int] = []

    def rule(shapes: Any) -> bool:
        asked.append(shapes[0][1])
        return True

    find([(None, None, 5)], rule, length=(640, 64))
    assert set(asked) == {640}


def test_a_model_that_accepts_no_sizes_is_refused() -> None:
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

    found = next(find_dimensions([(None, None, None, 3)] * 4, takes, {}, weight_sizes=(8, 197)))
    assert [own.sizes for name, own in found.dimensions.items() if name != "batch"] == [SizeRange(197, 0)] * 8
    # The first terms are the first sizes, those of weights, and the batches. Each step up and down follows, of all
    # dimensions and of the first one. The last term is six sizes of each other dimension.
    assert len(asked) <= len(FIRST) + 2 + 2 * 4 + 2 * 2 * 26 + 7 * 6
