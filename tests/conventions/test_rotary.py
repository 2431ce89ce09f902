"""What a rotary function does is told by unit vectors; weights moved to another layout give the same scores."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding
from keras_pe.conventions import identify_rotary, permute_rotary_weights

LAYOUTS = ("halves", "interleaved", "interleaved_to_halves")


def rotating(start: int = 0, **arguments: Any) -> Any:
    layer = RotaryPositionEncoding(**arguments)
    return lambda x: ops.convert_to_numpy(layer(x, start_index=start))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("start", "rotary_dim", "base"), [(0, None, 1e4), (7, 8, 5e5), (300, None, 100.0)])
def test_layout_width_base_and_first_position_are_told(
    layout: str, start: int, rotary_dim: int | None, base: float
) -> None:
    match = identify_rotary(rotating(start, layout=layout, rotary_dim=rotary_dim, base=base), 16)
    assert match is not None
    assert (match.layout, match.rotary_dim, match.direction) == (layout, rotary_dim or 16, 1)
    assert (match.rope_type, match.start_index) == ("default", start)
    assert match.base == pytest.approx(base, rel=1e-2)
    assert match.attention_factor == pytest.approx(1.0, abs=1e-6)


def test_a_scaling_is_named_where_the_rates_prove_it_and_nowhere_else() -> None:
    linear = identify_rotary(rotating(scaling={"rope_type": "linear", "factor": 4.0}), 16)
    assert linear is not None
    assert (linear.rope_type, linear.factor) == ("linear", pytest.approx(4.0, rel=1e-4))
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    match = identify_rotary(rotating(scaling=yarn), 16)
    assert match is not None
    assert (match.rope_type, match.base) == (None, None)
    assert match.attention_factor == pytest.approx(0.1 * np.log(8) + 1, rel=1e-5)


def test_the_other_direction_is_seen() -> None:
    def backwards(x: np.ndarray) -> np.ndarray:
        turn = RotaryPositionEncoding()
        return ops.convert_to_numpy(turn(x, positions=-np.arange(x.shape[1])))

    match = identify_rotary(backwards, 8)
    assert match is not None
    assert (match.direction, match.layout, match.start_index) == (-1, "halves", 0)


@pytest.mark.parametrize(
    "function",
    [lambda x: x, lambda x: x + 1, lambda x: 2 * x[..., ::-1], lambda x: x * np.arange(x.shape[1])[:, None, None]],
)
def test_what_turns_no_pairs_is_no_rotary_encoding(function: Any) -> None:
    assert identify_rotary(function, 8) is None


def test_keras_hubs_layer_is_told() -> None:
    from keras_hub.layers import RotaryEmbedding

    match = identify_rotary(lambda x: ops.convert_to_numpy(RotaryEmbedding(max_wavelength=1000)(x)), 16)
    assert match is not None
    assert (match.layout, match.rope_type, match.start_index) == ("halves", "default", 0)
    assert match.base == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
def test_scores_stay_as_they_are(source: str, target: str, rotary_dim: int | None) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1, 5, 6)).astype("float32")
    kernels, biases = rng.normal(size=(2, 6, 3, 8)), rng.normal(size=(2, 3, 8))

    def scores(layout: str, kernels: Any, biases: Any) -> np.ndarray:
        layer = RotaryPositionEncoding(layout=layout, rotary_dim=rotary_dim)
        queries, keys = (np.einsum("btc,chd->bthd", x, k) + b for k, b in zip(kernels, biases, strict=True))
        return np.einsum("bqhd,bkhd->bhqk", *(ops.convert_to_numpy(layer(each)) for each in (queries, keys)))

    def moved(weights: np.ndarray) -> np.ndarray:
        return permute_rotary_weights(weights, source, target, head_dim=8, rotary_dim=rotary_dim)

    expected = scores(source, kernels, biases)
    got = scores(target, [moved(each) for each in kernels], [moved(each) for each in biases])
    # Eight products of numbers below 60 and their sum, in float32.
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
    # A Dense holds the heads one after the other.
    flat = moved(kernels[0].reshape(6, 24))
    np.testing.assert_array_equal(flat.reshape(6, 3, 8), moved(kernels[0]))


def test_what_does_not_fit_is_refused() -> None:
    for arguments in (
        {"head_dim": 5},
        {"head_dim": 8, "rotary_dim": 3},
        {"head_dim": 8, "source": "half"},
    ):
        with pytest.raises(ValueError, match=r"Received|Unknown layout"):
            permute_rotary_weights(np.zeros((2, 16)), **{"source": "halves", "target": "interleaved", **arguments})
    with pytest.raises(ValueError, match="must return the shape"):
        identify_rotary(lambda x: x[..., 0], 8)
