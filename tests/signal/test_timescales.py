"""The exact signal: what tensor2tensor's code computes, to the last digit of float64."""

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.signal.formula import geometric_timescales
from tests import golden
from tests.raised import about


@pytest.mark.parametrize(
    "case", [case for case in golden.cases() if case.function == "get_timing_signal_1d"], ids=lambda case: case.name
)
def test_signal_is_tensor2tensors_within_what_float32_lost_there(case: golden.Case) -> None:
    arguments = dict(case.arguments)
    length, channels, start = arguments.pop("length"), arguments.pop("channels"), arguments.pop("start_index", 0)
    positions = start + np.arange(length)
    ours = timing_signal(positions, channels, **arguments)
    bound = golden.tolerance(positions, geometric_timescales(channels // 2, **arguments))
    bound = np.pad(np.concatenate([bound, bound], -1), [(0, 0), (0, channels % 2)])
    assert case.returned.shape == (1, length, channels)
    assert (np.abs(case.returned[0] - ours) <= bound).all()


def test_min_timescale_multiplies_as_in_tensor2tensors_code_not_its_documentation() -> None:
    np.testing.assert_allclose(geometric_timescales(4, 2.0, 1e4), [0.5, 8.55, 146.2, 2500], rtol=1e-3)


def test_the_documented_substitution_gives_the_sequence_from_a_to_b() -> None:
    a, b = 3.0, 700.0
    scales = geometric_timescales(9, 1 / a, b / a**2)
    np.testing.assert_allclose(scales, np.geomspace(a, b, 9), rtol=1e-14)  # about 20 roundings of 2**-53 in exp and log


def test_without_endpoint_the_exponents_are_the_papers() -> None:
    channels = 12
    paper = 1e4 ** (np.arange(0, channels, 2) / channels)
    np.testing.assert_allclose(geometric_timescales(channels // 2, endpoint=False), paper, rtol=1e-14)


def test_interleaved_signal_has_the_concatenated_columns_in_turn() -> None:
    positions = np.arange(7)
    one, other = (timing_signal(positions, 6, layout=layout) for layout in ("concatenated", "interleaved"))
    np.testing.assert_array_equal(other[:, 0::2], one[:, :3])
    np.testing.assert_array_equal(other[:, 1::2], one[:, 3:])


@pytest.mark.parametrize("layout", ["concatenated", "interleaved"])
def test_odd_channels_add_a_zero_column_or_cut_the_last_of_one_more_timescale(layout: str) -> None:
    positions, scales = np.arange(4), [1.0, 10.0, 100.0]
    padded = timing_signal(positions, 5, timescales=scales[:2], layout=layout)
    np.testing.assert_array_equal(padded[:, :4], timing_signal(positions, 4, timescales=scales[:2], layout=layout))
    np.testing.assert_array_equal(padded[:, 4], 0.0)
    cut = timing_signal(positions, 5, timescales=scales, layout=layout)
    np.testing.assert_array_equal(cut, timing_signal(positions, 6, timescales=scales, layout=layout)[:, :5])


def test_one_channel_is_all_zeros() -> None:
    np.testing.assert_array_equal(timing_signal(np.arange(3), 1), np.zeros((3, 1)))


def test_positions_of_any_shape_float_and_negative_are_encoded() -> None:
    positions = np.array([[-1.5, 2.25], [0.0, 1e6]])
    signal = timing_signal(positions, 2)
    assert signal.shape == (2, 2, 2)
    np.testing.assert_array_equal(signal[..., 0], np.sin(positions))
    np.testing.assert_array_equal(signal[..., 1], np.cos(positions))


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"channels": 0}, ValueError, "`channels` must be at least 1. Received: channels=0."),
        ({"channels": 2.0}, TypeError, "`channels` must be an integer"),
        ({"channels": True}, TypeError, "`channels` must be an integer"),
        ({"channels": 4, "min_timescale": 0.0}, ValueError, "`min_timescale` must be positive and finite"),
        ({"channels": 4, "max_timescale": float("nan")}, ValueError, "`max_timescale` must be positive and finite"),
        ({"channels": 4, "max_timescale": float("inf")}, ValueError, "`max_timescale` must be positive and finite"),
        ({"channels": 4, "max_timescale": "10"}, TypeError, "`max_timescale` must be a number"),
        ({"channels": 4, "min_timescale": 2, "max_timescale": 1}, ValueError, "must not be greater than"),
        ({"channels": 4, "layout": "mixed"}, ValueError, "Received: layout='mixed'"),
        ({"channels": 4, "timescales": [1.0]}, ValueError, "2 for 4 channels. Received: 1 timescales"),
        ({"channels": 2, "timescales": [-1.0]}, ValueError, "`timescales` must be positive and finite"),
        ({"channels": 2, "timescales": [[1.0]]}, TypeError, "`timescales` must be a sequence of numbers"),
        ({"channels": 2, "timescales": [[1.0], [1.0, 2.0]]}, TypeError, "`timescales` must be a sequence of numbers"),
        ({"channels": 2, "timescales": "12"}, TypeError, "`timescales` must be a sequence of numbers"),
    ],
)
def test_wrong_arguments_are_named_with_their_rule(arguments: dict, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        timing_signal([0, 1], **arguments)
    assert said in str(raised.value)


@pytest.mark.parametrize(("positions", "error"), [(["a"], TypeError), ([True], TypeError), ([np.nan], ValueError)])
def test_positions_that_are_no_finite_numbers_are_refused(positions: list, error: type[Exception]) -> None:
    with pytest.raises(error, check=about("positions")):
        timing_signal(positions, 4)


def test_a_negative_number_of_timescales_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`count` must be at least 0. Received: count=-1."):
        geometric_timescales(-1)
