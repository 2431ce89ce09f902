"""How a model leaves Keras, and the proof that it arrived.

Everything public stands here; the modules below may change from one version to the next.
"""

from typing import TYPE_CHECKING

from keras_pe.export.artifacts.artifact import Artifact, Format, TensorInfo
from keras_pe.export.artifacts.contents import LayerContents
from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.errors import (
    DisagreementError,
    ExportError,
    InvalidArtifactError,
    RuntimeDiedError,
    RuntimeFailedError,
    RuntimeHungError,
    RuntimeRefusedError,
    TracingError,
    UnknownSizesError,
    UnsupportedError,
)
from keras_pe.lazy import lazy_names

if TYPE_CHECKING:
    from keras_pe.export.exporters import export_litert, export_onnx, export_saved_model
    from keras_pe.export.model.border import Border
    from keras_pe.export.model.signature.model_signature import model_signature
    from keras_pe.export.model.signature.signature import Signature
    from keras_pe.export.parity.bundle import write_bundle
    from keras_pe.export.parity.check import assert_parity, check_parity
    from keras_pe.export.parity.data.batching import Batching
    from keras_pe.export.parity.data.source import DataError, DataPart, DataSource
    from keras_pe.export.parity.dataset.check import check_dataset
    from keras_pe.export.parity.dataset.data_report import DatasetReport
    from keras_pe.export.parity.dataset.parity_batch import ParityBatch
    from keras_pe.export.parity.parity_report import ParityReport
    from keras_pe.export.parity.replay import replay_bundle
    from keras_pe.export.parity.reports.report import write_report
    from keras_pe.export.parity.work.job import Acceptance
    from keras_pe.export.results.check_results import Allowance, CaseInfo, Coverage, Stage, TableCoverage
    from keras_pe.export.results.comparison import Comparison, ErrorProfile
    from keras_pe.export.results.diagnosis import Cause, Finding, LayerResult, OtherValue, Proof
    from keras_pe.export.results.runs import (
        CaseResult,
        Recording,
        RuntimeResult,
        SkippedRuntime,
        StoredWeights,
        TakenBranches,
    )
    from keras_pe.export.runtimes.runtime import InspectableRuntime, Runtime, RuntimeSpec

__all__ = [
    "Acceptance",
    "Allowance",
    "Artifact",
    "Batching",
    "Border",
    "CaseInfo",
    "CaseResult",
    "Cause",
    "Comparison",
    "Coverage",
    "DataError",
    "DataPart",
    "DataSource",
    "DatasetReport",
    "DisagreementError",
    "ErrorProfile",
    "ExportError",
    "Finding",
    "Format",
    "InspectableRuntime",
    "InvalidArtifactError",
    "LayerContents",
    "LayerResult",
    "OtherValue",
    "ParityBatch",
    "ParityReport",
    "Proof",
    "Recording",
    "Runtime",
    "RuntimeDiedError",
    "RuntimeFailedError",
    "RuntimeHungError",
    "RuntimeRefusedError",
    "RuntimeResult",
    "RuntimeSpec",
    "Signature",
    "SkippedRuntime",
    "Stage",
    "StoredWeights",
    "TableCoverage",
    "TakenBranches",
    "TensorInfo",
    "TracingError",
    "UnknownSizesError",
    "UnsupportedError",
    "assert_parity",
    "check_dataset",
    "check_parity",
    "export_litert",
    "export_onnx",
    "export_saved_model",
    "model_signature",
    "read_artifact",
    "replay_bundle",
    "write_bundle",
    "write_report",
]

# Those that are imported when they are first asked for, and the module each comes from.
_LAZY = {
    "Acceptance": "keras_pe.export.parity.work.job",
    "Allowance": "keras_pe.export.results.check_results",
    "Batching": "keras_pe.export.parity.data.batching",
    "Border": "keras_pe.export.model.border",
    "CaseInfo": "keras_pe.export.results.check_results",
    "CaseResult": "keras_pe.export.results.runs",
    "Comparison": "keras_pe.export.results.comparison",
    "Coverage": "keras_pe.export.results.check_results",
    "DataError": "keras_pe.export.parity.data.source",
    "DataPart": "keras_pe.export.parity.data.source",
    "DataSource": "keras_pe.export.parity.data.source",
    "DatasetReport": "keras_pe.export.parity.dataset.data_report",
    "ErrorProfile": "keras_pe.export.results.comparison",
    "Cause": "keras_pe.export.results.diagnosis",
    "Finding": "keras_pe.export.results.diagnosis",
    "InspectableRuntime": "keras_pe.export.runtimes.runtime",
    "LayerResult": "keras_pe.export.results.diagnosis",
    "OtherValue": "keras_pe.export.results.diagnosis",
    "ParityBatch": "keras_pe.export.parity.dataset.parity_batch",
    "ParityReport": "keras_pe.export.parity.parity_report",
    "Proof": "keras_pe.export.results.diagnosis",
    "Recording": "keras_pe.export.results.runs",
    "Runtime": "keras_pe.export.runtimes.runtime",
    "RuntimeResult": "keras_pe.export.results.runs",
    "RuntimeSpec": "keras_pe.export.runtimes.runtime",
    "Signature": "keras_pe.export.model.signature.signature",
    "SkippedRuntime": "keras_pe.export.results.runs",
    "Stage": "keras_pe.export.results.check_results",
    "StoredWeights": "keras_pe.export.results.runs",
    "TakenBranches": "keras_pe.export.results.runs",
    "TableCoverage": "keras_pe.export.results.check_results",
    "assert_parity": "keras_pe.export.parity.check",
    "check_dataset": "keras_pe.export.parity.dataset.check",
    "check_parity": "keras_pe.export.parity.check",
    "export_litert": "keras_pe.export.exporters",
    "export_onnx": "keras_pe.export.exporters",
    "export_saved_model": "keras_pe.export.exporters",
    "model_signature": "keras_pe.export.model.signature.model_signature",
    "replay_bundle": "keras_pe.export.parity.replay",
    "write_bundle": "keras_pe.export.parity.bundle",
    "write_report": "keras_pe.export.parity.reports.report",
}

__getattr__, __dir__ = lazy_names(__name__, __all__, _LAZY)
