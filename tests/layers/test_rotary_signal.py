"""Pairs turn by the axis, at the rates and in the block of channels that a rotary layer is configured with."""

from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding, rope_timescales
from tests.layers.configurations import run
from tests.layers.test_rotary_position_encoding import EXACT, LAYOUTS, exact, heads
from tests.raised import about

SCALES = [1.0, 3.5, 20.0, np.inf, 2.0, 7.0, 900.0, 1e5]
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0],
    "long_factor": [1.0, 4.0, 9.0, 16.0, 20.0, 30.0, 40.0, 50.0],
    "original_max_position_embeddings": 16,
    "factor": 4.0,
}


def geometric(pairs: int, base: float = 1e4) -> np.ndarray:
    """Returns the timescales of a geometric sequence, in float64."""
    return base ** (np.arange(pairs) / pairs)


def angles(positions: Any, timescales: Any) -> np.ndarray:
    """Returns the angles of positions `(length,)`, or `(length, pairs)`, for inputs `(batch, length, heads, ...)`."""
    positions = np.asarray(positions, np.float64)
    return ((positions if positions.ndim == 2 else positions[:, np.newaxis]) / timescales)[np.newaxis, :, np.newaxis]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("max_length", [None, 100_006, 1_000_000])
def test_rates_may_be_any(layout: str, max_length: int | None) -> None:
    x = heads(2, 6, 3, 18)
    layer = RotaryPositionEncoding(timescales=SCALES, layout=layout, rotary_dim=16, max_length=max_length)
    expected = exact(x, angles(100_000 + np.arange(6), SCALES), layout)
    assert np.abs(run(layer, x, start_index=100_000) - expected).max() <= EXACT
    fractions = np.arange(6) / 8
    assert np.abs(run(layer, x, positions=fractions) - exact(x, angles(fractions, SCALES), layout)).max() <= EXACT


def test_rates_may_differ_by_axis() -> None:
    """Pixtral's: rows have the even ones of a sequence of rates, columns the odd ones."""
    x, (rows, columns) = heads(1, 6, 2, 16), np.divmod(np.arange(6), 3)
    scales = np.concatenate([geometric(8)[0::2], geometric(8)[1::2]])
    map_pairs = np.repeat([rows, columns], 4, axis=0).T
    for arguments in ({}, {"sections": (4, 4)}, {"sections": (4, 4), "shared_rates": True}):
        layer = RotaryPositionEncoding(timescales=scales, **arguments)
        got = run(layer, x, positions=[rows, columns])
        assert np.abs(got - exact(x, angles(map_pairs, scales))).max() <= EXACT
    grid = run(RotaryPositionEncoding(timescales=scales, sequence_axis=(1, 2)), x.reshape(1, 2, 3, 2, 16))
    assert np.abs(grid.reshape(x.shape) - exact(x, angles(map_pairs, scales))).max() <= EXACT


@pytest.mark.parametrize("arguments", [{}, {"sections": (3, 5)}, {"max_length": 64}, {"timescales": SCALES}])
def test_the_other_direction_is_the_inverse_rotation(arguments: dict[str, Any]) -> None:
    x = heads(1, 6, 2, 16)
    positions = [np.arange(6)] * 2 if "sections" in arguments else np.arange(6)
    forward, back = (RotaryPositionEncoding(direction=direction, **arguments) for direction in (1, -1))
    assert np.abs(run(back, run(forward, x, positions=positions), positions=positions) - x).max() <= 2 * EXACT
    turned = run(back, x, positions=positions)
    if not arguments:
        assert np.abs(turned - exact(x, -angles(np.arange(6), geometric(8)))).max() <= EXACT


def test_each_pair_may_have_any_axis() -> None:
    """Ernie 4.5 VL's: rows and columns alternate, the rest is the time."""
    x, positions = heads(1, 4, 2, 16), [np.arange(4) + 9, np.arange(4) * 3, np.array([0, 7, 7, 2])]
    axes = [1, 2, 1, 2, 1, 2, 0, 0]
    map_pairs = np.stack(positions)[axes].T
    layer = RotaryPositionEncoding(axis_of_pair=axes, shared_rates=True, layout="interleaved")
    expected = exact(x, angles(map_pairs, geometric(8)), "interleaved")
    assert np.abs(run(layer, x, positions=positions) - expected).max() <= EXACT
    own = np.empty(8)
    for pairs in ([6, 7], [0, 2, 4], [1, 3, 5]):
        own[pairs] = geometric(len(pairs))
    got = run(RotaryPositionEncoding(axis_of_pair=axes), x, positions=positions)
    assert np.abs(got - exact(x, angles(map_pairs, own))).max() <= EXACT
    config = layer.get_config()
    assert RotaryPositionEncoding.from_config(config).get_config() == config


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sections", [(4, 4), (1, 2, 4), (3, 5)])
def test_blocks_of_any_width_turn_apart(layout: str, sections: tuple[int, ...]) -> None:
    """Gemma 4's vision has two of equal width, of two halves each."""
    x, length = heads(1, 5, 2, 18), 5
    positions = [np.arange(length) * (axis + 2) for axis in range(len(sections))]
    layer = RotaryPositionEncoding(layout=layout, rotary_dim=2 * sum(sections), sections=sections, split_sections=True)
    parts, begin = [], 0
    for size, each in zip(sections, positions, strict=True):
        parts.append(exact(x[..., begin : begin + 2 * size], angles(each, geometric(size)), layout))
        begin += 2 * size
    expected = np.concatenate([*parts, x[..., begin:]], axis=-1)
    assert np.abs(run(layer, x, positions=positions) - expected).max() <= EXACT


@pytest.mark.parametrize("shared", [True, False])
def test_longrope_has_a_factor_for_each_pair_of_all_sections(shared: bool) -> None:
    x, sections = heads(2, 6, 2, 16), (3, 5)
    layer = RotaryPositionEncoding(scaling=LONGROPE, sections=sections, shared_rates=shared)
    scales = geometric(8) if shared else np.concatenate([geometric(size) for size in sections])
    factor = rope_timescales(**LONGROPE, channels=16, length=1).attention_factor
    for shift, name in ((0, "short_factor"), (10, "short_factor"), (11, "long_factor"), (99, "long_factor")):
        # The second axis alone is beyond the original length: all axes take the list of the largest position.
        positions = [np.arange(6), np.arange(6) + shift]
        map_pairs = np.repeat(positions, sections, axis=0).T
        expected = factor * exact(x, angles(map_pairs, scales * LONGROPE[name]))
        assert np.abs(run(layer, x, positions=positions) - expected).max() <= factor * EXACT, shift
    # Each example is of its own length.
    starts = np.array([0, 40], "int32")
    got = ops.convert_to_numpy(layer(x, start_index=[np.zeros(2, "int32"), starts]))
    short = exact(x[:1], angles(np.arange(6), scales * LONGROPE["short_factor"]))
    long = exact(x[1:], angles(np.repeat([np.arange(6), 40 + np.arange(6)], sections, axis=0).T,
                               scales * LONGROPE["long_factor"]))  # fmt: skip
    assert np.abs(got - factor * np.concatenate([short, long])).max() <= factor * EXACT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timescales": [1.0, 2.0]}, "`timescales` must have one value for two channels: 4"),
        ({"timescales": [1.0, 2.0, 3.0, 0.0]}, "`timescales` must be positive"),
        ({"timescales": [1.0, 2.0, 3.0, -1.0]}, "`timescales` must be positive"),
        ({"timescales": [1.0, 2.0, 3.0, np.nan]}, "`timescales` must be positive"),
        ({"timescales": [1.0] * 4, "scaling": {"rope_type": "linear", "factor": 2.0}}, "None with `timescales`"),
        ({"direction": 0}, "`direction` must be 1 or -1"),
        ({"direction": "back"}, "`direction` must be 1 or -1"),
        ({"axis_of_pair": [0, 2, 0, 2]}, "each axis from 0"),
        ({"axis_of_pair": [0, 1, 1]}, "sum 4"),
        ({"axis_of_pair": [0, 1, 1, 1], "sections": (2, 2)}, r"None or \[1, 3\] with `axis_of_pair`"),
        ({"axis_of_pair": [0, 1, 0, 1], "interleave_sections": True}, "`interleave_sections` must be False"),
        ({"sections": (2, 2), "interleave_sections": True, "split_sections": True}, "`split_sections` must be False"),
        ({"scaling": LONGROPE, "sections": (2, 2)}, "must have one value for two channels: 4"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RotaryPositionEncoding(**arguments).build((None, None, 8))


@pytest.mark.parametrize("axis_of_pair", [3, "01", [], None])
def test_an_axis_of_each_pair_must_be_a_list(axis_of_pair: Any) -> None:
    if axis_of_pair is None:
        assert RotaryPositionEncoding(axis_of_pair=None).axis_of_pair is None
        return
    with pytest.raises(TypeError, check=about("axis_of_pair")):
        RotaryPositionEncoding(axis_of_pair=axis_of_pair)


def halves_turned(x: np.ndarray) -> np.ndarray:
    """Returns what transformers' `rotate_half` does of most models."""
    one, other = np.split(x, 2, axis=-1)
    return np.concatenate([-other, one], axis=-1)


def neighbors_turned(x: np.ndarray) -> np.ndarray:
    """Returns what transformers' `rotate_half` does of Cohere, GLM and Ernie."""
    return np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)


def twice(angles: np.ndarray) -> np.ndarray:
    return np.concatenate([angles, angles], axis=-1)


def neighbors(angles: np.ndarray) -> np.ndarray:
    return np.repeat(angles, 2, axis=-1)


def in_turns(time: np.ndarray, rows: np.ndarray, columns: np.ndarray, sections: list[int]) -> np.ndarray:
    found = time.copy()
    for axis, each in ((1, rows), (2, columns)):
        found[..., axis : 3 * sections[axis] : 3] = each[..., axis : 3 * sections[axis] : 3]
    return found


RATES, OWN = 1 / geometric(8), 1 / geometric(4)
MROPE = {"rope_theta": 1e4, "mrope_section": [4, 2, 2]}
AXIAL = {"head_dim": 16, "rope_parameters": {"rope_type": "axial", "rope_theta": 1e4}}
# Configuration, angles of the 16 channels, of positions (length, 1) of each axis, and the partners of the channels.
FAMILIES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    # transformers 5.24.0, modeling_<family>.py, `recomposition_frequencies` and `compute_..._rope_parameters`.
    "qwen2_vl": (
        {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", **MROPE}},
        lambda t, h, w: twice(np.concatenate([(t * RATES)[:, :4], (h * RATES)[:, 4:6], (w * RATES)[:, 6:]], -1)),
        halves_turned,
    ),
    "qwen3_vl": (
        {"model_type": "qwen3_vl_text", "rope_parameters": MROPE},
        lambda t, h, w: twice(in_turns(t * RATES, h * RATES, w * RATES, [4, 2, 2])),
        halves_turned,
    ),
    "hy_v4_vl": (
        {"model_type": "hy_v4_vl", "rope_parameters": MROPE},
        lambda t, h, w: neighbors(in_turns(t * RATES, h * RATES, w * RATES, [4, 2, 2])),
        neighbors_turned,
    ),
    "ernie4_5_vl_moe": (
        {"model_type": "ernie4_5_vl_moe_text", "rope_parameters": {**MROPE, "mrope_section": [3, 3, 2]}},
        lambda t, h, w: neighbors(
            np.concatenate(
                [np.stack([h * RATES[:6:2], w * RATES[1:6:2]], -1).reshape(len(t), 6), t * RATES[6:]], axis=-1
            )
        ),
        neighbors_turned,
    ),
    "qwen2_5_vl_vision": (
        {"model_type": "qwen2_5_vl_vision", **AXIAL},
        lambda h, w: twice(np.concatenate([h * OWN, w * OWN], -1)),
        halves_turned,
    ),
    "sam2_video": (
        {"model_type": "sam2_video", **AXIAL},
        lambda h, w: neighbors(np.concatenate([h * OWN, w * OWN], -1)),
        neighbors_turned,
    ),
    "gemma4_vision": (
        {"model_type": "gemma4_vision", **AXIAL},
        lambda h, w: np.concatenate([twice(h * OWN), twice(w * OWN)], -1),
        lambda x: np.concatenate([halves_turned(x[..., :8]), halves_turned(x[..., 8:])], -1),
    ),
    "pixtral": (
        {"model_type": "pixtral", "rope_theta": 1e4, "head_dim": 16},
        lambda h, w: twice(np.concatenate([h * RATES[0::2], w * RATES[1::2]], -1)),
        halves_turned,
    ),
    "step3p5_vision": (
        {"model_type": "step3p5_vision", **AXIAL},
        lambda h, w: twice(np.concatenate([w * OWN, h * OWN], -1)),
        halves_turned,
    ),
    "inkling2_vision": (
        {"model_type": "inkling2_vision", **AXIAL},
        lambda h, w: neighbors(np.concatenate([w * OWN, h * OWN], -1)),
        neighbors_turned,
    ),
    "kimi_k25_vision": (
        {"model_type": "kimi_k25_vision", **AXIAL},
        lambda h, w: twice(np.stack([w * OWN, h * OWN], -1).reshape(len(h), 8)),
        halves_turned,
    ),
    "minimax_m3_vl_vision": (
        {"model_type": "minimax_m3_vl_vision", **AXIAL},
        lambda t, h, w: twice(np.concatenate([each / geometric(2) for each in (t, h, w)], -1)),
        halves_turned,
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_with_several_axes_turns_as_its_code_describes(family: str) -> None:
    config, angles_of, turned = FAMILIES[family]
    x = heads(1, 5, 2, 16)
    axes = angles_of.__code__.co_argcount
    positions = [np.array([3, 1, 4, 1, 5]) * (axis + 1) + axis for axis in range(axes)]
    angle = angles_of(*(each[:, np.newaxis].astype("float64") for each in positions))[np.newaxis, :, np.newaxis]
    width = angle.shape[-1]
    expected = np.concatenate(
        [x[..., :width] * np.cos(angle) + turned(x[..., :width]) * np.sin(angle), x[..., width:]], axis=-1
    )
    got = run(RotaryPositionEncoding.from_rope_parameters(config), x, positions=positions)
    assert np.abs(got - expected).max() <= EXACT
