"""Draws in integer arithmetic are the draws of Keras on TensorFlow, bit for bit; normal numbers up to rounding."""

from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export.model.random_draws import draws_as_arithmetic


def draw(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    generator = keras.random.SeedGenerator(seed)
    numbers = [
        keras.random.uniform(shape, seed=generator),
        keras.random.uniform(shape, -3, 5, seed=generator),
        keras.random.randint(shape, -5, 1000, seed=generator),
        keras.random.randint(shape, 0, 9, dtype="int64", seed=generator),
        keras.random.dropout(np.ones(shape, "float32"), 0.3, seed=generator),
        keras.random.dropout(np.ones((4, *shape), "float32"), 0.3, (None, *[1] * len(shape)), seed=generator),
        generator.state,
        keras.random.normal(shape, 1, 2, dtype=dtype, seed=generator),
        keras.random.normal(shape, dtype=dtype, seed=3),
    ]
    return [np.asarray(each) for each in numbers]


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("seed", "shapes"),
    [
        (2**31 - 1, [(), (2, 3, 5)]),
        (0, [(1,), (3,), (4,), (7,), (1001,)]),  # numbers are drawn in fours
        *((seed, [(3,)]) for seed in (1, 2**31 - 2, 2**32 - 1)),
    ],
)
def test_draws_are_those_of_keras(seed: int, shapes: list[tuple[int, ...]]) -> None:
    for shape in shapes:
        usual = draw(seed, shape)
        with draws_as_arithmetic():
            own, wide = draw(seed, shape), draw(seed, shape, "float64")
        for one, other in zip(usual[:-2], own[:-2], strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other, exact in zip(usual[-2:], own[-2:], wide[-2:], strict=True):
            np.testing.assert_allclose(one, other, atol=4e-6)
            np.testing.assert_allclose(one, exact, atol=8e-6)


def test_numbers_of_16_bits_are_rounded_draws_of_32_bits() -> None:
    with draws_as_arithmetic():
        short, own = (keras.random.normal((50,), dtype=dtype, seed=3) for dtype in ("float16", "float32"))
    np.testing.assert_array_equal(np.asarray(short), np.asarray(own).astype("float16"))
