"""Functions that LiteRT lacks agree with the operators of TensorFlow, and are made of operators of LiteRT."""

from typing import Any

import numpy as np
import tensorflow as tf

from tests.export.graph.traced_forms import assert_traced_agrees, operator_types, trace_forms

NUMBERS = np.array([0, 1e-30, 1e-4, 0.3, 0.99, 1, 1.01, 2, 30, 88.9, 1e6, 3e9, 1e30, np.inf, np.nan], "float32")
OF_NUMBERS = (tf.asin, tf.acos, tf.sinh, tf.cosh, tf.asinh, tf.acosh, tf.atanh)


def test_functions_of_numbers_agree_to_a_few_roundings() -> None:
    def compute(x: Any) -> list[Any]:
        return [function(x) for function in OF_NUMBERS]

    traced = trace_forms(compute, [tf.TensorSpec((None,))])
    assert operator_types(traced).isdisjoint(("Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"))
    numbers = np.concatenate([NUMBERS, -NUMBERS])
    for function, actual in zip(OF_NUMBERS, traced(tf.constant(numbers)), strict=True):
        expected = function(tf.constant(numbers, "float64")).numpy().astype("float32")
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=0, err_msg=function.__name__)


def test_counts_diagonals_and_places_are_those_of_tensorflow() -> None:
    random = np.random.default_rng(0)

    def compute(x: Any, matrices: Any, ids: Any) -> list[Any]:
        return [
            *(tf.linalg.diag_part(matrices, k=k) for k in (2, -1)),
            tf.math.bincount(ids, minlength=4, maxlength=4, axis=-1),
            tf.math.bincount(ids, minlength=4, maxlength=4, axis=-1, binary_output=True),
            tf.math.bincount(ids, tf.cast(ids, "float32"), minlength=4, maxlength=4, axis=-1),
            *(tf.searchsorted([-1.0, 0.0, 2.0], x[:, 0], side) for side in ("left", "right")),
            tf.linalg.cross(x, x[:, ::-1]),
            *(tf.math.cumprod(x, -1, exclusive, not exclusive) for exclusive in (False, True)),
            tf.bitwise.left_shift(ids, 3),
            tf.bitwise.invert(ids),
            tf.cast(ids * 60, "uint8") // 7,
            tf.ensure_shape(x, (None, 3)),
        ]

    specs = [tf.TensorSpec((None, 3)), tf.TensorSpec((None, None, None)), tf.TensorSpec((None, None), "int32")]
    traced = trace_forms(compute, specs)
    lacking = ("MatrixDiagPartV3", "DenseBincount", "LowerBound", "UpperBound", "Cross", "Cumprod", "EnsureShape")
    assert operator_types(traced).isdisjoint((*lacking, "LeftShift", "Invert"))
    inputs = [random.integers(-3, 4, shape).astype("float32") for shape in ((5, 3), (2, 4, 5))]
    assert_traced_agrees(traced, compute, [*inputs, random.integers(0, 5, (4, 6)).astype("int32")])


def test_texts_are_compared() -> None:
    """A form compares numbers with infinity, which no text equals."""
    traced = trace_forms(lambda x: tf.equal(x, "inf"), [tf.TensorSpec((None,), "string")])
    assert traced(tf.constant(["inf", "b"])).numpy().tolist() == [True, False]
