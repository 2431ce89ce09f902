"""Reports to render: one passes, one fails in every way that a report shows, one compared nothing."""

import dataclasses

import numpy as np

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.error_profiles import profile_errors
from keras_pe.export.parity.parity_report import ParityReport
from keras_pe.export.results import (
    CaseInfo,
    CaseResult,
    Cause,
    Finding,
    LayerResult,
    Proof,
    RuntimeResult,
    SkippedRuntime,
)

HOSTILE = """<script src="http://evil.example/x.js"></script>&'`|*_[a](http://evil.example)$x$\\\n# h\x00层"""
ARTIFACT = "/models/encoder.onnx"


def _result(runtime: str, shape: tuple[int, ...], error: float, output: str = "encoding") -> RuntimeResult:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=shape)
    expected = truth.astype(np.float32)
    actual = expected.copy()
    actual.flat[actual.size // 2] += error
    comparisons = compare_outputs({output: expected}, {output: actual}, {output: truth})
    passed = all(each.passed for each in comparisons)
    cases = (CaseResult("fair", "passed" if passed else "failed", "", comparisons), CaseResult("empty", "skipped"))
    profile = profile_errors("fair", output, expected, actual, truth)
    return RuntimeResult(ARTIFACT, "onnx", runtime, passed, "compared", "", cases, profile=profile, seconds=0.25)


PASSING = ParityReport(
    model="encoder",
    reference="a float64 rebuild of the model",
    cases=(
        CaseInfo("fair", {"x": "float32 (2, 67, 8)"}, "a length never traced"),
        CaseInfo("empty", {"x": "float32 (0, 1, 8)"}, "nothing at all", "ValueError: nothing"),
    ),
    results=(_result("onnxruntime[all]", (2, 67, 8), 1e-7), _result("litert", (2, 300), 0.0)),
    versions={"keras": "3.15.1"},
    seconds=3.25,
    date="2026-01-31T12:00:00+00:00",
    files={ARTIFACT: "e3b0c442"},
)

_LAYERS = (
    LayerResult("tokens", "tokens:0", 0.0, 1e-6, differs=False),
    LayerResult(HOSTILE, "mul:0", 3e-3, 1e-6, differs=True, originates_here=True),
    LayerResult("dense", "add:0", 5e-3, 1e-6, differs=True, originates_here=False),
    LayerResult("lost", None, float("inf"), 1e-6, differs=True),
)
FAILING = dataclasses.replace(
    PASSING,
    model=HOSTILE,
    results=(
        dataclasses.replace(
            _result("onnxruntime[all]", (2, 67, 8), 0.5, HOSTILE),
            layers=_LAYERS,
            proof=Proof((HOSTILE,), 3e-7, 1e-6, holds=True),
            findings=(Finding(Cause.WRONG_LAYOUT, f"interleaved fits {HOSTILE}", HOSTILE, HOSTILE),),
        ),
        _result("litert", (3, 5), np.nan),
        _result("onnxruntime[basic]", (2, 67, 8), 1e-7),
        RuntimeResult(ARTIFACT, "onnx", "openvino", False, "crashed", f"signal 6 {HOSTILE}"),
        RuntimeResult(
            ARTIFACT,
            "onnx",
            "onnx_reference",
            False,
            "compared",
            cases=(
                CaseResult("fair", "failed", f"no such op {HOSTILE}"),
                CaseResult("names", "failed", "", compare_outputs({"a": np.ones(2)}, {HOSTILE: np.ones(2)})),
            ),
        ),
    ),
    skipped=(SkippedRuntime("litert", "/models/encoder.tflite", "pip install 'keras-pe[litert]'"),),
)

EMPTY = dataclasses.replace(PASSING, results=())
IDLE = dataclasses.replace(
    PASSING,
    results=(RuntimeResult(ARTIFACT, "onnx", "litert", False, "compared", cases=(CaseResult("empty", "skipped"),)),),
)

ALL = {"passing": PASSING, "failing": FAILING, "empty": EMPTY, "idle": IDLE}
