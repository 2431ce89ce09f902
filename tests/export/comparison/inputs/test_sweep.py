"""The sweep: inputs that can fail, fair to the model, the same for the same seed."""

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange
from keras_pe.export.model.watch.known_values import Vocabulary

TOKENS = TensorInfo("tokens", ("batch", "length"), "int32")
VALUES = TensorInfo("x", ("batch", "length", 8), "float32")
MASK = TensorInfo("mask", ("batch", "length"), "bool")


def test_batch_never_equals_length_and_the_lengths_promised_are_there():
    cases = sweep((VALUES,), {}, seed=0)
    shapes = {case.inputs["x"].shape for case in cases}
    assert all(batch != length for batch, length, _ in shapes)
    assert {1, 2, 13, 31, 67, 521} <= {length for _, length, _ in shapes}


def test_equal_names_get_equal_sizes_and_other_names_other_sizes():
    other = TensorInfo("other", ("batch", "height", "width"), "float32")
    for case in sweep((VALUES, other, MASK), {}, seed=0):
        assert case.inputs["x"].shape[:2] == case.inputs["mask"].shape
        batch, height, width = case.inputs["other"].shape
        assert len({batch, case.inputs["x"].shape[1], height, width}) == 4


def test_one_seed_gives_one_sweep_and_another_another():
    first, again, other = (sweep((VALUES,), {}, seed) for seed in (0, 0, 1))
    assert all((a.inputs["x"] == b.inputs["x"]).all() for a, b in zip(first, again, strict=True))
    assert not (first[0].inputs["x"] == other[0].inputs["x"]).all()


def test_ids_stay_in_the_vocabulary_reach_its_end_and_include_padding():
    cases = sweep((TOKENS,), {"tokens": Role("ids", 0, 50)}, seed=0)
    drawn = np.concatenate([case.inputs["tokens"].ravel() for case in cases])
    assert (drawn.min(), drawn.max()) == (0, 49)
    assert not {case.name: case for case in cases}["all padding"].inputs["tokens"].any()


def test_free_integers_are_negative_too():
    assert min(case.inputs["tokens"].min() for case in sweep((TOKENS,), {}, seed=0)) < 0


def test_positions_are_tried_where_tables_and_short_floats_end():
    cases = {case.name: case for case in sweep((TOKENS,), {"tokens": Role("positions", -(2**24), 2**24)}, seed=0)}
    far = set(cases["far positions"].inputs["tokens"].ravel().tolist())
    assert {0, 15, 16, 255, 256, 257, 2047, 2048, 2049, 10_000, 65_504, 2**24 - 1} <= far
    assert min(far) < -64
    bounded = {case.name: case for case in sweep((TOKENS,), {"tokens": Role("positions", 0, 300)}, seed=0)}
    assert max(bounded["far positions"].inputs["tokens"].ravel()) < 300


def test_a_mask_is_also_all_padding():
    cases = {case.name: case for case in sweep((VALUES, MASK), {}, seed=0)}
    assert not cases["all padding"].inputs["mask"].any()


def test_the_last_case_is_the_first_once_more():
    cases = sweep((VALUES,), {}, seed=0)
    assert cases[-1].repeats == cases[0].name
    assert (cases[-1].inputs["x"] == cases[0].inputs["x"]).all()


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (4,), ("batch",), ("length", 3)])
def test_every_rank_can_be_swept(shape, dtype):
    for case in sweep((TensorInfo("x", shape, dtype),), {}, seed=0):
        assert case.inputs["x"].ndim == len(shape)


def test_sizes_are_those_that_the_model_takes():
    images = TensorInfo("x", ("batch", "height", "width", 3), "float32")
    known = {
        "height": Dimension(Kind.HEIGHT, "height", SizeRange(32, 32)),
        "width": Dimension(Kind.WIDTH, "width", SizeRange(4, 4)),
    }
    shapes = {case.inputs["x"].shape for case in sweep((images,), {}, seed=0, known=known)}
    assert all(height % 32 == 0 and width % 4 == 0 for _, height, width, _ in shapes)
    assert len({height for _, height, _, _ in shapes}) > 3
    assert max(height for _, height, _, _ in shapes) <= 1024


def test_attention_over_the_points_of_an_image_is_affordable():
    images = TensorInfo("x", ("batch", "height", "width", 3), "float32")
    known = {kind: Dimension(kind, kind) for kind in (Kind.HEIGHT, Kind.WIDTH)}
    for case in sweep((images,), {}, seed=0, known=known):
        _, height, width, _ = case.inputs["x"].shape
        assert 4 * (height * width) ** 2 < 2**24  # bytes of a square of scores


def test_sizes_that_were_given_are_the_only_ones():
    known = {"length": Dimension(Kind.LENGTH, "length", SizeRange(64, 0, given=(64, 224)))}
    cases = sweep((VALUES,), {}, seed=0, known=known)
    assert {case.inputs["x"].shape[1] for case in cases} == {64, 224}


def test_one_batch_and_one_length_are_well_beyond_those_that_are_usual():
    shapes = {case.inputs["x"].shape for case in sweep((VALUES,), {}, seed=0)}
    assert max(batch for batch, _, _ in shapes) >= 8
    assert max(length for _, length, _ in shapes) > 2 * 256


def test_inputs_with_different_first_axes_have_no_batch_axis():
    edges, nodes = TensorInfo("edges", ("batch", 2), "float32"), TensorInfo("nodes", ("batch_2", 8), "float32")
    known = {name: Dimension(Kind.BATCH, name) for name in ("batch", "batch_2")}
    cases = sweep((edges, nodes), {}, seed=0, known=known)
    for name in ("edges", "nodes"):
        counts = {case.inputs[name].shape[0] for case in cases}
        assert len(counts) > 3
        assert max(counts) > 50


def test_places_end_where_the_input_ends_that_they_point_into():
    places = TensorInfo("places", ("batch", 3), "int32")
    cases = sweep((VALUES, places), {"places": Role("values", 0, below="length")}, seed=0)
    for case in cases:
        drawn, length = case.inputs["places"], case.inputs["x"].shape[1]
        assert (drawn.min() >= 0, drawn.max() < length) == (True, True)
    assert max(case.inputs["places"].max() for case in cases) > 67


def test_free_integers_reach_the_largest_size_as_they_may_be_counts():
    counts = TensorInfo("counts", ("batch", 40), "int32")
    cases = sweep((VALUES, counts), {}, seed=0)
    longest = max(cases, key=lambda case: case.inputs["x"].shape[1])
    assert 256 < longest.inputs["counts"].max() <= 521
    small = TensorInfo("counts", ("batch", 40), "int8")
    assert all(case.inputs["counts"].dtype == np.int8 for case in sweep((VALUES, small), {}, seed=0))


@pytest.mark.parametrize(("shape", "rows", "read"), [(("batch", "length"), 700, 700), (("batch", 1), 40, 11)])
def test_no_row_of_a_table_is_read_twice_before_each_was_read_once(shape, rows, read):
    cases = sweep((TensorInfo("ids", shape, "int32"),), {"ids": Role("ids", 0, rows)}, seed=0)
    found = np.concatenate([case.inputs["ids"].ravel() for case in cases if case.name != "all padding"])
    assert len(np.unique(found)) == read
    assert (found.min() >= 0, found.max() < rows) == (True, True)


@pytest.mark.parametrize(("is_closed", "others"), [(False, {9, 11, 699}), (True, set())], ids=["open", "closed"])
def test_each_entry_of_a_vocabulary_is_drawn_and_the_numbers_beside_it_if_the_model_takes_them(is_closed, others):
    entries = tuple(range(10, 700, 2))
    role = Role("entries", vocabulary=Vocabulary(entries, is_closed))
    cases = sweep((TensorInfo("ids", ("batch", 1), "int64"),), {"ids": role}, seed=0)
    drawn = np.concatenate([case.inputs["ids"].ravel() for case in cases if "entry" in case.name])
    assert set(entries) | others <= set(drawn.tolist())
    assert is_closed is (set(entries) == set(drawn.tolist()))


def test_each_word_of_a_vocabulary_is_drawn():
    words = tuple(f"word {number}" for number in range(100))
    role = Role("entries", vocabulary=Vocabulary(words))
    cases = sweep((TensorInfo("text", ("batch",), "string"),), {"text": role}, seed=0)
    assert set(words) <= {word for case in cases if "entry" in case.name for word in case.inputs["text"]}


def test_a_dimension_with_the_name_of_a_cache_is_drawn_like_any_other() -> None:
    (case, *_) = sweep((TensorInfo("x", ("batch", "max_sequence_length"), "float32"),), {}, 0)
    assert case.inputs["x"].all()
