"""The public names of the package, each with its module."""

from keras_pe.export import records as records
from keras_pe.export import runtimes as runtimes
from keras_pe.export.artifacts.artifact import Format as Format
from keras_pe.export.artifacts.read_artifact import read_artifact as read_artifact
from keras_pe.export.decoders.decoder_folder import (
    export_decoder as export_decoder,
)
from keras_pe.export.decoders.generation import generate as generate
from keras_pe.export.errors import (
    DisagreementError as DisagreementError,
)
from keras_pe.export.errors import (
    ExportError as ExportError,
)
from keras_pe.export.errors import (
    InvalidArtifactError as InvalidArtifactError,
)
from keras_pe.export.errors import (
    TracingError as TracingError,
)
from keras_pe.export.errors import (
    UnknownSizesError as UnknownSizesError,
)
from keras_pe.export.errors import (
    UnsupportedError as UnsupportedError,
)
from keras_pe.export.exporters import (
    export_litert as export_litert,
)
from keras_pe.export.exporters import (
    export_onnx as export_onnx,
)
from keras_pe.export.exporters import (
    export_saved_model as export_saved_model,
)
from keras_pe.export.model.border import Border as Border
from keras_pe.export.model.signature.model_signature import model_signature as model_signature
from keras_pe.export.parity.bundle import write_bundle as write_bundle
from keras_pe.export.parity.check_parity import assert_parity as assert_parity
from keras_pe.export.parity.check_parity import check_parity as check_parity
from keras_pe.export.parity.data.batching import Batching as Batching
from keras_pe.export.parity.data.source import DataError as DataError
from keras_pe.export.parity.data.source import DataPart as DataPart
from keras_pe.export.parity.data.source import DataSource as DataSource
from keras_pe.export.parity.dataset.check_dataset import check_dataset as check_dataset
from keras_pe.export.parity.dataset.parity_batch import ParityBatch as ParityBatch
from keras_pe.export.parity.replay import replay_bundle as replay_bundle
from keras_pe.export.parity.reports.report import write_report as write_report
from keras_pe.export.parity.work.worker_input import Acceptance as Acceptance
from keras_pe.export.quantization.quantize import quantize as quantize
from keras_pe.export.results.diagnosis import Cause as Cause
