"""Sparse matrices of graph networks arrive: as a product with a dense one, and made dense."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import UnsupportedError
from tests.export.onnx.exported import keras_results, onnx_results, open_session

RNG = np.random.default_rng(0)
ADJACENCY = np.where(RNG.random((5, 7)) < 0.4, RNG.normal(size=(5, 7)), 0).astype("float32")
SPARSE = tf.sparse.from_dense(ADJACENCY)


@pytest.mark.parametrize(("is_a", "is_b", "rows"), [(False, False, 7), (True, False, 5), (False, True, 3)])
def test_the_product_with_a_dense_matrix_agrees(is_a: bool, is_b: bool, rows: int, tmp_path: Path) -> None:
    def call(x: Any) -> Any:
        return tf.sparse.sparse_dense_matmul(SPARSE, x, adjoint_a=is_a, adjoint_b=is_b)

    x = RNG.normal(size=(rows, 7 if is_b else 3)).astype("float32")
    (actual,) = onnx_results(call, [x], tmp_path, is_static=True)
    # Sums of at most seven terms of order 1.
    np.testing.assert_allclose(actual, keras_results(call, [x])[0], rtol=0, atol=7 * 2**-22, strict=True)


def test_edges_that_come_in_may_repeat_and_are_as_many_as_there_are(tmp_path: Path) -> None:
    def call(edges: Any, weights: Any, x: Any) -> Any:
        return tf.sparse.sparse_dense_matmul(tf.SparseTensor(edges, weights, [5, 5]), x)

    shapes = {"int64": (None, 2), "float32": (None,)}
    specs = [keras.InputSpec(shape=shape, dtype=dtype) for dtype, shape in shapes.items()]
    run = open_session(call, [*specs, keras.InputSpec(shape=(5, 3), dtype="float32")], tmp_path)
    for count in (1, 4, 11):
        edges, weights = RNG.integers(0, 5, (count, 2)), RNG.normal(size=count).astype("float32")
        inputs = [edges, weights, RNG.normal(size=(5, 3)).astype("float32")]
        # Sums of at most eleven terms of order 1.
        np.testing.assert_allclose(
            run(inputs)[0], keras_results(call, inputs)[0], rtol=0, atol=11 * 2**-22, strict=True
        )


def test_a_sparse_matrix_is_made_dense(tmp_path: Path) -> None:
    def call(values: Any) -> Any:
        return tf.sparse.to_dense(tf.SparseTensor(SPARSE.indices, values, [5, 7]), default_value=-1.0)

    values = RNG.normal(size=len(SPARSE.values)).astype("float32")
    (actual,) = onnx_results(call, [values], tmp_path, is_static=True)
    np.testing.assert_array_equal(actual, keras_results(call, [values])[0], strict=True)


def test_below_opset_16_the_product_is_refused(tmp_path: Path) -> None:
    def call(x: Any) -> Any:
        return tf.sparse.sparse_dense_matmul(SPARSE, x)

    with pytest.raises(UnsupportedError, match="SparseTensorDenseMatMul"):
        onnx_results(call, [np.ones((7, 2), "float32")], tmp_path, is_static=True, opset_version=15)
