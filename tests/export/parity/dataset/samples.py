"""Reports of a data set to render: one passes, one fails with every kind of fault, and one ran nothing."""

import dataclasses

import ml_dtypes
import numpy as np

from keras_pe.export.comparison.output_decisions import Decision
from keras_pe.export.parity.dataset.data_report import DatasetReport
from keras_pe.export.parity.dataset.dataset_records import DatasetResult, OutputSummary
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics, Severity, WorstRow
from keras_pe.export.parity.work.batch_measurement import measure_output
from keras_pe.export.results import Cause, Finding, NameMatch, OtherValue, StoredWeights
from tests.export.parity.presentation import samples

ROWS = 5


def _statistics(error: float) -> RuntimeStatistics:
    expected = np.random.default_rng(0).random((ROWS, 3)).astype(np.float32)
    actual = expected.copy()
    actual[2, expected[2].argmin()] += error
    found, _ = measure_output(expected, actual, allowed=None, decision=Decision("argmax"), noise=1e-6)
    return RuntimeStatistics(rows=ROWS, failed=int(found.changed + found.clashes), outputs={"p": found})


def _row(severity: Severity, error: float, message: str = "") -> WorstRow:
    odd = np.array([[np.nan, np.inf], [-np.inf, 1.5]], ml_dtypes.bfloat16)
    expected = {"p": odd, "text": np.array(["a\u5c42", b"\xff"], object), "flag": np.array(True)}
    actual = {} if message else expected
    return WorstRow(3, "x.npy", 0, 0, severity, error, {"x": np.zeros(2)}, expected, actual, message)


_SOUND = _statistics(1e-7)
PASSING = DatasetReport(
    model="classifier",
    reference="classifier, tolerance by dtype",
    data="x.npy",
    rows=ROWS,
    total=None,
    results=(
        DatasetResult(
            "/models/c.onnx",
            "onnx",
            "onnxruntime[all]",
            "onnxruntime 1.30",
            0.0,
            dataclasses.replace(_SOUND, worst=(_row(Severity.AGREES, 0.5),)),
            (OutputSummary("p", "argmax", 1e-7, None, _SOUND.outputs["p"]),),
            rows_per_second=1e5,
            names=(NameMatch("output", "p", "output_0", by_order=False),),
        ),
    ),
    versions={"keras": "3.15.1"},
    seconds=3.25,
    date="2026-01-31T12:00:00+00:00",
    files={"/models/c.onnx": "e3b0c442"},
)

_CHANGED, _CLASHING = _statistics(1.0), _statistics(float("nan"))
FAILING = dataclasses.replace(
    PASSING,
    model=samples.HOSTILE,
    total=ROWS,
    stopped_early=True,
    reused_rows=2,
    results=(
        dataclasses.replace(
            PASSING.results[0],
            statistics=dataclasses.replace(
                _CHANGED.merge(_CLASHING),
                unanswered=1,
                problems={samples.HOSTILE: 3},
                worst=(_row(Severity.NO_ANSWER, float("inf"), samples.HOSTILE), _row(Severity.CLASH, float("nan"))),
            ),
            outputs=(
                OutputSummary("p", "argmax", 1e-7, 1e-6, _CHANGED.outputs["p"].merge(_CLASHING.outputs["p"])),
                OutputSummary("ids", None, None, None, _SOUND.outputs["p"]),
            ),
            rows_per_second=None,
            weights=StoredWeights(2, 1, 64, 32),
            findings=(Finding(Cause.CHANGED_VALUES, samples.HOSTILE, "p", parameters=(OtherValue("units", 3, 4),)),),
        ),
        dataclasses.replace(PASSING.results[0], statistics=RuntimeStatistics(), outputs=(), error="does not load"),
    ),
    diagnosis=samples.FAILING,
    skipped=samples.FAILING.skipped,
)

EMPTY = dataclasses.replace(PASSING, rows=0, results=())

ALL = {"passing": PASSING, "failing": FAILING, "empty": EMPTY}
