"""Complex tensors traced as two real ones hold what TensorFlow's do, and no operator of them is left."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export.model.watch.symbolic_trace import operators_before
from tests.export.graph.traced_forms import assert_traced_agrees, trace_forms

CONSTANT = np.exp(1j * np.arange(8)).astype("complex64")


def _concatenate_parts(x: Any) -> Any:
    return tf.concat([x, tf.reverse(x, [1]), tf.stack([x[:, 0], x[:, 1]], 1)], 1)


# Functions of a complex tensor with any number of rows and eight columns.
FORMS: dict[str, Callable[[Any], Any]] = {
    "abs": ops.abs,
    "angle": ops.angle,
    "conjugate": ops.conj,
    "slice": lambda x: x[:, 1:-1:2],
    "slice with a new axis": lambda x: x[..., None, 3],
    "sum, difference and product": lambda x: (x + CONSTANT) * x - x[::-1],
    "quotient": lambda x: CONSTANT / x + tf.math.reciprocal(x),
    "exponential and logarithm": lambda x: ops.exp(x) + tf.math.log(x),
    "square": lambda x: tf.square(x) + tf.ones_like(x),
    "joined": _concatenate_parts,
    "shape": lambda x: ops.transpose(ops.reshape(x, (-1, 2, 4)), (2, 1, 0)),
    "dynamic shape": lambda x: tf.reshape(x, tf.reverse(tf.shape(x), [0])),
    "chosen": lambda x: tf.where(ops.abs(x) > 1, x, tf.zeros_like(x)),
    "gathered": lambda x: ops.take(x, [3, 0], 1),
    "reductions": lambda x: ops.sum(x, 1) + tf.reduce_mean(x, 1),
    "padded and repeated": lambda x: tf.tile(tf.pad(x, [[1, 0], [0, 2]]), [1, 2]),
    "matrix product": lambda x: tf.matmul(x, x, adjoint_b=True) + tf.matmul(x, x, transpose_b=True),
    "contraction": lambda x: ops.einsum("ij,kj->ik", x, x),
    "spread": lambda x: tf.complex(tf.math.real(x), tf.math.imag(x)[0]),
    "cast": lambda x: tf.cast(tf.cast(x, "float32"), "complex64") * x,
    "rotary": lambda x: ops.view_as_real(x * ops.polar(ops.ones(8), ops.arange(8, dtype="float32"))),
    "fft": tf.signal.fft,
    "inverse fft of both axes": lambda x: tf.signal.ifft2d(tf.reshape(x, [-1, 2, 4])),
    "irfft, shorter, even and odd": lambda x: (tf.signal.irfft(x, [6]), tf.signal.irfft(x, [15])),
    "irfft of both axes": lambda x: tf.signal.irfft2d(tf.reshape(x, [-1, 2, 4]), [2, 6]),
    "rfft of 7": lambda x: tf.signal.rfft(tf.math.real(x), [7]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_complex_tensor_is_computed_as_two_real_ones(name: str) -> None:
    def compute_parts(real: Any, imaginary: Any) -> list[Any]:
        results = tf.nest.flatten(FORMS[name](tf.complex(real, imaginary)))
        complex_ = [x for x in results if x.dtype.is_complex]
        return [part(x) for x in complex_ for part in (tf.math.real, tf.math.imag)] or results

    traced = trace_forms(compute_parts, [tf.TensorSpec((None, 8))] * 2)
    assert not [op.type for op in operators_before(traced.outputs) for x in op.inputs if x.dtype.is_complex]
    for rows in (1, 3):
        parts = np.random.default_rng(rows).normal(size=(2, rows, 8)).astype("float32")
        # Sums of up to sixteen products, each rounded twice to 2**-24 of the largest value.
        assert_traced_agrees(traced, compute_parts, parts, atol=lambda x: 32 * 2**-24 * max(1.0, np.abs(x).max()))


def test_a_length_neither_overflows_nor_vanishes() -> None:
    def length(pairs: Any) -> Any:
        return ops.abs(tf.complex(pairs[:, 0], pairs[:, 1]))

    pairs = np.array([[3e30, 4e30], [3e-30, 4e-30], [0, 0], [np.inf, 1], [-3, 4]], "float32")
    traced = trace_forms(length, [tf.TensorSpec((5, 2))])
    np.testing.assert_allclose(traced(tf.constant(pairs)), [5e30, 5e-30, 0, np.inf, 5], rtol=4 * 2**-24)
