"""Complex numbers are pairs of real ones, in computations and in changes of shape, at any size of the batch."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import assert_cases_agree, exported_together, keras_results, onnx_results

PARTS = [np.random.default_rng(seed).normal(size=(4, 3)).astype("float32") for seed in (0, 1)]
WIDE_PARTS = [np.random.default_rng(seed).normal(size=(4, 6)).astype("float32") for seed in (0, 1)]
MATRIX = tf.constant(np.random.default_rng(2).normal(size=(3, 3)) + 1j, tf.complex64)


def _parts(x: Any) -> tuple[Any, Any]:
    return ops.real(x), ops.imag(x)


def _transform_in_branch(x: Any, bound: float) -> Any:
    is_above, real = tf.reduce_all(ops.real(x) > bound), ops.real(x)
    return tf.cond(is_above, lambda: ops.rfft(real)[0], lambda: ops.rfft(real)[1])


AGREEING: dict[str, Callable[[Any], Any]] = {
    "conjugate": lambda x: _parts(ops.conj(x)),
    "sum": lambda x: _parts(x + tf.constant([1 + 2j, 3, 4j], tf.complex64)),
    "product": lambda x: _parts(x * tf.constant([1 + 2j, 3, 4j], tf.complex64)),
    "product of ranks": lambda x: _parts(tf.expand_dims(ops.real(x), 0) * 1.5 + ops.abs(2j * x)),
    "pad": lambda x: _parts(tf.pad(x, [[1, 2], [0, 3]])),
    "shape": lambda x: ops.zeros(tf.shape(x)),
    "rows": lambda x: ops.broadcast_to(tf.shape(x, tf.int64), (2, 2)),
    "from real": lambda x: _parts(tf.cast(ops.abs(x), tf.complex64)),
    "view": lambda x: ops.view_as_real(x),
    "difference": lambda x: _parts(x - 1),
    "negative": lambda x: _parts(-x),
    "real of complex": lambda x: tf.cast(x, "float32"),
    "sum of a row": lambda x: _parts(tf.reduce_sum(x, -1)),
    "mean of all": lambda x: _parts(tf.reduce_mean(x, [0, -1], keepdims=True)),
    "doubles": lambda x: _parts(tf.complex(ops.cast(ops.real(x), "float64"), ops.cast(ops.imag(x), "float64"))),
    "quotient": lambda x: _parts(tf.constant([1 + 2j, 3, 4j], tf.complex64) / x),
    "quotient of large ones": lambda x: _parts((x * 1e30) / (x * 2e30)),
    "inverse": lambda x: _parts(tf.math.reciprocal(x)),
    "square": lambda x: _parts(tf.square(x)),
    "exponential": lambda x: _parts(ops.exp(x)),
    "logarithm": lambda x: _parts(ops.log(x)),
    "product of matrices": lambda x: _parts(tf.matmul(x, MATRIX)),
    "product of adjoints": lambda x: _parts(tf.matmul(x, x, adjoint_b=True)),
    "contraction": lambda x: _parts(tf.einsum("bi,jk->bk", x, MATRIX)),
    "chosen": lambda x: _parts(tf.where(ops.real(x) > 0, x, tf.constant(2j, tf.complex64))),
    "gathered": lambda x: _parts(tf.gather(x, [2, 0], axis=-1)),
    "tiled": lambda x: _parts(tf.tile(x, [1, 2])),
    "last columns": lambda x: _parts(x[..., 1:]),
    "a column": lambda x: _parts(x[1:, ..., 2]),
    "all of a stack": lambda x: _parts(tf.stack([x, -x])[1, ..., ::-1]),
    "broadcast": lambda x: _parts(tf.broadcast_to(x[:1], (2, 3))),
    "two columns": lambda x: ops.view_as_real(ops.view_as_complex(ops.real(x)[:, :2])),
    "half of a spectrum": lambda x: ops.abs(tf.expand_dims(tf.signal.fft(x), -1)[:, : tf.shape(x)[1] // 2, :]),
    **{f"a branch above {bound}": partial(_transform_in_branch, bound=bound) for bound in (-9, 9)},
}
# A function, and the rule that it breaks.
UNSUPPORTED = r"operator '{}' of .* for complex numbers\. Keep real and imaginary parts"
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a root": (lambda x: ops.real(tf.sqrt(x)), UNSUPPORTED.format("Sqrt")),
    "a new axis": (lambda x: ops.real(x[:, None, 1:]), UNSUPPORTED.format("StridedSlice")),
    "a reflection": (lambda x: ops.real(tf.pad(x, [[0, 0], [1, 1]], mode="REFLECT")), UNSUPPORTED.format("MirrorPad")),
    "a comparison": (lambda x: tf.equal(x, tf.math.conj(x)), UNSUPPORTED.format("Equal")),
    "a spectrum": (lambda x: ops.real(tf.signal.rfft2d(ops.real(x), [4, 4])), UNSUPPORTED.format("RFFT2D")),
    "a branch": (
        lambda x: ops.real(tf.cond(tf.reduce_all(ops.abs(x) > 0), lambda: x, lambda: tf.math.conj(x))),
        "for complex numbers",
    ),
    "an output": (lambda x: x, "'output' is complex, and runtimes take no such tensor"),
    "parts of unlike shapes": (
        lambda x: ops.abs(tf.complex(ops.real(x), ops.imag(x)[:, :1])),
        r"'Complex' .* of unlike shapes",
    ),
}


def _as_real_function(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda real, imaginary: function(tf.complex(real, imaginary))


# The sums and means agree at the lowest operator set too.
@pytest.mark.parametrize(
    ("names", "opset"), [pytest.param([*AGREEING], 18, marks=pytest.mark.slow), (["sum of a row", "mean of all"], 15)]
)
def test_operations_of_keras_on_complex_numbers_agree(names: list[str], opset: int, tmp_path: Path) -> None:
    calls = {name: _as_real_function(AGREEING[name]) for name in names}
    for name, actual, truth in exported_together(calls, PARTS, tmp_path, opset_version=opset):
        # Products, a difference of two; quotients of numbers above some tenth; sums of at most twelve terms.
        np.testing.assert_allclose(actual, truth, rtol=1e-6, atol=1e-6, strict=True, err_msg=name)


def test_the_length_and_angle_of_extreme_numbers_are_right(tmp_path: Path) -> None:
    values = np.array([0, -0.0, 1, -3e38, 1e38, 3e-38, -2e-38, np.inf, -np.inf, np.nan], "float32")
    real, imaginary = (side.ravel() for side in np.meshgrid(values, values))
    call = _as_real_function(lambda x: (ops.abs(x), tf.math.angle(x)))
    length, angle = onnx_results(call, [real, imaginary], tmp_path)
    is_defined = ~(np.isnan(real) | np.isnan(imaginary))
    assert np.isnan(length[~is_defined]).all()
    # Two quotients and products, a sum, a root, a product; for the angle see that of arctan2.
    with np.errstate(over="ignore"):
        truth = np.hypot(real, imaginary)
    np.testing.assert_allclose(length[is_defined], truth[is_defined], rtol=8 * np.finfo("float32").eps)
    np.testing.assert_allclose(angle, np.arctan2(imaginary, real), rtol=4 * np.finfo("float32").eps)


@pytest.mark.parametrize(("function", "reason"), REFUSED.values(), ids=REFUSED)
def test_any_other_use_of_complex_numbers_is_refused(
    function: Callable[[Any], Any], reason: str, tmp_path: Path
) -> None:
    keras_results(_as_real_function(function), PARTS)
    with pytest.raises(ExportError, match=reason):
        onnx_results(_as_real_function(function), PARTS, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_complex_inputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="is complex, and runtimes take no such tensor"):
        onnx_results(ops.real, [PARTS[0].astype("complex64")], tmp_path)


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
    "every second": lambda x: x[:, ::2],
    "backwards": lambda x: x[::-1, 4:0:-2],
    "half of the rows": lambda x: x[: tf.shape(x)[0] // 2],
    "the last column": lambda x: x[:, -1],
    "the last row": lambda x: x[-1, 1:],
}


def test_the_shape_changes_as_that_of_real_numbers(tmp_path: Path) -> None:
    def call(real: Any, imaginary: Any) -> Any:
        return [_parts(change(tf.complex(real, imaginary))) for change in CHANGES.values()]

    cases = [[part[:rows] for part in WIDE_PARTS] for rows in (4, 2)]
    assert_cases_agree(call, [(None, 6)] * 2, cases, tmp_path, opset_version=15)
