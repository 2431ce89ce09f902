from pathlib import Path

import numpy as np
import pytest
from keras import ops

from tests.export.onnx.exported import expected, exported

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("start", [(0, 1, 2), (-3, 0, 0), (9, 9, 9)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_slice_is_written_where_it_fits(start: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    x, update = (RANDOM.normal(size=shape, scale=9).astype(dtype) for shape in ((4, 3, 6), (2, 2, 3)))
    inputs = [x, update, np.array(start, "int32")]
    (actual,) = exported(_update, inputs, tmp_path, is_static=True)
    np.testing.assert_array_equal(actual, expected(_update, inputs)[0], strict=True)


def test_the_cross_product_agrees(tmp_path: Path) -> None:
    inputs = [RANDOM.normal(size=(4, 3)).astype("float32") for _ in range(2)]
    (actual,) = exported(ops.cross, inputs, tmp_path)
    np.testing.assert_allclose(actual, np.cross(*inputs), rtol=1e-6, atol=4 * np.finfo("float32").eps)  # two products


def test_the_ends_of_a_linear_space_broadcast(tmp_path: Path) -> None:
    inputs = [RANDOM.normal(size=shape).astype("float32") for shape in ((4, 1), (4, 3))]
    (actual,) = exported(lambda a, b: ops.linspace(a, b, 5), inputs, tmp_path)
    np.testing.assert_allclose(actual, np.linspace(*inputs, 5), rtol=1e-6, atol=1e-6)  # a product and a sum of order 1


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_a_running_product_takes_any_axis(axis: int, dtype: str, tmp_path: Path) -> None:
    x = RANDOM.integers(-3, 4, (4, 3, 5)).astype(dtype)  # products below 2**24: exact in float32 too
    (actual,) = exported(lambda t: ops.cumprod(t, axis=axis), [x], tmp_path)
    np.testing.assert_array_equal(actual, np.cumprod(x, axis).astype(dtype), strict=True)


def test_the_first_truth_is_found(tmp_path: Path) -> None:
    x = np.array([[False, True, True], [False, False, False]])
    (actual,) = exported(lambda t: ops.argmax(t, axis=-1), [x], tmp_path)
    assert actual.tolist() == [1, 0]


def _update(x, update, start):
    return ops.slice_update(x, start, update)
