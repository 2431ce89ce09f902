"""The contestants do equal work: each adds the signal of the requested positions."""

import numpy as np
import pytest

from benchmarks.speed.contestants import CONTESTANTS, Contestant
from benchmarks.speed.scenarios import CHANNELS, SCENARIOS, Scenario
from keras_pe import timing_signal

SIGNALS = [each for each in CONTESTANTS if each.name not in ("one composition", "ready rows")]


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
@pytest.mark.parametrize("contestant", SIGNALS, ids=[each.name for each in SIGNALS])
def test_a_contestant_adds_the_signal_of_the_scenarios_positions(contestant: Contestant, scenario: Scenario) -> None:
    if scenario.name not in contestant.scenarios:
        return
    given = contestant.inputs(scenario, 3, 5)
    positions = given.get("positions", np.arange(5) + given.get("start", np.array(0))[..., np.newaxis])
    paper = {"layout": "interleaved", "endpoint": False} if contestant.name == "keras-hub" else {}
    expected = np.broadcast_to(timing_signal(positions, CHANNELS, **paper), (3, 5, CHANNELS))
    actual = np.asarray(contestant.make()(**given))
    # A float32 rate is off by up to a millionth of itself, and the positions are below 8,192.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=8192e-6)
