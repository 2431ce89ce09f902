"""What an export returns: the file or folder it wrote, and what a caller needs to know to run it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class TensorSpec:
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
        format: "onnx", "tf_saved_model" or "litert", as in `keras.Model.export`.
        path: The file (ONNX, LiteRT) or folder (SavedModel).
        inputs: What it takes, in the model's order.
        outputs: What it returns, in the model's order.
        size: Bytes on disk, external data included.
        seconds: What the export took.
        opset: The ONNX operator set, None for other formats.
        notes: Sentences on what differs from the model as it was, such as a float32 rebuild of a half-precision model.
        metadata: What is stored in the artifact itself: versions, the encodings' configurations, the map of names.
    """

    format: str
    path: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    size: int
    seconds: float
    opset: int | None = None
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
