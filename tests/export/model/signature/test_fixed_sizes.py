"""An artifact's fixed sizes survive their record, and a record that is damaged is refused."""

import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.signature.fixed_sizes import (
    FixedSize,
    FixedSizes,
    Origin,
    fixed_as_given,
    fixed_between,
    fixed_sizes_from_json,
)

FIXED = FixedSizes((FixedSize("length", 9, Origin.CALLED),), (("x", ("batch", 9, 8)),), "Keras cannot trace it.")


def test_a_record_returns_the_same_sizes() -> None:
    assert fixed_sizes_from_json(FIXED.to_json()) == FIXED
    assert "length 9 only" in str(FIXED)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"sizes": {"length": 9}, "inputs": {}}', '{"sizes": {}, "inputs": {"x": [null]}}'],
)
def test_a_damaged_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="fixed sizes that cannot be read"):
        fixed_sizes_from_json(text)


@pytest.mark.parametrize(
    ("shape", "merged", "fits"),
    [
        ((None, None, 8), ("batch", 9, 8), True),
        ((2, None, 8), (2, 9, 8), True),
        ((None, 9, 8), ("batch", 9, 8), True),
        ((None, 7, 8), (None, 7, 8), False),
        ((None, None), (None, None), False),
    ],
)
def test_a_shape_takes_the_fixed_sizes_if_it_leaves_them_open(shape: tuple, merged: tuple, fits: bool) -> None:
    assert FIXED.shape_of("x", shape) == merged
    assert FIXED.fits({"x": merged}) is fits


def test_a_caller_may_repeat_a_fixed_size() -> None:
    assert FIXED.without_fixed({"length": (9,), "height": (4,)}) == {"height": (4,)}
    assert FIXED.without_fixed({"length": (9, 10)}) == {"length": (9, 10)}


def test_axes_of_one_kind_and_size_are_one_dimension() -> None:
    found = fixed_between([(None, None, 8), (None, None)], [(None, 9, 8), (None, 9)], Origin.CALLED)
    assert found == [FixedSize("length", 9, Origin.CALLED)]
    found = fixed_between([(None, None, 8), (None, None)], [(2, 9, 8), (2, 5)], Origin.CALLED)
    assert [(each.name, each.size) for each in found] == [("batch", 2), ("length", 9), ("length_2", 5)]


def test_one_given_size_is_that_of_each_axis_of_its_kind_and_several_fix_none() -> None:
    shapes = [(None, None, 8), (None, None)]
    found = fixed_as_given(["x", "ids"], shapes, {"length": (16,)})
    assert found is not None
    assert found.shapes == (("x", (None, 16, 8)), ("ids", (None, 16)))
    assert found.with_inputs([TensorInfo("x", ("batch", 16, 8), "float32")]).shapes == (("x", ("batch", 16, 8)),)
    assert fixed_as_given(["x", "ids"], shapes, {"length": (16, 32)}) is None
