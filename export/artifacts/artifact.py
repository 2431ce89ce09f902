"""What an export returns, and what is read back from disk: an artifact, and its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keras_pe.export.artifacts.formats import Format
from keras_pe.shown import Shown, shown_bytes


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

    def __str__(self) -> str:
        """Returns its name, type and shape, such as "x: float32 (batch, 8)"."""
        return f"{self.name}: {self.dtype} ({', '.join(map(str, self.shape))})"


@dataclass(frozen=True, repr=False)
class Artifact(Shown):
    """A published export, which a prompt shows in one line and a notebook as a table.

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

    def _one_line(self) -> str:
        inputs, outputs = ("; ".join(map(str, each)) for each in (self.inputs, self.outputs))
        return f"{self.format} at {self.path}, {shown_bytes(self.nbytes)}, {inputs} -> {outputs}"

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        opset = f", opset {self.opset_version}" if self.opset_version is not None else ""
        rows = {
            "format": f"{self.format}{opset}",
            "path": str(self.path),
            "size": shown_bytes(self.nbytes),
            "inputs": "; ".join(map(str, self.inputs)),
            "outputs": "; ".join(map(str, self.outputs)),
        }
        return rows | ({"notes": " ".join(self.notes)} if self.notes else {})
