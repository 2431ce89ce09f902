"""Causes that need two runtimes: another result of a new release, or a fault of a server's file."""

import dataclasses
import re

import numpy as np
import pytest

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.parity.diagnosis.cross_runtime import compare_runtimes, is_alike
from keras_pe.export.results import CaseResult, Cause, Finding, Recording, RuntimeResult

OLDER = "onnxruntime@/older/bin/python"
SERVER = "http://localhost:8000/v2/models/m"


def result(runtime: str, error: float, version: str, format: str = "onnx") -> RuntimeResult:
    expected = np.linspace(-1, 1, 50, dtype=np.float32)
    comparisons = compare_outputs({"y": expected}, {"y": expected + np.float32(error)}, {"y": expected.astype(float)})
    passed = comparisons[0].passed
    cases = (CaseResult("fair", "passed" if passed else "failed", "", comparisons),)
    findings = () if passed else (Finding(Cause.UNKNOWN, "None of the known causes explains it.", "pool"),)
    path = "" if format == "served" else "/models/m.onnx"
    return RuntimeResult(path, format, runtime, passed, "compared", "", cases, findings, version=version)


def test_a_release_that_fails_where_another_passes_is_the_cause_with_both_versions_in_it():
    here = result("onnxruntime[all]", 0.0, "onnxruntime 1.31.1")
    older = result(OLDER, 0.1, "onnxruntime 1.20.1 in Python 3.11.7")
    passing, failing = compare_runtimes([here, older])
    assert passing == here
    (finding,) = failing.findings
    assert (finding.cause, finding.layer) == (Cause.OTHER_RELEASE, "pool")
    assert re.search(r"onnxruntime 1\.31\.1 passes .*onnxruntime 1\.20\.1", finding.evidence)


@pytest.mark.parametrize(
    "other",
    [
        result("onnxruntime[all]", 0.1, "onnxruntime 1.31.1"),  # it fails as well
        result("onnxruntime[all]", 0.0, "onnxruntime 1.20.1"),  # the same release
        result("openvino", 0.0, "openvino 2026.4"),  # another runtime
        dataclasses.replace(result("onnxruntime[all]", 0.0, "onnxruntime 1.31.1"), artifact="/models/other.onnx"),
        dataclasses.replace(result("onnxruntime[all]", 0.0, "onnxruntime 1.31.1"), signature="length_8"),
    ],
)
def test_a_release_is_not_blamed_without_another_that_passes_on_the_same_file(other):
    older = result(OLDER, 0.1, "onnxruntime 1.20.1 in Python 3.11.7")
    assert compare_runtimes([other, older])[1] == older


def test_another_provider_of_the_same_release_is_not_another_release():
    wasm = result("onnxruntime_web[wasm]", 0.0, "onnxruntime-web[wasm] 1.30.0 in Node 20")
    webgpu = result("onnxruntime_web[webgpu]", 0.1, "onnxruntime-web[webgpu] 1.30.0 in Chromium 156")
    assert compare_runtimes([wasm, webgpu]) == [wasm, webgpu]


def test_a_server_that_is_off_as_the_file_is_here_gets_the_place_and_the_causes_of_the_file():
    found = (Finding(Cause.CHANGED_VALUES, "They do.", "pool"),)
    here = result("onnxruntime[all]", 0.1, "onnxruntime 1.31.1")
    here = dataclasses.replace(here, findings=found, signature="length_8")
    served = compare_runtimes([here, result(SERVER, 0.1, "mlserver 1.7.1", "served")])[1]
    assert [(each.cause, each.layer) for each in served.findings] == [
        (Cause.SERVED_FILE, "pool"),
        (Cause.CHANGED_VALUES, "pool"),
    ]
    assert here.subject in served.findings[0].evidence


@pytest.mark.parametrize("error", [0.0, 0.2])
def test_a_server_that_is_off_otherwise_keeps_its_own_cause(error):
    here = result("onnxruntime[all]", error, "onnxruntime 1.31.1")
    served = result(SERVER, 0.1, "mlserver 1.7.1", "served")
    assert compare_runtimes([here, served])[1] == served


EXPECTED = np.linspace(-1, 1, 50, dtype=np.float32)


def _failing(*actual: np.ndarray) -> RuntimeResult:
    """Returns the result of a runtime that returned these in each case where `EXPECTED` is right. The first is kept."""
    truth = {"y": EXPECTED.astype(float)}
    compared = [compare_outputs({"y": EXPECTED}, {"y": each}, truth) for each in actual]
    cases = tuple(CaseResult(f"case {number}", "failed", "", each) for number, each in enumerate(compared))
    recording = Recording("case 0", {}, {"y": EXPECTED}, {"y": actual[0]})
    return RuntimeResult("m.onnx", "onnx", "onnxruntime[all]", False, "compared", cases=cases, recording=recording)


def _with(place: int, value: float, array: np.ndarray = EXPECTED) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


FAILURES = {
    "half more": EXPECTED + np.float32(0.5),
    "half less": EXPECTED - np.float32(0.5),
    "NaN first": _with(0, np.nan),
    "NaN fourth": _with(3, np.nan),
    "NaN first and half more": _with(0, np.nan, EXPECTED + np.float32(0.5)),
    "NaN first and half less": _with(0, np.nan, EXPECTED - np.float32(0.5)),
    "NaN first and doubled": _with(0, np.nan, 2 * EXPECTED),
    "NaN first and tripled": _with(0, np.nan, 3 * EXPECTED),
    "infinity first": _with(0, np.inf),
    "one value": _with(7, 9.0),
    "another value": _with(8, 9.0 + EXPECTED[8] - EXPECTED[7]),
    "another type": EXPECTED.astype(np.float64),
    "another shape": EXPECTED[None],
    "reversed": EXPECTED[::-1].copy(),
    "negated": _with(25, 0.5, -EXPECTED),
}


OF_EQUAL_SIZE = [
    *("half more", "half less", "NaN first", "NaN fourth", "infinity first", "one value", "another value"),
    *("NaN first and half more", "NaN first and half less", "NaN first and doubled", "NaN first and tripled"),
]


@pytest.mark.parametrize("one", FAILURES)
@pytest.mark.parametrize("other", FAILURES)
def test_places_that_fail_are_alike_where_they_return_the_same_alone(one, other):
    found = is_alike(_failing(FAILURES[one]), _failing(FAILURES[other]))
    assert found == (one == other)


@pytest.mark.parametrize("one", OF_EQUAL_SIZE)
@pytest.mark.parametrize("other", OF_EQUAL_SIZE)
def test_the_sign_and_the_place_of_a_difference_count_in_every_case(one, other):
    kept = FAILURES["half more"]
    assert is_alike(_failing(kept, FAILURES[one]), _failing(kept, FAILURES[other])) == (one == other)


@pytest.mark.parametrize("error", [3e-8, 1e-4])
def test_places_that_differ_by_rounding_or_a_thousandth_of_the_fault_are_alike(error):
    fault = EXPECTED + np.float32(0.5)
    nearly = fault * np.float32(1 + error)
    assert is_alike(_failing(fault), _failing(nearly))
    assert is_alike(_failing(nearly), _failing(fault))


def test_places_that_do_not_load_are_alike_where_the_reason_is_one():
    one, other = (
        RuntimeResult("m.onnx", "onnx", "onnxruntime", False, "not loaded", error) for error in ("no Sin", "no Cos")
    )
    assert (is_alike(one, one), is_alike(one, other)) == (True, False)
