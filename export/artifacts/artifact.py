"""What an export returns, and what is read back from disk: an artifact, and its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keras_pe.export.artifacts.formats import Format


@dataclass(frozen=True)
class TensorInfo:
    """One named input or output.

    Attributes:
        name: The name under which a runtime takes or returns the tensor.
        shape: One entry a dimension: an int where it is fixed, a name such as "batch" where it is dynamic, equal
            names for equal sizes.
        dtype: NumPy's name of the element type, such as "float32".
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str


@dataclass(frozen=True)
class Artifact:
    """A published export.

    Attributes:
        format: Equal to "onnx", "tf_saved_model" or "litert", as in `keras.Model.export`.
        path: The file (ONNX, LiteRT) or folder (SavedModel).
        inputs: What it takes, in the model's order.
        outputs: What it returns, in the model's order.
        nbytes: Bytes on disk, external data included.
        seconds: What the export took.
        opset_version: The ONNX operator set, None for other formats.
        notes: Sentences on what differs from the model as it was, such as a float32 rebuild of a half-precision model.
        metadata: What is stored in the artifact itself: versions, the encodings' configurations, the map of names.
    """

    format: Format
    path: Path
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nbytes: int
    seconds: float
    opset_version: int | None = None
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
