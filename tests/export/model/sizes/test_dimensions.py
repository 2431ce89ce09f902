"""A dimension keeps its properties when it is copied, and sizes of several dimensions differ."""

import pytest

from keras_pe.export.model.sizes.dimensions import (
    Dimension,
    Kind,
    SizeRange,
    all_dimensions,
    checked_sizes,
    describe_dimensions,
    dimensions_from_json,
    dimensions_to_json,
    fit_sizes,
    sizes_from_counts,
    sizes_in_words,
    spread,
)


def lengths(**ranges: SizeRange) -> dict[str, Dimension]:
    return {name: Dimension(Kind.from_prefix(name) or Kind.LENGTH, name, own) for name, own in ranges.items()}


def test_sizes_are_unlike_each_other_and_far_apart() -> None:
    known = lengths(batch=SizeRange(), height=SizeRange(32, 32), width=SizeRange(32, 32))
    assert spread(known, 3, 11) == {"batch": 3, "height": 32, "width": 64}
    assert spread(known, 5, 67, 3) == {"batch": 5, "height": 96, "width": 128}
    short = lengths(length=SizeRange(1, 1, 2), other=SizeRange(1, 1, 2))
    assert fit_sizes(short, {"length": 9, "other": 9}) == {"length": 2, "other": 2}
    assert sizes_from_counts(lengths(rows=SizeRange(8, 8)), {"rows": 3}) == {"rows": 24}


def test_a_batch_is_one_whatever_it_is_called() -> None:
    known = {"rows": Dimension(Kind.BATCH, "rows"), "time": Dimension(Kind.LENGTH, "time")}
    assert spread(known, 3, 11) == {"rows": 3, "time": 11}


def test_dimensions_that_are_not_known_are_told_by_their_names_or_their_places() -> None:
    known = {"rows": Dimension(Kind.HEIGHT, "rows", SizeRange(4, 4))}
    found = all_dimensions([("N", "rows", 3), ("N", "unk__7"), ("length", 8)], known)
    assert [(own.name, own.kind) for own in found.values()] == [
        ("N", Kind.BATCH),
        ("rows", Kind.HEIGHT),
        ("unk__7", Kind.LENGTH),
        ("length", Kind.LENGTH),
    ]
    assert found["rows"] is known["rows"]


def test_a_size_is_the_sum_of_its_parts_even_if_no_input_has_a_part_as_an_axis() -> None:
    known = {name: Dimension(Kind.LENGTH, name) for name in ("spare", "length", "past")}
    known["total"] = Dimension(Kind.LENGTH, "total", parts=("past", "length", "spare"))
    found = all_dimensions([("length",), ("total", 4)], known)
    assert [*found] == ["length", "total", "past", "spare"]
    sizes = spread(found, 2, 5)
    assert sizes["total"] == sizes["past"] + sizes["length"] + sizes["spare"]


def test_a_name_that_stands_at_the_first_axis_and_at_others_is_that_of_a_length() -> None:
    assert all_dimensions([("?", "?", 3)], {})["?"].kind is Kind.LENGTH
    assert all_dimensions([("N", 3), ("M", "N")], {})["N"].kind is Kind.LENGTH


def test_no_axis_but_the_first_is_a_batch_whatever_it_is_called() -> None:
    for shape in (("length", "batch", 4), ("batch", "batch", 4)):
        assert {own.kind for own in all_dimensions([shape], {}).values()} == {Kind.LENGTH}


def test_a_name_that_reads_as_a_number_is_quoted_beside_its_size() -> None:
    assert sizes_in_words({"batch": 2, "4": 7, "-1": 3}) == "batch 2, '4' 7, '-1' 3"


def test_dimensions_are_read_as_they_were_written() -> None:
    known = {
        "rows": Dimension(Kind.BATCH, "rows"),
        "height": Dimension(Kind.HEIGHT, "height", SizeRange(64, 0, given=(64, 224))),
    }
    assert dimensions_from_json(dimensions_to_json(known)) == known
    for text in ('{"rows": {}}', "[]", '{"rows": 3}', "{"):
        with pytest.raises(ValueError, match=r"."):
            dimensions_from_json(text)


def test_the_text_of_a_dimension_states_its_properties() -> None:
    known = lengths(
        batch=SizeRange(),
        height=SizeRange(32, 4),
        width=SizeRange(32, 4),
        length=SizeRange(75, 1),
        steps=SizeRange(1, 1, 512),
        odd=SizeRange(5, 4),
        fixed=SizeRange(7, 0),
        ended=SizeRange(2, 1, 2),
        known=SizeRange(64, 0, given=(64, 224)),
    )
    assert describe_dimensions(known) == [
        "batch: any",
        "height, width: multiples of 4, from 32",
        "length: from 75",
        "steps: from 1 to 512",
        "odd: 1 more than multiples of 4, from 5",
        "fixed: 7 only",
        "ended: 2 only",
        "known: 64, 224 (given)",
    ]


def test_sizes_that_are_given_are_whole_numbers_from_one_or_several_of_each_dimension() -> None:
    assert checked_sizes(None) == {}
    assert checked_sizes({"height": (64, 224), "width": 8, "rows": [1]}) == {
        "height": (64, 224),
        "width": (8,),
        "rows": (1,),
    }
    for wrong, said in (((), "none"), ((3, 0), "3, 0"), ((2.5,), "2.5"), ("ab", "'a', 'b'")):
        with pytest.raises(ValueError, match=rf"`sizes` must be whole numbers from 1.* Received: {said} of 'height'"):
            checked_sizes({"height": wrong})  # type: ignore[dict-item]
