"""What a check found: plain frozen records, from the whole report down to one output in one case."""

from keras_pe.export.results.comparison import Comparison, ErrorProfile
from keras_pe.export.results.diagnosis import Finding, LayerResult, Proof
from keras_pe.export.results.report import CaseInfo, ParityReport, Stage
from keras_pe.export.results.runs import (
    Array,
    CaseResult,
    CaseStatus,
    NameMatch,
    Recording,
    RunStatus,
    RuntimeResult,
    SkippedRuntime,
)

__all__ = [
    "Array",
    "CaseInfo",
    "CaseResult",
    "CaseStatus",
    "Comparison",
    "ErrorProfile",
    "Finding",
    "LayerResult",
    "NameMatch",
    "ParityReport",
    "Proof",
    "Recording",
    "RunStatus",
    "RuntimeResult",
    "SkippedRuntime",
    "Stage",
]
