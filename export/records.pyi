"""The public names of the module, each with its module."""

from keras_pe.export.artifacts.artifact import Artifact as Artifact
from keras_pe.export.artifacts.artifact import TensorInfo as TensorInfo
from keras_pe.export.artifacts.onnx_contents import LayerContents as LayerContents
from keras_pe.export.artifacts.rewrite import Rewrite as Rewrite
from keras_pe.export.model.signature.signature import Signature as Signature
from keras_pe.export.parity.dataset.data_report import DatasetReport as DatasetReport
from keras_pe.export.parity.parity_report import ParityReport as ParityReport
from keras_pe.export.quantization.quantization_report import QuantizationReport as QuantizationReport
from keras_pe.export.results.check_results import (
    Allowance as Allowance,
)
from keras_pe.export.results.check_results import (
    CaseInfo as CaseInfo,
)
from keras_pe.export.results.check_results import (
    Coverage as Coverage,
)
from keras_pe.export.results.check_results import (
    Stage as Stage,
)
from keras_pe.export.results.check_results import (
    TableCoverage as TableCoverage,
)
from keras_pe.export.results.comparison import Comparison as Comparison
from keras_pe.export.results.comparison import ErrorProfile as ErrorProfile
from keras_pe.export.results.diagnosis import Finding as Finding
from keras_pe.export.results.diagnosis import LayerResult as LayerResult
from keras_pe.export.results.diagnosis import OtherValue as OtherValue
from keras_pe.export.results.diagnosis import Proof as Proof
from keras_pe.export.results.recordings import LayerRecording as LayerRecording
from keras_pe.export.results.recordings import Recording as Recording
from keras_pe.export.results.runs import (
    CaseResult as CaseResult,
)
from keras_pe.export.results.runs import (
    QuantizedTensor as QuantizedTensor,
)
from keras_pe.export.results.runs import (
    RuntimeResult as RuntimeResult,
)
from keras_pe.export.results.runs import (
    SkippedRuntime as SkippedRuntime,
)
from keras_pe.export.results.runs import (
    StoredWeights as StoredWeights,
)
from keras_pe.export.results.runs import (
    TakenBranches as TakenBranches,
)
