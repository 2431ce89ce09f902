"""The contestants do equal work: each adds the signal of the requested positions, or rotates by them."""

import numpy as np
import onnx
import pytest

from benchmarks.speed import in_onnxruntime
from benchmarks.speed.contestants import CONTESTANTS, Contestant
from benchmarks.speed.in_tensorflow import signature
from benchmarks.speed.scenarios import CHANNELS, SCENARIOS, Scenario
from keras_pe import timing_signal

SINUSOIDAL, ROTARY = CONTESTANTS["sinusoidal"], CONTESTANTS["rotary"]
_STEP = SCENARIOS["rotary"][-1]


@pytest.mark.parametrize("scenario", SCENARIOS["sinusoidal"], ids=[each.name for each in SCENARIOS["sinusoidal"]])
@pytest.mark.parametrize("contestant", SINUSOIDAL, ids=[each.name for each in SINUSOIDAL])
def test_a_contestant_adds_the_signal_of_the_scenarios_positions(contestant: Contestant, scenario: Scenario) -> None:
    if scenario.name == contestant.lacks:
        return
    given = scenario.inputs(3, 5)
    positions = given.get("positions", np.arange(5) + given.get("start", np.array(0))[..., np.newaxis])
    paper = {"layout": "interleaved", "endpoint": False} if contestant.name == "keras-hub" else {}
    expected = np.broadcast_to(timing_signal(positions, CHANNELS, **paper), (3, 5, CHANNELS))
    actual = np.asarray(contestant.make()(**given)) - given["x"]
    # A float32 rate is off by up to a millionth of itself, and the positions are below 8,192.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=8192e-6)


@pytest.mark.parametrize("contestant", ROTARY[1:], ids=[each.name for each in ROTARY[1:]])
def test_a_contestant_turns_as_the_plain_formula(contestant: Contestant) -> None:
    for scenario in (SCENARIOS["rotary"][0], _STEP):
        given = scenario.inputs(2, 5)
        expected = np.asarray(ROTARY[0].make()(**given))
        # A float32 angle is off by up to three roundings of it, and the positions are below 8,192.
        np.testing.assert_allclose(
            np.asarray(contestant.make()(**given)), expected, rtol=0, atol=2 * 3 * 8192 * 2.0**-25
        )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("keras_pe", 40), ("keras_pe, max_length", 18)])
def test_a_decoding_step_takes_no_more_operators_than_it_did(name: str, most: int) -> None:
    (contestant,) = (each for each in ROTARY if each.name == name)
    file = in_onnxruntime.onnx_file(contestant, signature(_STEP.inputs(1, 1)))
    assert len(onnx.load_from_string(file).graph.node) <= most
