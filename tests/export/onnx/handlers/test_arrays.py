from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.export.onnx.exported import keras_results, onnx_results, open_session

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_slice_is_written_where_it_fits(dtype: str, tmp_path: Path) -> None:
    x, update = (RANDOM.normal(size=shape, scale=9).astype(dtype) for shape in ((4, 3, 6), (2, 2, 3)))
    specs = [
        keras.InputSpec(shape=shape, dtype=kind)
        for shape, kind in zip(((4, 3, 6), (2, 2, 3), (3,)), (dtype, dtype, "int32"), strict=True)
    ]
    run = open_session(_update, specs, tmp_path)
    for start in ((0, 1, 2), (-3, 0, 0), (9, 9, 9)):
        inputs = [x, update, np.array(start, "int32")]
        np.testing.assert_array_equal(run(inputs)[0], keras_results(_update, inputs)[0], strict=True)


def test_the_cross_product_agrees(tmp_path: Path) -> None:
    inputs = [RANDOM.normal(size=(4, 3)).astype("float32") for _ in range(2)]
    (actual,) = onnx_results(ops.cross, inputs, tmp_path)
    np.testing.assert_allclose(actual, np.cross(*inputs), rtol=1e-6, atol=4 * np.finfo("float32").eps)  # two products


@pytest.mark.slow
def test_the_ends_of_a_linear_space_broadcast(tmp_path: Path) -> None:
    inputs = [RANDOM.normal(size=shape).astype("float32") for shape in ((4, 1), (4, 3))]
    (actual,) = onnx_results(lambda a, b: ops.linspace(a, b, 5), inputs, tmp_path)
    np.testing.assert_allclose(actual, np.linspace(*inputs, 5), rtol=1e-6, atol=1e-6)  # a product and a sum of order 1


@pytest.mark.slow
def test_a_running_product_takes_any_axis(tmp_path: Path) -> None:
    dtypes = ("float32", "int32", "int64")
    arrays = [RANDOM.integers(-3, 4, (4, 3, 5)).astype(dtype) for dtype in dtypes]  # below 2**24: exact in float32 too

    def products(*tensors):
        return [ops.cumprod(tensor, axis=axis) for tensor in tensors for axis in (0, 1, -1)]

    truths = [np.cumprod(x, axis, dtype=x.dtype) for x in arrays for axis in (0, 1, -1)]
    for actual, truth in zip(onnx_results(products, arrays, tmp_path), truths, strict=True):
        np.testing.assert_array_equal(actual, truth, strict=True)


def test_the_first_truth_is_found(tmp_path: Path) -> None:
    x = np.array([[False, True, True], [False, False, False]])
    (actual,) = onnx_results(lambda t: ops.argmax(t, axis=-1), [x], tmp_path)
    assert actual.tolist() == [1, 0]


def _update(x, update, start):
    return ops.slice_update(x, start, update)


def test_an_index_is_taken_apart(tmp_path: Path) -> None:
    indices = np.array([0, 1, 5, 12, 23], "int32")
    (actual,) = onnx_results(lambda x: tf.transpose(tf.unravel_index(x, (2, 3, 4))), [indices], tmp_path)
    np.testing.assert_array_equal(actual.T, np.unravel_index(indices, (2, 3, 4)))
