"""Rows become batches: types that lose nothing, axes, lengths side by side, and no row twice or left out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.parity.data.batching import Batch, Batching, Feed
from keras_pe.export.parity.data.columns import match_columns
from keras_pe.export.parity.data.source import DataError

TOKENS = TensorInfo("tokens", ("batch", "length"), "int32")
MASK = TensorInfo("mask", ("batch", "length"), "bool")
IMAGE = TensorInfo("image", ("batch", 2, 3), "float32")


def batching(*inputs: TensorInfo, batch_size: int = 4, **options: object) -> Feed:
    return Feed(inputs, Batching({spec.name: spec.name for spec in inputs}, batch_size, **options))


def batches(rule: Feed, start: int = 0, **rows: object) -> list[Batch]:
    return list(rule.batches(start, rows))


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=40), buckets=st.sets(st.integers(1, 8)))
def test_every_row_is_fed_once_and_whole(lengths: list[int], buckets: set[int]) -> None:
    tokens = [np.full(length, row + 1) for row, length in enumerate(lengths)]
    found = batches(batching(TOKENS, length_buckets=tuple(sorted(buckets))), start=100, tokens=tokens)
    seen = [row for batch in found for row in batch.rows.tolist()]
    assert sorted(seen) == list(range(100, 100 + len(lengths)))
    for batch in found:
        assert len(batch.rows) <= 4
        for row, values in zip(batch.rows.tolist(), batch.inputs["tokens"], strict=True):
            length = lengths[row - 100]
            size = next((bucket for bucket in sorted(buckets) if bucket >= length), length)
            assert values.tolist() == [row - 99] * length + [0] * (size - length)


def test_rows_may_have_the_layout_of_the_model_where_the_artifact_has_another() -> None:
    takes = TensorInfo("image", ("batch", 3, "height", "width"), "float32")
    feed = Feed((takes,), Batching({"image": "image"}), {"image": "channels_first"})
    rows = np.arange(4 * 5 * 6 * 3, dtype=np.float32).reshape(4, 5, 6, 3)
    for column in (rows, list(rows), rows.transpose(0, 3, 1, 2)):
        (batch,) = batches(feed, image=column)
        np.testing.assert_array_equal(batch.inputs["image"], rows.transpose(0, 3, 1, 2))


def test_without_buckets_no_row_is_padded_and_equal_lengths_stand_together() -> None:
    tokens = [np.arange(length) for length in (3, 2, 3, 2, 3)]
    found = batches(batching(TOKENS), tokens=tokens)
    assert [(batch.rows.tolist(), batch.inputs["tokens"].shape) for batch in found] == [
        ([1, 3], (2, 2)),
        ([0, 2, 4], (3, 3)),
    ]


def test_large_rows_are_read_and_fed_in_small_numbers() -> None:
    large = {"image": [np.zeros((2, 3), "float32")] * 9}
    feed = batching(IMAGE, batch_size=8)
    assert [len(batch.rows) for batch in feed.with_row_bytes(0, large).batches(0, large)] == [8, 1]
    assert feed.with_row_bytes(0, large).window == 64
    wide = replace(feed, row_bytes=3 * 2**22)
    assert [len(batch.rows) for batch in wide.batches(0, large)] == [1] * 9
    assert wide.window == 8
    fixed = replace(wide, inputs=(replace(IMAGE, shape=(4, 2, 3)),))
    assert [len(batch.rows) for batch in fixed.batches(0, large)] == [4, 4, 1]


def test_the_bytes_of_a_text_are_its_length() -> None:
    feed = batching(TensorInfo("text", ("batch",), "string"))
    assert feed.with_row_bytes(0, {"text": np.array(["a" * 1000, "b" * 3000], object)}).row_bytes == 2000


def test_inputs_of_one_row_stay_together() -> None:
    tokens = [np.arange(length) for length in (3, 2, 3)]
    mask = [np.ones(length, bool) for length in (3, 2, 3)]
    (batch,) = batches(batching(TOKENS, MASK, length_buckets=(4,)), tokens=tokens, mask=mask)
    assert batch.inputs["tokens"].shape == batch.inputs["mask"].shape == (3, 4)
    assert batch.inputs["mask"].tolist()[1] == [True, True, False, False]


def test_the_value_of_the_padding_can_be_chosen() -> None:
    (batch,) = batches(batching(TOKENS, length_buckets=(3,), pad_values={"tokens": -1}), tokens=[np.array([5])])
    assert batch.inputs["tokens"].tolist() == [[5, -1, -1]]


@pytest.mark.parametrize("rows", [np.ones((2, 3)), [np.ones(3), np.ones(4)]], ids=["one length", "two"])
def test_a_static_size_is_padded_to_where_that_is_asked_for(rows: object) -> None:
    spec = TensorInfo("x", ("batch", 4), "float32")
    (batch,) = batches(batching(spec, pad_values={"x": 7}), x=rows)
    assert batch.inputs["x"][0].tolist() == [1, 1, 1, 7]
    with pytest.raises(DataError, match="Shorter rows are padded where `pad_values` names the input"):
        batches(batching(spec), x=rows)


def test_a_row_longer_than_a_static_size_is_refused() -> None:
    spec = TensorInfo("x", ("batch", 4), "float32")
    with pytest.raises(DataError, match=r"rows of \(4,\).* Received: a row of \(5,\)\.$"):
        batches(batching(spec, pad_values={"x": 0}), x=[np.ones(2), np.ones(5)])


def test_flat_rows_get_the_axes_of_the_input() -> None:
    (batch,) = batches(batching(IMAGE), image=np.arange(12).reshape(2, 6))
    assert batch.inputs["image"][1].tolist() == [[6, 7, 8], [9, 10, 11]]
    scalar = TensorInfo("x", ("batch",), "float32")
    (batch,) = batches(batching(scalar), x=np.ones((3, 1)))
    assert batch.inputs["x"].shape == (3,)


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 2), (2, 2, 3, 1, 2), (2, 7)])
def test_rows_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"rows of shape \(2, 3\).* Received: rows of shape"):
        batches(batching(IMAGE), image=np.ones(shape))


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int32", np.array([1, 2], np.int64), [1, 2]),
        ("int32", np.array([1.0, 2.0]), [1, 2]),
        ("float32", np.array([1, 2], np.uint8), [1, 2]),
        ("float16", np.array([0.1], np.float64), [float(np.float16(0.1))]),
        ("bool", np.array([0, 1]), [False, True]),
        ("string", np.array(["a", "\u00fc"]), ["a", "\u00fc"]),
        ("string", np.array([b"a", "\u00fc".encode()], object), ["a", "\u00fc"]),
    ],
)
def test_values_come_in_the_type_of_the_input(dtype: str, values: np.ndarray, expected: list) -> None:
    (batch,) = batches(batching(TensorInfo("x", ("batch",), dtype)), x=values)
    assert batch.inputs["x"].tolist() == expected
    assert batch.inputs["x"].dtype == (object if dtype == "string" else dtype)


@pytest.mark.parametrize(
    ("dtype", "values", "sentence"),
    [
        ("int32", np.array([1, 2**40]), "int64 in row 8 that it cannot"),
        ("int32", np.array([1.5, 1.0]), "float64 in row 7 that it cannot"),
        ("int32", np.array([np.nan, 1.0]), "row 7"),
        ("bool", np.array([0, 2]), "row 8"),
        ("float32", np.array(["1", "2"]), "Received: texts"),
        ("float32", np.array([1j, 2]), "Received: complex128"),
        ("string", np.array([1, 2]), "must hold texts"),
    ],
)
def test_values_that_the_type_cannot_hold_are_refused(dtype: str, values: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        batches(batching(TensorInfo("x", ("batch",), dtype)), start=7, x=values)


def test_columns_are_found_by_name_and_others_are_left_out() -> None:
    assert match_columns([TOKENS, MASK], ["label", "mask", "tokens"], {}, "data") == {
        "tokens": "tokens",
        "mask": "mask",
    }
    assert match_columns([TOKENS, MASK], ["ids", "mask"], {"tokens": "ids"}, "data")["tokens"] == "ids"
    assert match_columns([TOKENS], ["anything"], {}, "data") == {"tokens": "anything"}


def test_padding_of_what_is_no_input_and_buckets_of_no_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`pad_values` must be of inputs: tokens\. Received: ids"):
        Feed.match((TOKENS,), Batching(pad_values={"ids": 0}), ["tokens"], "data")
    with pytest.raises(ValueError, match=r"Received: length_buckets=\(8, 0\)"):
        Batching(length_buckets=(8, 0))
    with pytest.raises(ValueError, match=r"Received: length_buckets=\(2\.5,\)"):
        Batching(length_buckets=(2.5,))  # type: ignore[arg-type]


def test_a_missing_column_is_told_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"a column 'tokens' .* Received: token, label\. Did you mean 'token'\?"):
        match_columns([TOKENS], ["token", "label"], {}, "data")
    with pytest.raises(ValueError, match=r"`columns` must be of inputs: tokens\. Received: ids"):
        match_columns([TOKENS], ["token"], {"ids": "token"}, "data")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", -0.9),
        ("int32", 2**31),
        ("uint8", -1),
        ("uint8", 256),
        ("int8", float("nan")),
        ("bool", 2),
        ("bool", 0.5),
        ("float16", 1e6),
        ("float32", "x"),
        ("string", 0),
    ],
)
def test_an_input_is_padded_only_with_a_value_that_its_type_holds(dtype: str, value: object) -> None:
    with pytest.raises(ValueError, match="`pad_values` must be values that the inputs hold: 't'"):
        batching(TensorInfo("t", ("batch", 4), dtype), pad_values={"t": value})


@pytest.mark.parametrize("value", [[0.0, 1.0], None, {}, object(), np.zeros(2), 1j])
def test_a_padding_value_that_no_input_holds_is_refused_before_an_input_is_known(value: object) -> None:
    with pytest.raises(ValueError, match="`pad_values` must be numbers or texts"):
        Batching(pad_values={"t": value})


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int32", -1.0), ("uint8", 255), ("bool", True), ("bfloat16", 0.1), ("float16", float("-inf")), ("float32", -0.9)],
)
def test_an_input_is_padded_with_any_value_that_its_type_holds(dtype: str, value: float) -> None:
    rule = batching(TensorInfo("t", ("batch", 2), dtype), pad_values={"t": value})
    (batch,) = batches(rule, t=[np.zeros(1, rule.inputs[0].dtype if dtype != "bfloat16" else "float32")])
    assert batch.inputs["t"][0, 1] == np.asarray(value).astype(batch.inputs["t"].dtype)


@pytest.mark.parametrize("sizes", [64, "64", [0], [1.5], None])
def test_length_buckets_are_a_sequence_of_sizes(sizes: object) -> None:
    with pytest.raises(ValueError, match="Received: length_buckets="):
        Batching(length_buckets=sizes)


@pytest.mark.parametrize("name", ["columns", "pad_values"])
def test_columns_and_paddings_are_given_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}` must be a mapping from names"):
        Batching(**{name: ["x"]})


@pytest.mark.parametrize(
    ("columns", "given", "found"),
    [
        (["x_0", "x_1", "x_2"], {}, ("x_0", "x_1", "x_2")),
        (["id", "x1", "x2", "x3"], {}, ("x1", "x2", "x3")),
        (["age", "height", "weight"], {}, ("age", "height", "weight")),
        (["id", "c", "a", "b"], {"x": ["a", "b", "c"]}, ["a", "b", "c"]),
        (["id", "x"], {}, "x"),
    ],
)
def test_an_input_takes_several_columns_side_by_side(columns: list, given: dict, found: object) -> None:
    takes = (TensorInfo("x", ("batch", 3), "float32"),)
    assert match_columns(takes, columns, given, "data") == {"x": found}
    if not isinstance(found, str):
        rows = {name: np.arange(2) + 10 * number for number, name in enumerate(columns)}
        (batch,) = Feed.match(takes, Batching(columns=given), columns, "data").batches(0, rows)
        np.testing.assert_array_equal(batch.inputs["x"], np.stack([rows[name] for name in found], axis=1))


@pytest.mark.parametrize("columns", [["id", "age", "height", "weight"], ["x_0", "x_2"], ["x_0", "x_1"]])
def test_columns_that_are_not_numbered_after_the_input_are_not_taken(columns: list[str]) -> None:
    with pytest.raises(DataError, match="must have a column 'x'"):
        match_columns((TensorInfo("x", ("batch", 3), "float32"),), columns, {}, "data")
