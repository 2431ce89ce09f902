"""A size that is computed may be zero."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.export.onnx.exported import assert_cases_agree

RNG = np.random.default_rng(0)


def call(x: Any) -> tuple[Any, ...]:
    """Returns the rows that are positive, with their columns in pairs, and all steps of all rows as one axis."""
    kept = tf.boolean_mask(x[:, 0], x[:, 0, 0] > 0)
    count = tf.shape(kept)[0]
    batch, steps = ops.shape(x)[:2]
    halves = ops.reshape(ops.transpose(x, (2, 0, 1)), (batch, 2, steps, 2))
    return ops.reshape(ops.transpose(kept), (count, 2, 2)), ops.reshape(x, (batch * steps, 4)), halves


@pytest.mark.slow
def test_an_empty_tensor_is_reshaped_to_an_empty_tensor(tmp_path: Path) -> None:
    def reshape_empty(x: Any) -> Any:
        pairs = ops.stack([x[..., :0], -x[..., :0]], -2)
        batch, steps = ops.shape(x)[:2]
        return ops.reshape(pairs, (batch, steps, 0)), ops.reshape(pairs, (0, 4))

    assert_cases_agree(reshape_empty, [(None, None, 4)], [[np.ones((2, 3, 4), "float32")]], tmp_path)


@pytest.mark.slow
def test_a_computed_size_may_be_zero(tmp_path: Path) -> None:
    sizes = ((3, 2, 1), (3, 2, -1), (0, 2, 1), (2, 5, 1))
    cases = [[sign * RNG.uniform(1, 2, (batch, steps, 4)).astype("float32")] for batch, steps, sign in sizes]
    assert_cases_agree(call, [(None, None, 4)], cases, tmp_path)


@pytest.mark.slow
def test_a_size_to_infer_is_told_where_it_is_known(tmp_path: Path) -> None:
    def reshape_empty(x: Any) -> Any:
        batch = ops.shape(x)[0]
        return ops.reshape(x, (batch, 4, -1)), ops.reshape(ops.transpose(x, (0, 2, 1)), (batch, -1)), ops.median(x, 1)

    cases = [[RNG.uniform(size=(batch, 3, 4)).astype("float32")] for batch in (0, 2)]
    assert_cases_agree(reshape_empty, [(None, 3, 4)], cases, tmp_path)
