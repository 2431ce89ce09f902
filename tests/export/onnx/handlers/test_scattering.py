"""Values that are added, multiplied or compared at indices: counts, segments and sparse matrices are those of Keras."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import assert_agrees, assert_cases_agree, onnx_results

RNG = np.random.default_rng(0)
VALUES = np.array([[3, 0, 3, 5], [2, 2, 2, 1], [9, 1, 0, 0]], "int32")  # 9 is beyond the last bin
IDS = np.array([0, 0, 1, 3, -1, 3], "int32")  # nothing in 2 and 4, and one that is dropped
ADJACENCY = np.where(RNG.random((5, 7)) < 0.4, RNG.normal(size=(5, 7)), 0).astype("float32")
SPARSE = tf.sparse.from_dense(ADJACENCY)


def _normal(*shape):
    return RNG.normal(size=shape).astype("float32")


@pytest.mark.parametrize("values", [VALUES, VALUES[0]])
def test_values_are_counted_as_often_as_they_come(values, tmp_path):
    assert_agrees(lambda x: ops.bincount(x, minlength=10), [values], tmp_path)


def test_weights_are_added(tmp_path):
    weights = np.array([0.5, 1.5, 2.0, 4.0], "float32")
    expected = np.bincount(VALUES[0], weights, 6).astype("float32")
    assert_agrees(lambda x, w: ops.bincount(x, weights=w, minlength=6), [VALUES[0], weights], tmp_path, [expected])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("function", [ops.segment_sum, ops.segment_prod, ops.segment_max, ops.segment_min])
def test_empty_and_negative_segments_are_as_in_keras(function, dtype, tmp_path):
    data = np.array([[1, -2], [3, 4], [5, -6], [7, 8], [9, 10], [-3, 2]], dtype)
    assert_agrees(lambda x, ids: function(x, ids, num_segments=5), [data, IDS], tmp_path)


@pytest.mark.parametrize(("is_a", "is_b", "rows"), [(False, False, 7), (True, False, 5), (False, True, 3)])
def test_the_product_with_a_dense_matrix_agrees(is_a, is_b, rows, tmp_path):
    def call(x):
        return tf.sparse.sparse_dense_matmul(SPARSE, x, adjoint_a=is_a, adjoint_b=is_b)

    # Sums of at most seven terms of order 1.
    assert_agrees(call, [_normal(rows, 7 if is_b else 3)], tmp_path, atol=7 * 2**-22, is_static=True)


def test_edges_that_come_in_may_repeat_and_are_as_many_as_there_are(tmp_path):
    def call(edges, weights, x):
        return tf.sparse.sparse_dense_matmul(tf.SparseTensor(edges, weights, [5, 5]), x)

    cases = [[RNG.integers(0, 5, (count, 2)), _normal(count), _normal(5, 3)] for count in (1, 4, 11)]
    # Sums of at most eleven terms of order 1.
    assert_cases_agree(call, [(None, 2), (None,), (5, 3)], cases, tmp_path, atol=11 * 2**-22)


def test_a_sparse_matrix_is_made_dense(tmp_path):
    def call(values):
        return tf.sparse.to_dense(tf.SparseTensor(SPARSE.indices, values, [5, 7]), default_value=-1.0)

    assert_agrees(call, [_normal(len(SPARSE.values))], tmp_path, is_static=True)


@pytest.mark.parametrize(("function", "inputs", "message"), [
    (lambda x: ops.bincount(x, minlength=6), [VALUES], "needs opset 16"),
    (lambda x, ids: ops.segment_max(x, ids, 5), [np.ones((6, 2), "float32"), IDS], "UnsortedSegmentMax needs opset 18"),
    (lambda x: tf.sparse.sparse_dense_matmul(SPARSE, x), [np.ones((7, 2), "float32")], "SparseTensorDenseMatMul"),
], ids=["counts", "extremes", "sparse products"])  # fmt: skip
def test_below_the_opset_that_scatters_an_export_is_refused(function, inputs, message, tmp_path):
    with pytest.raises(ExportError, match=message):
        onnx_results(function, inputs, tmp_path, is_static=True, opset_version=15)
