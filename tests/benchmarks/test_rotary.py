"""The rotary contestants do equal work: each rotates the same inputs by the requested positions."""

import numpy as np
import onnx
import pytest

from benchmarks.speed import in_onnxruntime
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.in_tensorflow import signature
from benchmarks.speed.rotary_cases import BASE, CONTESTANTS, PRODUCT, SCENARIOS

CALLED = [each for each in CONTESTANTS[1:] if each.name != PRODUCT]


@pytest.mark.parametrize("contestant", CALLED, ids=[each.name for each in CALLED])
def test_a_contestant_turns_as_the_plain_formula(contestant: Contestant) -> None:
    (plain,) = (each for each in CONTESTANTS if each.name == BASE)
    for scenario in (SCENARIOS["8 heads of 64"], SCENARIOS["step"]):
        given = scenario.inputs(2, 5)
        expected = np.asarray(plain.make()(**given))
        # A float32 angle is off by up to three roundings of it, and the positions are below 8,192.
        np.testing.assert_allclose(
            np.asarray(contestant.make()(**given)), expected, rtol=0, atol=2 * 3 * 8192 * 2.0**-25
        )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("keras_pe", 40), ("keras_pe, max_length", 18)])
def test_a_decoding_step_takes_no_more_operators_than_it_did(name: str, most: int) -> None:
    (contestant,) = (each for each in CONTESTANTS if each.name == name)
    file = in_onnxruntime.onnx_file(contestant, signature(contestant.inputs(SCENARIOS["step"], 1, 1)))
    assert len(onnx.load_from_string(file).graph.node) <= most
