"""Complex tensors change their shape as real ones do, at any size of the batch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.export.onnx.exported import assert_agrees, assert_cases_agree

PARTS = [np.random.default_rng(seed).normal(size=(4, 6)).astype("float32") for seed in (0, 1)]
CHANGES: dict[str, Callable[[Any], Any]] = {
    "reshaped": lambda x: tf.reshape(x, [-1, 2, 3]),
    "flat": lambda x: tf.reshape(x, [-1]),
    "transposed": tf.transpose,
    "axes in turn": lambda x: tf.transpose(tf.reshape(x, [-1, 2, 3]), [2, 0, 1]),
    "joined": lambda x: tf.concat([x, tf.math.conj(x)], -1),
    "stacked": lambda x: tf.stack([x, x * 2.0, -x], 1),
    "stacked last": lambda x: tf.stack([x, -x], -1),
    "last axis": lambda x: tf.expand_dims(x, -1),
    "first axis": lambda x: tf.expand_dims(x, 0),
    "squeezed": lambda x: tf.squeeze(tf.reshape(x, [-1, 1, 6, 1]), [1, -1]),
    "columns": lambda x: x[:, 1:4],
    "every second": lambda x: x[:, ::2],
    "backwards": lambda x: x[::-1, 4:0:-2],
    "half of the rows": lambda x: x[: tf.shape(x)[0] // 2],
    "a column": lambda x: x[:, 2],
    "the last column": lambda x: x[:, -1],
    "the last row": lambda x: x[-1, 1:],
}


@pytest.mark.slow_rows(4)
@pytest.mark.quick_rows(5)
@pytest.mark.parametrize("name", CHANGES)
def test_the_shape_changes_as_that_of_real_numbers(name: str, tmp_path: Path) -> None:
    def call(real: Any, imaginary: Any) -> Any:
        changed = CHANGES[name](tf.complex(real, imaginary))
        return ops.real(changed), ops.imag(changed)

    cases = [[part[:rows] for part in PARTS] for rows in (4, 2)]
    assert_cases_agree(call, [(None, 6)] * 2, cases, tmp_path, opset_version=15)


def test_a_spectrum_is_cut_in_half(tmp_path: Path) -> None:
    def call(sound: Any) -> Any:
        spectrum = tf.expand_dims(tf.signal.fft(tf.complex(sound, tf.zeros_like(sound))), -1)
        return tf.math.abs(spectrum[:, : tf.shape(sound)[1] // 2, :])

    # Sums of six terms of order 1.
    assert_agrees(call, [PARTS[0]], tmp_path, atol=6 * 2**-22)
