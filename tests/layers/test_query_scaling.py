"""Queries are multiplied by the logarithm of their position, as each family of models defines it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding
from tests.layers.configurations import run

Factor = Callable[[np.ndarray], np.ndarray]

# Each formula as its source describes it, on 0-based positions.
FAMILIES: dict[str, tuple[dict[str, Any], Factor]] = {
    # transformers 5.24.0, modeling_ministral3.py, get_llama_4_attn_scale.
    "ministral3": ({"scale": 0.1, "length": 5}, lambda p: 1 + 0.1 * np.log(1 + np.floor(p / 5))),
    # transformers 5.24.0, modeling_llama4.py, `attn_scales` of layers without rotation.
    "llama4": (
        {"scale": 0.1, "length": 5, "first_position": 1},
        lambda p: np.log1p(np.floor((p + 1) / 5)) * 0.1 + 1,
    ),
    # transformers 5.24.0, modeling_inkling2.py, `log_scaling_alpha` and `log_scaling_n_floor`.
    "inkling": (
        {"scale": 0.3, "length": 5, "first_position": 1, "stepwise": False},
        lambda p: 1 + 0.3 * np.log(np.maximum((p + 1) / 5, 1)),
    ),
    # Qwen/Qwen-7B, modeling_qwen.py, `logn_list`: log(position, seq_length) of positions that count from 1.
    "qwen": (
        {"scale": 1 / np.log(5), "length": 5, "first_position": 1, "stepwise": False},
        lambda p: np.maximum(np.log(p + 1) / np.log(5), 1),
    ),
}
X = np.random.default_rng(5).uniform(0.5, 1, size=(2, 7, 3, 8)).astype("float32")


@pytest.mark.parametrize("family", FAMILIES)
def test_queries_grow_as_in_each_family_and_keys_stay(family: str) -> None:
    scaling, factor = FAMILIES[family]
    alone = RotaryPositionEncoding(rotary_dim=0, query_scaling=scaling)
    both, plain = RotaryPositionEncoding(query_scaling=scaling), RotaryPositionEncoding()
    given = np.array([[0, 1, 4, 5, 9, 10, 11], [3, 4, 2**24 - 1, 1_000_000, 0, 24, 25]])
    for arguments, positions in (
        ({}, np.arange(7)[np.newaxis]),
        ({"start_index": 1_000_000}, 1_000_000 + np.arange(7)[np.newaxis]),
        ({"start_index": np.array([3, 90_000], "int32")}, np.array([[3], [90_000]]) + np.arange(7)),
        ({"positions": given}, given),
    ):
        expected = factor(positions.astype("float64"))[:, :, np.newaxis, np.newaxis]
        queries, keys = (ops.convert_to_numpy(each) for each in alone(X, X, **arguments))
        np.testing.assert_allclose(queries, X * expected, rtol=4 * 2.0**-23)
        np.testing.assert_array_equal(keys, X)
        queries, keys = (ops.convert_to_numpy(each) for each in both(X, X, **arguments))
        turned = run(plain, X, **arguments)
        np.testing.assert_allclose(queries, turned * expected, rtol=0, atol=8 * 2.0**-23 * expected.max())
        np.testing.assert_array_equal(keys, turned)


def test_a_factor_reaches_the_channels_that_do_not_turn() -> None:
    """Ministral's factor multiplies the whole query, behind a rotation of a part of it."""
    layer = RotaryPositionEncoding(rotary_dim=4, query_scaling={"scale": 0.1, "length": 2})
    expected = 1 + 0.1 * np.log(1 + np.floor(np.arange(7) / 2))
    np.testing.assert_allclose(run(layer, X)[..., 4:], X[..., 4:] * expected[:, np.newaxis, np.newaxis], rtol=1e-6)


def test_fractions_and_negative_positions_have_the_factor_of_the_formula() -> None:
    positions = np.array([[-3.0, -0.5, 0.0, 4.99, 5.0, 5.5, 12.25]])
    for family in ("ministral3", "inkling"):
        scaling, factor = FAMILIES[family]
        expected = factor(np.maximum(positions, 0.0))[:, :, np.newaxis, np.newaxis]
        got = run(RotaryPositionEncoding(rotary_dim=0, query_scaling=scaling), X, positions=positions)
        np.testing.assert_allclose(got, X * expected, rtol=4 * 2.0**-23)


def test_axes_may_stand_anywhere() -> None:
    scaling = {"scale": 0.1, "length": 2}
    expected = run(RotaryPositionEncoding(query_scaling=scaling), X)
    got = run(RotaryPositionEncoding(query_scaling=scaling, sequence_axis=3, feature_axis=1), X.transpose(0, 3, 2, 1))
    np.testing.assert_allclose(got.transpose(0, 3, 2, 1), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query_scaling": {"scale": 0.1}}, "with 'scale' and 'length'"),
        ({"query_scaling": {"scale": 0.1, "length": 4, "beta": 1}}, "with 'scale' and 'length'"),
        ({"query_scaling": 0.1}, "with 'scale' and 'length'"),
        ({"query_scaling": {"scale": -0.1, "length": 4}}, "`scale` must be positive"),
        ({"query_scaling": {"scale": 0.1, "length": 0}}, "`length` must be a whole number"),
        ({"query_scaling": {"scale": 0.1, "length": 4, "first_position": 2}}, "0 or 1 as 'first_position'"),
        ({"query_scaling": {"scale": 0.1, "length": 4, "stepwise": 1}}, "True or False as 'stepwise'"),
        ({"query_scaling": {"scale": 0.1, "length": 4}, "sections": (2, 2)}, "with several axes"),
        ({"rotary_dim": 0}, "`rotary_dim` must be a whole number of at least 2"),
    ],
)
def test_a_factor_that_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"{message}.*Received"):
        RotaryPositionEncoding(**arguments).build((None, None, 3, 8))
