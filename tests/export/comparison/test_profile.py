"""Profiles: where along the positions the differences are, and how large they are."""

import dataclasses

import numpy as np

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.error_profiles import MAX_BINS, profile_errors, profile_longest
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.results import CaseResult, RuntimeResult

EXPECTED = np.ones((2, 500, 3), np.float32)


def test_a_single_wrong_position_stands_in_its_bin_and_in_no_other():
    actual = EXPECTED.copy()
    actual[1, 321, 2] += 0.5
    profile = profile_errors("case", "y", EXPECTED, actual)
    assert (profile.axis, profile.size, len(profile.starts)) == (1, 500, MAX_BINS)
    bin = np.searchsorted(profile.starts, 321, side="right") - 1
    assert [i for i, error in enumerate(profile.errors) if error] == [bin]
    assert profile.errors[bin] == 0.5
    assert profile.noise == ()


def test_the_noise_is_what_the_reference_itself_gets_wrong():
    truth = EXPECTED.astype(np.float64)
    truth[0, 7, 0] += 1e-3
    profile = profile_errors("case", "y", EXPECTED, truth.astype(np.float32), truth)
    assert max(profile.noise) == np.abs(truth[0, 7, 0] - 1)
    assert max(profile.errors) < 1e-7  # the actual values are the rounded truth: half a unit of 1


def test_every_value_is_counted_once():
    actual = EXPECTED.copy()
    actual[0, :100, 0] += np.float32(2**-10)
    actual[0, 100:103, 0] = np.nan
    profile = profile_errors("case", "y", EXPECTED, actual)
    assert (profile.equal, profile.nonfinite, profile.counts) == (EXPECTED.size - 103, 3, (100,))
    assert profile.log10_bin_edges[0] <= np.log10(2**-10) < profile.log10_bin_edges[1]
    assert max(profile.errors) == np.inf


def test_short_flat_scalar_and_text_outputs_have_profiles_too():
    assert profile_errors("case", "y", np.arange(3), np.arange(3) + 1).errors == (1.0, 1.0, 1.0)
    scalar = profile_errors("case", "y", np.float32(1.0)[()].reshape(()), np.zeros((), np.float32))
    assert (scalar.axis, scalar.size, scalar.errors) == (None, 1, (1.0,))
    texts = profile_errors("case", "y", np.array(["a", "b"], object), np.array(["a", "c"], object))
    assert texts.errors == (0.0, 1.0)


def test_a_difference_of_a_power_of_ten_falls_in_the_bin_that_starts_with_it():
    profile = profile_errors("case", "y", np.zeros(2), np.array([0.01, 1.0]))
    assert profile.log10_bin_edges[0] == -2.0
    assert profile.counts[0] == profile.counts[-1] == 1


def test_the_failing_case_with_the_most_positions_is_kept():
    cases, expectations, answers = [], [], []
    for length, error in ((2, 9.0), (50, 0.5), (90, 0.0)):
        x = np.ones((1, length), np.float32)
        expectations.append(Expectation(Case(f"length {length}", {}, ""), {"y": x}))
        answers.append({"y": x + np.float32(error)})
        comparisons = compare_outputs({"y": x}, answers[-1])
        cases.append(CaseResult(f"length {length}", "failed" if error else "passed", "", comparisons))
    result = RuntimeResult("", "onnx", "runtime", False, "compared", cases=tuple(cases))
    assert profile_longest(result, expectations, answers).case == "length 50"
    result = dataclasses.replace(result, cases=tuple(cases[2:]))
    assert profile_longest(result, expectations[2:], answers[2:]).case == "length 90"
    assert profile_longest(dataclasses.replace(result, cases=()), [], []) is None
