"""The rotary layer: which channels turn, by how much, exactly, in every way it can be called."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding, rope_timescales
from tests.layers.configurations import run

# A sine and a cosine are off by 2.5e-7 each, and each of two products and their sum rounds by 2**-24 at most. For
# channels of up to 1 the sum of both errors remains, and one unit in the last place of a result below 2.
EXACT = 2 * 2.5e-7 + 2 * 2.0**-23
RNG = np.random.default_rng(26)
LAYOUTS = ("halves", "interleaved", "interleaved_to_halves")
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5, 2.0, 2.5],
    "long_factor": [1.0, 4.0, 9.0, 16.0],
    "original_max_position_embeddings": 16,
    "factor": 4.0,
}


def heads(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, size=shape).astype("float32")


def exact(x: np.ndarray, angles: np.ndarray, layout: str = "halves") -> np.ndarray:
    """Turns pairs of the last axis by angles that broadcast to `(..., pairs)`, in float64."""
    pairs = angles.shape[-1]
    one = x[..., :pairs] if layout == "halves" else x[..., 0 : 2 * pairs : 2]
    other = x[..., pairs : 2 * pairs] if layout == "halves" else x[..., 1 : 2 * pairs : 2]
    turned = (one + 1j * other) * np.exp(1j * angles)
    parts = np.stack([turned.real, turned.imag], -1) if layout == "interleaved" else [turned.real, turned.imag]
    columns = np.reshape(parts, (*turned.shape[:-1], -1)) if layout == "interleaved" else np.concatenate(parts, -1)
    return np.concatenate([columns, x[..., 2 * pairs :]], -1)


def angles(positions: Any, channels: int, scaling: dict[str, Any] | None = None, base: float = 1e4) -> np.ndarray:
    """Returns the angles of `(batch or 1, length)` positions, for inputs `(batch, length, heads, channels)`."""
    timescales = rope_timescales(**{"rope_type": "default", **(scaling or {})}, channels=channels, rope_theta=base)[0]
    return (np.atleast_2d(positions).astype(np.float64)[..., np.newaxis] / timescales)[:, :, np.newaxis]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_and_keys_turn_by_their_positions_at_any_distance(layout: str) -> None:
    queries, keys = heads(2, 6, 4, 10), heads(2, 6, 1, 10)
    layer = RotaryPositionEncoding(base=5e5, layout=layout, rotary_dim=8)
    for start in (0, 1, 511, 131_070, 2**24 - 6, -(2**24)):
        turned = layer(queries, keys, start_index=start)
        for x, got in zip((queries, keys), turned, strict=True):
            expected = exact(x, angles(start + np.arange(6), 8, base=5e5), layout)
            assert np.abs(ops.convert_to_numpy(got) - expected).max() <= EXACT, start


def test_a_score_depends_on_the_distance_alone() -> None:
    queries, keys = heads(1, 1, 1, 64), heads(1, 1, 1, 64)
    layer = RotaryPositionEncoding()
    scores = [
        float((run(layer, queries, start_index=shift + 64) * run(layer, keys, start_index=shift)).sum())
        for shift in (0, 4_096, 1_048_576, 16_000_000)
    ]
    assert np.ptp(scores) <= 64 * 2 * EXACT


def test_positions_are_taken_in_every_form() -> None:
    x = heads(2, 3, 2, 8)
    layer = RotaryPositionEncoding()
    wide = np.array([[5, 2**24 - 1, -7], [0, 1, 2]])
    for positions, meant in (
        (wide, wide),
        (wide.astype("int32")[:1], wide[:1]),
        (wide[0], wide[:1]),
        (np.array([[0.5, 1_000_000.25, 3.0]]), np.array([[0.5, 1_000_000.25, 3.0]])),
    ):
        assert np.abs(run(layer, x, positions=positions) - exact(x, angles(meant, 8))).max() <= EXACT
    map_columns = run(layer, x, start_index=np.array([3, 900], "int32"))
    assert np.abs(map_columns - exact(x, angles([[3, 4, 5], [900, 901, 902]], 8))).max() <= EXACT


def test_arguments_may_be_given_by_name() -> None:
    layer, x = RotaryPositionEncoding(), heads(2, 5, 3, 8)
    placed = layer(x, x[:, :, :1], np.arange(5), 7)
    named = layer(start_index=7, positions=np.arange(5), keys=x[:, :, :1], queries=x)
    for each, other in zip(placed, named, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(each), ops.convert_to_numpy(other))
    with pytest.raises(TypeError, match="queries"):
        layer(keys=x)


def test_axes_may_stand_anywhere() -> None:
    x = heads(2, 5, 3, 8)
    expected = exact(x, angles(np.arange(5), 8))
    heads_first = run(RotaryPositionEncoding(sequence_axis=2), np.swapaxes(x, 1, 2))
    assert np.abs(np.swapaxes(heads_first, 1, 2) - expected).max() <= EXACT
    channels_first = run(RotaryPositionEncoding(sequence_axis=2, feature_axis=1), np.moveaxis(x, 3, 1))
    assert np.abs(np.moveaxis(channels_first, 1, 3) - expected).max() <= EXACT
    no_heads = run(RotaryPositionEncoding(), x[:, :, 0])
    assert np.abs(no_heads - expected[:, :, 0]).max() <= EXACT


def test_each_axis_of_an_image_turns_pairs_of_its_own() -> None:
    x = heads(2, 3, 4, 2, 8)
    rows, columns = np.meshgrid(np.arange(3), np.arange(4), indexing="ij")
    timescales = rope_timescales("default", 4).timescales
    both = np.concatenate([rows[..., np.newaxis] / timescales, columns[..., np.newaxis] / timescales], -1)
    expected = exact(x, both[:, :, np.newaxis])
    assert np.abs(run(RotaryPositionEncoding(sequence_axis=(1, 2)), x) - expected).max() <= EXACT
    # The same of patches in a row, whose positions are given.
    given = [rows.reshape(1, 12), columns.reshape(12)]
    assert (
        np.abs(
            run(RotaryPositionEncoding(), x.reshape(2, 12, 2, 8), positions=given) - expected.reshape(2, 12, 2, 8)
        ).max()
        <= EXACT
    )


def test_sections_share_one_sequence_of_rates_or_begin_anew() -> None:
    x, positions = heads(1, 3, 2, 12), [np.array([[3, 4, 5]]), np.array([[0, 7, 7]]), np.array([[9, 9, 1]])]
    shared, sizes = rope_timescales("default", 12).timescales, (1, 2, 3)
    own = np.concatenate([rope_timescales("default", 2 * size).timescales for size in sizes])
    each = np.repeat(np.concatenate(positions), sizes, axis=0).T
    for is_shared, timescales in ((True, shared), (False, own)):
        layer = RotaryPositionEncoding(sections=sizes, shared_rates=is_shared)
        expected = exact(x, (each / timescales)[np.newaxis, :, np.newaxis])
        assert np.abs(run(layer, x, positions=positions) - expected).max() <= EXACT


def test_interleaved_sections_take_turns_and_the_first_has_the_rest() -> None:
    x, positions = heads(1, 3, 2, 16), [np.array([[3, 4, 5]]), np.array([[0, 7, 7]]), np.array([[9, 9, 1]])]
    layer = RotaryPositionEncoding(sections=(4, 2, 2), shared_rates=True, interleave_sections=True)
    map_columns = np.concatenate(positions)[[0, 1, 2, 0, 1, 2, 0, 0]].T
    expected = exact(x, (map_columns / rope_timescales("default", 16).timescales)[np.newaxis, :, np.newaxis])
    assert np.abs(run(layer, x, positions=positions) - expected).max() <= EXACT


def test_xpos_lets_scores_shrink_with_the_distance_alone() -> None:
    scaling = {"rope_type": "xpos", "scale_base": 64.0}
    x = np.ones((2, 200, 1, 16), "float32")
    layer = RotaryPositionEncoding(scaling=scaling, max_length=2000)
    # flash-attn's zeta ** (distance / scale_base), by which the pairs of a score shrink.
    shrunk = ((np.arange(0, 16, 2) + 6.4) / 22.4) ** (150 / 64)
    plain = RotaryPositionEncoding()
    for start in (0, 1700, np.array([3, 1800], "int32")):
        queries, keys = (ops.convert_to_numpy(each) for each in layer(x, x, start_index=start))
        whole = run(plain, x, start_index=start).astype("float64")
        expected = whole[:, 150, 0, :8] * whole[:, 0, 0, :8] * shrunk
        got = queries[:, 150, 0, :8].astype("float64") * keys[:, 0, 0, :8]
        # Each of the four numbers and of the powers is rounded a few times: relative to what the pair can be, 2.
        assert np.abs(got - expected).max() <= 4 * EXACT
    for arguments, message in (
        ({}, "at most 8,"),
        ({"max_length": 8200}, "and float32 ends there"),
        ({"max_length": 1100, "dtype": "mixed_float16"}, "and float16 ends there"),
        ({"max_length": 20, "sections": (4, 4)}, "one axis of positions"),
    ):
        with pytest.raises(ValueError, match=message):
            RotaryPositionEncoding(scaling=scaling, **arguments).build((None, None, 1, 16))
    with pytest.raises(TypeError, match="`positions` must be integers"):
        layer(x[:1, :2], positions=np.array([0.5, 1.0], "float32"))


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 64, "length": 128},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64},
        {"rope_type": "proportional", "partial_rotary_factor": 0.5},
    ],
    ids=lambda scaling: scaling["rope_type"],
)  # fmt: skip
def test_scalings_change_rates_and_temperature(scaling: dict[str, Any]) -> None:
    x = heads(1, 4, 1, 16)
    factor = rope_timescales(**scaling, channels=16).attention_factor
    for max_length in (None, 200):
        got = run(RotaryPositionEncoding(scaling=scaling, max_length=max_length), x, start_index=150)
        assert np.abs(got - factor * exact(x, angles(150 + np.arange(4), 16, scaling))).max() <= factor * EXACT


def test_longrope_looks_at_positions_and_not_at_the_chunk_at_hand() -> None:
    x = heads(2, 20, 1, 8)
    layer = RotaryPositionEncoding(scaling=LONGROPE)
    factor = rope_timescales(**LONGROPE, channels=8, length=1).attention_factor
    turned = {
        length: factor * exact(x, angles(np.arange(20), 8, {**LONGROPE, "length": length})) for length in (16, 17)
    }
    bound = factor * EXACT
    assert np.abs(run(layer, x[:, :16]) - turned[16][:, :16]).max() <= bound
    prefill = run(layer, x)
    assert np.abs(prefill - turned[17]).max() <= bound
    # A decoder's step at position 19 is one token long, and of the long text all the same.
    np.testing.assert_array_equal(run(layer, x[:, 19:], start_index=19), prefill[:, 19:])
    # Each example is of its own length.
    steps = run(layer, x[:, 15:16], start_index=np.array([15, 16], "int32"))
    assert np.abs(steps[0] - turned[16][0, 15]).max() <= bound
    assert np.abs(steps[1] - factor * exact(x[1, 15:16], angles(16, 8, {**LONGROPE, "length": 17})[0])).max() <= bound


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_types_are_rounded_once_and_last(dtype: str) -> None:
    x = ops.convert_to_numpy(ops.cast(heads(1, 3, 1, 8), dtype)).astype("float32")
    layer = RotaryPositionEncoding(dtype=f"mixed_{dtype}")
    got = layer(ops.cast(x, dtype), start_index=1_000_000)
    assert keras.backend.standardize_dtype(got.dtype) == dtype
    expected = exact(x, angles(1_000_000 + np.arange(3), 8))
    half_a_unit = {"bfloat16": 2.0**-9, "float16": 2.0**-12}[dtype]
    error = np.abs(ops.convert_to_numpy(ops.cast(got, "float32")) - expected)
    assert (error <= half_a_unit * 2 * np.abs(expected) + EXACT).all()


@pytest.mark.slow
def test_a_layer_comes_back_from_its_file_with_everything(tmp_path: Path) -> None:
    queries, keys = keras.Input((None, 4, 8), name="queries"), keras.Input((None, 2, 8), name="keys")
    layer = RotaryPositionEncoding(
        base=5e4, layout="interleaved", rotary_dim=8, scaling=LONGROPE, sections=(4,), shared_rates=True, max_length=40
    )
    model = keras.Model([queries, keys], list(layer(queries, keys)))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    given = [heads(2, 20, 4, 8), heads(2, 20, 2, 8)]
    for one, other in zip(model.predict(given, verbose=0), loaded.predict(given, verbose=0), strict=True):
        np.testing.assert_array_equal(one, other)
    assert RotaryPositionEncoding.from_config(layer.get_config()).get_config() == layer.get_config()


def test_a_models_configuration_makes_the_layer() -> None:
    config = {"rope_theta": 1e6, "hidden_size": 64, "num_attention_heads": 4, "partial_rotary_factor": 0.5}
    layer = RotaryPositionEncoding.from_rope_parameters(config, layout="interleaved", max_length=32)
    assert (layer.base, layer.rotary_dim, layer.layout, layer.max_length) == (1e6, 8, "interleaved", 32)
    config = {"rope_parameters": LONGROPE, "max_position_embeddings": 64}
    assert RotaryPositionEncoding.from_rope_parameters(config).scaling == {**LONGROPE, "max_position_embeddings": 64}


def test_masks_go_through() -> None:
    mask = np.array([[True, True, False]])
    assert RotaryPositionEncoding().compute_mask(heads(1, 3, 8), mask) is mask


@pytest.mark.parametrize(
    ("arguments", "shape", "message"),
    [
        ({"layout": "half"}, (1, 3, 8), "`layout` must be one of"),
        ({"rotary_dim": 10}, (1, 3, 8), "`rotary_dim` must be an even number of at most 8"),
        ({}, (1, 3, 7), "`rotary_dim` must be an even number of at most 7"),
        ({"sections": (1, 2)}, (1, 3, 8), "`sections` must have the sum 4"),
        ({"sections": (1, 1, 2), "interleave_sections": True}, (1, 3, 8), "the first axis the most pairs"),
        ({"sections": (1, 2, 1), "sequence_axis": (1, 2)}, (1, 3, 3, 8), "one number for each axis of `sequence_axis`"),
        ({"sequence_axis": 0}, (1, 3, 8), "`sequence_axis` must be 1 or more"),
        ({"sequence_axis": 2}, (1, 3, 8), "`queries` must have the axes"),
        ({"scaling": {"factor": 2.0}}, (1, 3, 8), "with a 'rope_type'"),
        (
            {"scaling": {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 9}},
            (1, 3, 8),
            "`length` must be given",
        ),
        ({"max_length": 2}, (1, 3, 8), "Positions must be from 0 to 1"),
    ],
)
def test_an_invalid_argument_is_refused(arguments: dict[str, Any], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RotaryPositionEncoding(**arguments)(heads(*shape))


YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base": "a"}, "`base` must be a number"),
        ({"base": True}, "`base` must be a number"),
        ({"base": 0.0}, "`base` must be positive"),
        ({"sections": 4}, "`sections` must be a list"),
        ({"sections": []}, "`sections` must be a list"),
        ({"sequence_axis": []}, "`sequence_axis` must name an axis"),
        ({"feature_axis": "a"}, "`feature_axis` one"),
        ({"scaling": {**YARN, "beta_fast": "a"}}, "`beta_fast` must be a number"),
        ({"scaling": {**YARN, "beta_fast": 0}}, "`beta_fast` must be positive"),
        ({"scaling": {**YARN, "attention_factor": -1.0}}, "`attention_factor` must be positive"),
        ({"scaling": {**YARN, "truncate": "false"}}, "`truncate` must be True or False"),
        ({"scaling": {**YARN, "beta_fast": 1.0, "beta_slow": 32.0}}, "`beta_fast` at least `beta_slow`"),
        ({"scaling": YARN, "base": 1.0}, "`rope_theta` must be above 1"),
        ({"scaling": {**LONGROPE, "short_factor": "abc"}}, "`short_factor` must be a sequence of numbers"),
        ({"scaling": {**LONGROPE, "original_max_position_embeddings": 1, "factor": 2.0}}, "must be above 1 for"),
        ({"scaling": {"rope_type": "proportional", "partial_rotary_factor": "0.5"}}, "must be a number"),
    ],
)
def test_arguments_of_the_wrong_type_or_out_of_range_are_refused_by_name(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"{message}.*Received"):
        RotaryPositionEncoding(**arguments)(heads(1, 3, 8))


def test_keys_that_are_no_array_are_refused() -> None:
    with pytest.raises(TypeError, match="`keys` must be an array or a tensor"):
        RotaryPositionEncoding()(heads(1, 3, 8), [1, 2])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("llama", "`config` must be a dictionary"),
        ({"rope_scaling": "yarn"}, "`rope_scaling` must be a dictionary"),
        ({"rope_theta": "1e4"}, "`rope_theta` must be a number"),
        ({"head_dim": 8, "rotary_pct": "0.5"}, "`partial_rotary_factor` must be a number"),
        ({"head_dim": "8", "rotary_pct": 0.5}, "`head_dim` must be a number"),
    ],
)
def test_a_configuration_that_is_none_is_refused(config: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"{message}.*Received"):
        RotaryPositionEncoding.from_rope_parameters(config)


def test_keys_of_other_positions_are_another_call() -> None:
    with pytest.raises(ValueError, match="other positions are another call"):
        RotaryPositionEncoding()(heads(1, 1, 2, 8), heads(1, 5, 2, 8))
