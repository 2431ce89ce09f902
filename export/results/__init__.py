"""The records of a check, from the whole check down to one output in one case."""

from keras_pe.export.results.check_results import (
    HALF,
    PRECISIONS,
    Allowance,
    AnyResults,
    CaseInfo,
    CheckResults,
    Coverage,
    Stage,
    TableCoverage,
)
from keras_pe.export.results.comparison import Comparison, ErrorProfile, Problem
from keras_pe.export.results.diagnosis import Cause, Finding, LayerResult, OtherValue, Proof
from keras_pe.export.results.recordings import Array, Chunks, LayerRecording, Recording
from keras_pe.export.results.runs import (
    CaseResult,
    CaseStatus,
    NameMatch,
    QuantizedRole,
    QuantizedTensor,
    RunStatus,
    RuntimeResult,
    SkippedRuntime,
    StoredWeights,
    TakenBranches,
)

__all__ = [
    "HALF",
    "PRECISIONS",
    "Allowance",
    "AnyResults",
    "Array",
    "CaseInfo",
    "CaseResult",
    "CaseStatus",
    "Cause",
    "CheckResults",
    "Chunks",
    "Comparison",
    "Coverage",
    "ErrorProfile",
    "Finding",
    "LayerRecording",
    "LayerResult",
    "NameMatch",
    "OtherValue",
    "Problem",
    "Proof",
    "QuantizedRole",
    "QuantizedTensor",
    "Recording",
    "RunStatus",
    "RuntimeResult",
    "SkippedRuntime",
    "Stage",
    "StoredWeights",
    "TableCoverage",
    "TakenBranches",
]
