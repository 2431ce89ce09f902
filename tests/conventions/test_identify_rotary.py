"""Unit vectors identify a rotary function: the result is right, or the function is refused."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding, rope_timescales
from keras_pe.conventions import identify_rotary

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


def test_the_rotated_part_of_a_proportional_encoding_is_identified() -> None:
    """The pairs that stay belong to the sequence of rates, and to the layout."""
    scaling = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "factor": 8.0}
    match = identify_rotary(rotating(base=1e6, scaling=scaling), 64)
    assert match is not None
    assert (match.rope_type, match.layout, match.rotary_dim, len(match.pairs)) == ("proportional", "halves", 64, 8)
    assert (match.base, match.factor) == (pytest.approx(1e6, rel=1e-3), pytest.approx(8.0, rel=1e-4))
    assert match.partial_rotary_factor == 0.25


@pytest.mark.parametrize("original", [2**power for power in (6, 10, 15, 18)])
@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0},
        {"rope_type": "llama3", "factor": 1.5, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    ],
)
def test_a_scaling_of_slow_pairs_alone_is_not_overlooked(scaling: dict[str, Any], original: int) -> None:
    """From 2**18 positions on rates are changed that are 2e-5 of the fastest."""
    match = identify_rotary(rotating(base=1e7, scaling={**scaling, "original_max_position_embeddings": original}), 128)
    assert match is not None
    assert (match.layout, match.rope_type, match.base) == ("halves", None, None)


def test_a_turn_that_is_the_same_everywhere_is_no_rotary_encoding() -> None:
    turn = RotaryPositionEncoding()
    assert identify_rotary(lambda x: ops.convert_to_numpy(turn(x, positions=np.ones(x.shape[1]))), 8) is None


def test_a_first_position_that_is_one_of_several_is_not_told() -> None:
    """After 710 positions a rate of 1 is back within 6e-5, which bfloat16 cannot tell."""

    def narrow(x: np.ndarray) -> np.ndarray:
        return ops.convert_to_numpy(ops.cast(ops.cast(rotating(7)(x), "bfloat16"), "float32"))

    match = identify_rotary(narrow, 2)
    assert match is not None
    assert match.start_index is None


@pytest.mark.slow
def test_the_identification_of_any_rotary_encoding_is_right() -> None:
    count = 15 if keras.config.backend() == "jax" else 200  # JAX compiles for each length
    told = [is_told_right(np.random.default_rng(seed)) for seed in range(count)]
    assert np.mean(told) > 0.3


def is_told_right(rng: np.random.Generator) -> bool:
    """Returns whether base and factor of an encoding are identified; fails if any reported value is wrong."""
    pairs, start, length = (int(rng.choice(each)) for each in ((4, 8, 32, 64), (0, 1, 300, 2000), (16, 64)))
    factor, original = float(rng.choice([1.5, 4, 32])), int(2 ** rng.integers(6, 20))
    scaling: dict[str, Any] = {
        "default": {},
        "linear": {"factor": factor},
        "yarn": {"factor": factor, "original_max_position_embeddings": original},
        "proportional": {"partial_rotary_factor": float(rng.choice([0.25, 0.5]))},
        "longrope": {
            name: np.linspace(1, factor, pairs).tolist() for name in ("short_factor", "long_factor")
        } | {"original_max_position_embeddings": original, "length": original, "factor": 1.0},
    }  # fmt: skip
    kind, layout = str(rng.choice(list(scaling))), str(rng.choice(LAYOUTS[:2]))
    base, dtype = float(rng.choice([100.0, 1e4, 1e6])), str(rng.choice(["float32", "bfloat16", "float16"]))
    scaling = {"rope_type": kind, **scaling[kind]}
    turn = RotaryPositionEncoding(base, layout=layout, scaling=scaling, dtype=dtype)
    turned = identify_rotary(
        lambda x: np.asarray(ops.convert_to_numpy(ops.cast(turn(x, start_index=start), "float32"))),
        2 * pairs,
        length=length,
    )
    assert turned is not None
    rates = 1 / rope_timescales(channels=2 * pairs, rope_theta=base, **scaling).timescales
    assert turned.start_index in (start, None)
    if turned.base is None:
        return False
    told = turned.base ** (-np.arange(len(turned.pairs)) * 2 / turned.rotary_dim) / (turned.factor or 1.0)
    np.testing.assert_allclose(told, rates[rates > 0], rtol=0.04)  # each is known to 0.02, and the line through them
    return True


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
def test_a_function_that_rotates_no_pairs_is_not_a_rotary_encoding(function: Any) -> None:
    assert identify_rotary(function, 8) is None


GRIDS: dict[str, dict[str, Any]] = {
    "blocks of axes": {"sections": [4, 4]},
    "one sequence of rates": {"sections": [4, 4], "shared_rates": True},
    "in turns": {"sections": [4, 4], "shared_rates": True, "interleave_sections": True},
    "split": {"sections": [4, 4], "split_sections": True},
    "neighbors": {"sections": [4, 4], "layout": "interleaved", "base": 100.0},
    "unequal": {"sections": [2, 6]},
}


@pytest.mark.parametrize("kind", GRIDS)
@pytest.mark.parametrize("shape", [(4, 8), (8, 8), (5, 3)])
def test_the_axis_of_each_pair_of_a_grid_is_told_and_exchanged_axes_with_it(kind: str, shape: tuple[int, int]) -> None:
    arguments = GRIDS[kind]
    rows, columns = (each.astype("int32") for each in np.divmod(np.arange(np.prod(shape)), shape[1]))
    layer = RotaryPositionEncoding(**arguments)
    told = {}
    for name, positions in (("rows first", [rows, columns]), ("columns first", [columns, rows])):
        match = identify_rotary(
            lambda x, positions=positions: ops.convert_to_numpy(layer(x, positions=positions)), 16, length=len(rows)
        )
        assert match is not None
        assert (match.grid_shape, match.start_index, match.direction) == (shape, 0, 1)
        assert match.layout == (None if kind == "split" else arguments.get("layout", "halves"))
        told[name] = match.axis_of_pair
        if match.base is not None:
            assert match.base == pytest.approx(arguments.get("base", 1e4), rel=0.05)
    first, second = arguments["sections"]
    if kind == "in turns":
        assert told["rows first"] == (0, 1) * 4
    else:
        assert told["rows first"] == (0,) * first + (1,) * second
    assert told["columns first"] == tuple(1 - axis for axis in told["rows first"])


def test_a_sequence_has_no_grid() -> None:
    match = identify_rotary(rotating(), 16)
    assert match is not None
    assert (match.grid_shape, match.axis_of_pair) == (None, None)


def test_keras_hubs_layer_is_told() -> None:
    from keras_hub.layers import RotaryEmbedding

    match = identify_rotary(lambda x: ops.convert_to_numpy(RotaryEmbedding(max_wavelength=1000)(x)), 16)
    assert match is not None
    assert (match.layout, match.rope_type, match.start_index) == ("halves", "default", 0)
    assert match.base == pytest.approx(1000, rel=1e-3)


def test_a_function_that_changes_the_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="must return the shape"):
        identify_rotary(lambda x: x[..., 0], 8)
