"""Indices, orders and selections: ties, ends and values outside of the range are those of Keras."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import assert_agrees, assert_cases_agree, onnx_results

RANDOM = np.random.default_rng(0)
ZEROS = np.array([[0.0, -0.0, 1.0], [-0.0, 0.0, -1.0], [-np.inf, np.inf, 3e38], [-3e38, 1e-37, -1e-37]], "float32")
SORTED = np.array([-2.0, 0.0, 0.0, 1.0, 3.0], "float32")
VALUES = np.array([-3.0, -2.0, 0.0, 0.5, 3.0, 4.0, np.inf], "float32")
CONDITION = np.array([True, False, True, False])


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype("float32")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_slice_is_written_where_it_fits(dtype: str, tmp_path: Path) -> None:
    def update_slice(x: Any, update: Any, start: Any) -> Any:
        return ops.slice_update(x, start, update)

    x, update = (RANDOM.normal(size=shape, scale=9).astype(dtype) for shape in ((4, 3, 6), (2, 2, 3)))
    cases = [[x, update, np.array(start, "int32")] for start in ((0, 1, 2), (-3, 0, 0), (9, 9, 9))]
    assert_cases_agree(update_slice, [(4, 3, 6), (2, 2, 3), (3,)], cases, tmp_path)


def test_a_slice_of_size_minus_one_reaches_the_end(tmp_path: Path) -> None:
    def cut(x: Any, start: Any, size: Any) -> Any:
        return tf.slice(x, (1, 0, 2), size), tf.slice(x, start, (2, -1, 1)), tf.slice(x, (0, 0, 0), size)

    bounds = [((0, 1, 2), (2, 3, -1)), ((2, 0, 5), (-1, 1, 2))]
    cases = [[normal(4, 3, 6), *(np.array(each, "int32") for each in bound)] for bound in bounds]
    assert_cases_agree(cut, [(4, 3, 6), (3,), (3,)], cases, tmp_path)


@pytest.mark.parametrize("opset", [15, 18])
def test_the_float_extremes_are_where_keras_finds_them(opset: int, tmp_path: Path) -> None:
    assert_agrees(lambda x: (ops.argmax(x, -1), ops.argmin(x, -1)), [ZEROS], tmp_path, opset_version=opset)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize(("index", "dtype"), [("int32", "float32"), ("int64", "int32"), ("int32", "bool")])
def test_an_index_out_of_range_is_hot_nowhere(axis: int, index: str, dtype: str, tmp_path: Path) -> None:
    indices = np.array([[0, 2, -1], [5, 1, 3]], index)
    assert_agrees(lambda x: ops.one_hot(x, 4, axis=axis, dtype=dtype), [indices], tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8", "bool"])
def test_a_selection_takes_one_branch_in_every_type(dtype: str, tmp_path: Path) -> None:
    x, y = np.array([1, 0, 3, 1]).astype(dtype), np.array([0, 1, 7, 0]).astype(dtype)
    assert_agrees(ops.where, [CONDITION, x, y], tmp_path, [np.where(CONDITION, x, y)])


def test_values_that_are_not_selected_leave_no_trace(tmp_path: Path) -> None:
    inputs = [CONDITION, np.float32([1, np.nan, 2, np.inf]), np.float32([np.nan, 3, -np.inf, 4])]
    assert_agrees(lambda c, a, b: ops.where(c, a * 1.0, b * 1.0), inputs, tmp_path, [np.float32([1, 3, 2, 4])])


def test_a_blank_that_tf2onnx_ignores_is_refused(tmp_path: Path) -> None:
    scores, lengths = np.zeros((2, 5, 4), "float32"), np.array([5, 3], "int32")
    with pytest.raises(ExportError, match="blank that is not the last class"):
        onnx_results(lambda x, n: ops.ctc_decode(x, n, mask_index=0), [scores, lengths], tmp_path)


@pytest.mark.parametrize(
    ("value", "boundary"), [(np.float64(1 - 1e-12), 1.0), (np.float64(0.1), 0.1), (np.int32(2**24 - 1), 2.0**24)]
)
def test_a_number_beside_a_boundary_is_not_rounded_onto_it(value: Any, boundary: float, tmp_path: Path) -> None:
    assert_agrees(lambda x: ops.digitize(x, np.array([boundary], "float32")), [np.array([value])], tmp_path)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_that_float32_merges_are_told_apart(dtype: str, tmp_path: Path) -> None:
    x = np.array([[2**24, 2**24 + 1, -(2**24), -(2**24) - 1]], dtype)
    assert_agrees(lambda x: ops.top_k(x, 4), [x], tmp_path)


def test_in_top_k_counts_ties_and_refuses_what_is_not_finite(tmp_path: Path) -> None:
    scores = np.array([[1, 3, 2], [3, 3, 3], [1, np.inf, 2], [np.nan, 1, 0], [1, 2, 3], [1, 2, 3]], "float32")
    targets = np.array([2, 0, 2, 1, 7, -1], "int32")
    assert_agrees(lambda t, s: ops.in_top_k(t, s, 2), [targets, scores], tmp_path)
