"""Nested structures are walked in the order in which they were written, and matched by key."""

from collections import namedtuple

import pytest

from keras_pe.export.model.watch.nested_arguments import (
    align,
    leaves,
    map_leaves,
    path_name,
    sanitize,
    unique,
    with_leaves,
)

Pair = namedtuple("Pair", "left right")


def test_leaves_come_in_the_order_of_the_dict_with_their_paths() -> None:
    assert leaves({"z": [1, None], "a": (2, {"b": 3})}) == [(("z", 0), 1), (("a", 0), 2), (("a", 1, "b"), 3)]


def test_a_rebuilt_structure_has_the_same_containers() -> None:
    structure = {"z": [1, None], "a": (2, Pair(3, 4))}
    assert map_leaves(structure, lambda leaf: leaf * 10) == {"z": [10, None], "a": (20, Pair(30, 40))}


def test_other_leaves_stand_in_the_order_in_which_they_are_given() -> None:
    assert with_leaves({"z": [1, None], "a": Pair(3, 4)}, "xyz") == {"z": ["x", None], "a": Pair("y", "z")}


def test_dicts_are_matched_by_key_whatever_their_order() -> None:
    assert align({"b": "B", "a": "A"}, {"a": 1, "b": 2}) == [("B", 2), ("A", 1)]


def test_a_single_leaf_stands_for_a_structure_of_one() -> None:
    assert align(["name"], 7) == [("name", 7)]


@pytest.mark.parametrize("other", [{"a": 1}, {"a": 1, "c": 2}, [1, 2], {"a": 1, "b": 2, "c": 3}])
def test_other_structures_are_refused(other: object) -> None:
    with pytest.raises(ValueError, match="The structure must be"):
        align({"a": "A", "b": "B"}, other)


@pytest.mark.parametrize(("name", "plain"), [("a b:0", "a_b_0"), ("2nd", "arg_2nd"), ("_x", "arg__x"), ("", "arg_")])
def test_names_are_spelt_as_tensorflow_spells_them(name: str, plain: str) -> None:
    assert sanitize(name) == plain


def test_names_are_numbered_until_each_is_used_once() -> None:
    assert unique(["a", "a", "a_1", "b"], taken=["b"]) == ["a", "a_1", "a_1_1", "b_1"]


def test_a_key_on_the_path_names_a_leaf_and_an_index_alone_does_not() -> None:
    assert path_name(("a", 0), "layer") == "a_0"
    assert path_name((0,), "layer") == "layer"
