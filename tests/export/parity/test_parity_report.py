"""The table of runtimes gives the largest figures over all cases, and every sentence the same ones."""

import numpy as np
import pytest

from keras_pe.export.comparison.compare import compare_arrays, compare_outputs
from keras_pe.export.comparison.tolerance import accepting
from keras_pe.export.parity.parity_report import subject
from keras_pe.export.parity.presentation.sentences import Group, group_results, statements
from keras_pe.export.results import Allowance, CaseResult, RuntimeResult


def _case(name: str, size: float, error: float, floor: float) -> CaseResult:
    """Returns a case whose only output is off by an error where Keras itself is by a floor."""
    truth = np.array([[size, -size]])
    expected = (truth + floor).astype(np.float64)
    actual = truth + error
    comparisons = (compare_arrays("y", expected, actual, truth),)
    return CaseResult(name, "passed" if comparisons[0].passed else "failed", "", comparisons)


def _result(*cases: CaseResult, runtime: str = "onnxruntime[all]") -> RuntimeResult:
    passed = all(case.status == "passed" for case in cases)
    return RuntimeResult("m.onnx", "onnx", runtime, passed, "compared", cases=cases)


NEAREST = _case("nearest to its allowance", 1.0, 7e-7, 1e-7)
LARGEST = _case("largest", 1e5, 4.3e-2, 1e-1)
FAILING = _case("failing", 1.0, 5e-3, 1e-7)
FURTHEST = _case("furthest out of tolerance", 1e-3, 4e-3, 1e-10)


@pytest.mark.parametrize(
    ("cases", "difference", "share"),
    [
        ((NEAREST, LARGEST), "4.3e-02", "8.7e-01"),
        ((LARGEST, NEAREST), "4.3e-02", "8.7e-01"),
        ((FAILING, LARGEST), "4.3e-02", "6.2e+03"),
        ((FURTHEST, FAILING), "5.0e-03", "5.0e+06"),
    ],
)
def test_the_table_of_runtimes_gives_the_largest_difference_of_all_cases(cases, difference, share):
    (group,) = group_results([_result(*cases)])
    assert subject("model", group).figures[1:3] == (difference, share)
    assert subject("model", group).short == f" {difference}"


def test_the_worst_comparison_in_words_is_the_largest_difference_that_fails():
    group = Group((_result(FURTHEST, FAILING, LARGEST),))
    (worst,) = [each.text for each in statements("model", group) if each.label == "worst"]
    assert "(failing)" in worst
    assert "5.0e-03" in worst


def test_a_difference_larger_than_the_one_furthest_out_is_said_as_well():
    expected, actual = np.array([1e4, 1.0]), np.array([1e4 + 5, 1.5])
    (one,) = compare_outputs({"y": expected}, {"y": actual}, policy=accepting(Allowance(rtol=1e-3)))
    assert (one.passed, one.max_abs_diff, one.worst_index, one.worst_abs_diff) == (False, 5.0, (1,), 0.5)
    assert one.tolerance_ratio == pytest.approx(500)
    assert one.tolerance == pytest.approx(1e-3)
    (worst,) = [each.text for each in statements("model", Group((_result(CaseResult("c", "failed", "", (one,))),)))]
    assert "5.0e-01 at [1]" in worst
    assert "largest of all is 5.0e+00" in worst


def test_a_value_that_is_nan_in_the_artifact_alone_is_infinitely_far_off():
    (one,) = compare_outputs({"y": np.ones(2)}, {"y": np.array([1.0, np.nan])}, {"y": np.ones(2)})
    case = CaseResult("c", "failed", "", (one,))
    assert subject("model", Group((_result(case, LARGEST),))).figures[1:] == ("∞", "∞", "∞")


def test_outputs_that_were_not_compared_have_no_figures():
    missing = CaseResult("c", "failed", "", compare_outputs({"y": np.ones(2)}, {}))
    for case in (missing, CaseResult("c", "skipped")):
        assert subject("model", Group((_result(case),))).figures[1:] == ("-", "-", "-")
