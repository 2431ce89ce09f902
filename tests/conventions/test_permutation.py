"""Channels are reordered between conventions of one schedule or layouts of one rotation, and refused between others."""

import itertools
from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding, timing_signal
from keras_pe.conventions import CONVENTIONS, channel_permutation, convention, permute_rotary_weights
from tests.raised import about

LAYOUTS = ("halves", "interleaved", "interleaved_to_halves")
SEQUENCES = [name for name, each in CONVENTIONS.items() if each.axes == 1]


def signal(name: str, channels: int) -> np.ndarray:
    each = convention(name)
    return timing_signal(np.arange(50), channels, layout=each.layout, timescales=each.timescales(channels))


def has_width(name: str, channels: int) -> bool:
    return convention(name).has(channels)


@pytest.mark.slow
def test_the_permutation_turns_one_signal_into_the_other_or_is_refused() -> None:
    turned = 0
    for channels in (2, 3, 6, 7, 64):
        signals = {name: signal(name, channels) for name in SEQUENCES if has_width(name, channels)}
        for source, target in itertools.product(SEQUENCES, repeat=2):
            said = f"{source} to {target}, {channels} channels"
            if source not in signals or target not in signals:
                with pytest.raises(ValueError, check=about("channels")):
                    channel_permutation(source, target, channels)
            elif not np.allclose(np.sort(signals[source]), np.sort(signals[target]), rtol=0, atol=1e-9):
                with pytest.raises(ValueError, match="timescales differ"):
                    channel_permutation(source, target, channels)
            else:
                order = channel_permutation(source, target, channels)
                moved = signals[source][:, order]
                np.testing.assert_allclose(moved, signals[target], rtol=0, atol=1e-12, err_msg=said)
                np.testing.assert_array_equal(np.sort(order), np.arange(channels), err_msg=said)
                turned += source != target
    assert turned > 50


def test_the_refusal_says_how_the_schedules_differ_and_what_to_do() -> None:
    with pytest.raises(
        ValueError, match=r"4 of them \(1, 21.54, 464.2, 1e\+04\) against 4 of them \(1, 10, 100, 1000\)"
    ) as it:
        channel_permutation("tensor2tensor", "paper", 8)
    assert "keras_pe.from_convention('tensor2tensor', 8)" in str(it.value)


def test_an_image_has_no_order_of_channels_to_a_sequence() -> None:
    with pytest.raises(ValueError, check=about("target")):
        channel_permutation("paper", "mae-2d", 8)


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

    def permute_weights(weights: np.ndarray) -> np.ndarray:
        return permute_rotary_weights(weights, source, target, head_dim=8, rotary_dim=rotary_dim)

    expected = scores(source, kernels, biases)
    got = scores(target, [permute_weights(each) for each in kernels], [permute_weights(each) for each in biases])
    # Eight products of numbers below 60 and their sum, in float32.
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)
    # A Dense holds the heads one after the other.
    flat = permute_weights(kernels[0].reshape(6, 24))
    np.testing.assert_array_equal(flat.reshape(6, 3, 8), permute_weights(kernels[0]))


def test_weights_that_do_not_fit_are_refused() -> None:
    for arguments in (
        {"head_dim": 5},
        {"head_dim": 8, "rotary_dim": 3},
        {"head_dim": 8, "source": "half"},
    ):
        with pytest.raises(ValueError, match=r"Received|Unknown layout"):
            permute_rotary_weights(np.zeros((2, 16)), **{"source": "halves", "target": "interleaved", **arguments})
