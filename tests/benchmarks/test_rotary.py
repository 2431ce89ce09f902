"""The rotary contestants do equal work: each turns the same inputs by the positions that it was asked for."""

import numpy as np
import pytest

from benchmarks.speed.contestants import Contestant
from benchmarks.speed.rotary import BASE, CONTESTANTS, SCENARIOS


@pytest.mark.parametrize("contestant", CONTESTANTS[1:], ids=[each.name for each in CONTESTANTS[1:]])
def test_a_contestant_turns_as_the_plain_formula(contestant: Contestant) -> None:
    (plain,) = (each for each in CONTESTANTS if each.name == BASE)
    for scenario in (SCENARIOS["8 heads of 64"], SCENARIOS["step"]):
        given = scenario.inputs(2, 5)
        expected = np.asarray(plain.make()(**given))
        # A float32 angle is off by up to three roundings of it, and the positions are below 8,192.
        np.testing.assert_allclose(
            np.asarray(contestant.make()(**given)), expected, rtol=0, atol=2 * 3 * 8192 * 2.0**-25
        )
