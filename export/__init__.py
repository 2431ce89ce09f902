"""How a model leaves Keras, and the proof that it arrived."""

from typing import TYPE_CHECKING

from keras_pe.export.artifact import Artifact as Artifact
from keras_pe.export.artifact import TensorInfo as TensorInfo
from keras_pe.export.artifact import read_artifact as read_artifact
from keras_pe.export.errors import DisagreementError as DisagreementError
from keras_pe.export.errors import ExportError as ExportError
from keras_pe.export.errors import InvalidArtifactError as InvalidArtifactError
from keras_pe.export.errors import TracingError as TracingError
from keras_pe.export.errors import UnsupportedError as UnsupportedError
from keras_pe.export.formats import Format as Format
from keras_pe.lazy import lazy_names

if TYPE_CHECKING:
    from keras_pe.export.litert import export_litert as export_litert
    from keras_pe.export.model.signature import Signature as Signature
    from keras_pe.export.model.signature import model_signature as model_signature
    from keras_pe.export.onnx.exporter import export_onnx as export_onnx
    from keras_pe.export.parity.assertion import assert_parity as assert_parity
    from keras_pe.export.parity.check import check_parity as check_parity
    from keras_pe.export.parity.results import ParityReport as ParityReport
    from keras_pe.export.saved_model import export_saved_model as export_saved_model

# Public names and the module each comes from: imported when first asked for.
_LAZY = {
    "ParityReport": "keras_pe.export.parity.results",
    "Signature": "keras_pe.export.model.signature",
    "assert_parity": "keras_pe.export.parity.assertion",
    "check_parity": "keras_pe.export.parity.check",
    "export_litert": "keras_pe.export.litert",
    "export_onnx": "keras_pe.export.onnx.exporter",
    "export_saved_model": "keras_pe.export.saved_model",
    "model_signature": "keras_pe.export.model.signature",
}


__getattr__ = lazy_names(__name__, _LAZY)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
