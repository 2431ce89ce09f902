"""Accepted differences: contradictory ones are refused, and accepted ones are reported."""

import re

import numpy as np
import pytest

from keras_pe.export.comparison.compare import compare_arrays
from keras_pe.export.comparison.tolerance import STRICT, accepting
from keras_pe.export.records import Allowance


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rtol": -1e-3}, "`rtol` must be at least 0, and finite. Received: rtol=-0.001"),
        ({"atol": float("nan")}, "`atol` must be at least 0, and finite. Received: atol=nan"),
        ({"atol": {"y": float("inf")}}, "`atol` must be at least 0, and finite. Received: atol=inf"),
        ({"rtol": None}, "`rtol` must be at least 0, and finite. Received: rtol=None"),
        ({"atol": {"y": "1"}}, "`atol` must be at least 0, and finite. Received: atol='1'"),
        ({"allow_changed": "1"}, "`allow_changed` must be a share, from 0 to 1. Received: '1'"),
        ({"precision": "int2"}, "`precision` must be one of: float16, bfloat16, int8, int4; or None, for the model's"),
        ({"precision": "int2"}, "Received: precision='int2'"),
        ({"allow_changed": float("nan")}, "`allow_changed` must be a share, from 0 to 1. Received: nan"),
    ],
)
def test_a_contradictory_allowance_is_refused(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        Allowance(**given)


def test_an_output_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"`atol` must be of outputs: y, z\. Received: x"):
        Allowance(atol={"x": 1.0, "y": 1.0}).check_outputs(["y", "z"])


def test_it_says_what_is_accepted():
    assert (str(Allowance()), Allowance().is_none) == ("nothing", True)
    every = Allowance(rtol=1e-3, atol={"y": 0.5}, precision="int8", allow_changed=0.01)
    assert str(every) == "rtol 0.001, atol 0.5 in 'y', rounding to int8, 1 % changed decisions"


@pytest.mark.parametrize(
    ("allowance", "off", "passes"),
    [
        (Allowance(rtol=0.01), 0.99, True),
        (Allowance(rtol=0.01), 1.01, False),
        (Allowance(atol=0.5), 0.49, True),
        (Allowance(atol={"y": 0.5}), 0.51, False),
        (Allowance(atol={"other": 9.0}), 0.1, False),
        (Allowance(rtol=0.01, atol=0.5), 1.49, True),
        (Allowance(precision="float16"), 0.39, True),  # four steps of 2**-10 of the largest value, which is 100
        (Allowance(precision="float16"), 0.40, False),
        (Allowance(precision="int8"), 3.1, True),  # four steps of 1 / 127
        (Allowance(precision="int8"), 3.2, False),
        (Allowance(), 0.1, False),
    ],
)
def test_a_difference_passes_that_the_strict_law_or_the_user_allows(allowance, off, passes):
    expected = np.array([1e-3, 100.0], np.float32)
    actual = expected + np.array([1e-6, off], np.float32)  # beside the first no share of it would allow the rounding
    assert compare_arrays("y", expected, actual, policy=accepting(allowance)).passed is passes


def test_an_output_may_be_of_the_precision_that_is_accepted_and_of_no_other():
    half = np.ones(3, np.float16)
    for allowance, problem in ((Allowance(precision="float16"), None), (Allowance(precision="bfloat16"), "dtype")):
        found = compare_arrays("y", np.ones(3, np.float32), half, policy=accepting(allowance))
        assert found.problem == problem
    assert compare_arrays("y", np.ones(3, np.float32), half, policy=STRICT).problem == "dtype"
