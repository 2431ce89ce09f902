"""Each result of tensor2tensor is stored with its call, and no case is left out."""

import json

import numpy as np

from tests import golden


def test_stored_results_belong_to_the_listed_calls() -> None:
    calls = json.loads(golden.CASES.read_text())
    with np.load(golden.RETURNED) as file:
        assert sorted(file.files) == sorted([*calls, *(f"{name}/case" for name in calls)])
        assert {name: json.loads(str(file[f"{name}/case"])) for name in calls} == calls


def test_the_cases_are_finite_numbers_of_every_function_that_needs_no_variable() -> None:
    cases = golden.cases()
    assert {case.function for case in cases} == {
        "add_timing_signal_1d",
        "add_timing_signal_1d_given_position",
        "add_timing_signal_nd",
        "add_timing_signals_given_positions",
        "get_layer_timing_signal_sinusoid_1d",
        "get_timing_signal_1d",
    }
    assert all(np.isfinite(case.returned).all() for case in cases)
