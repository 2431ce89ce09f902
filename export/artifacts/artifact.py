"""What an export returns, and what is read back from disk: an artifact, and its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keras_pe.export.artifacts.contents import LayerContents, read_contents
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

    @property
    def contents(self) -> tuple[LayerContents, ...]:
        """What an ONNX file is made of, by layer, in the order in which they are computed; read when it is asked for.

        Raises:
            ValueError: If the format is another one, whose files do not say of which layer an operator is, or if the
                file cannot be read any more.
        """
        if self.format is not Format.ONNX:
            raise ValueError(
                f"`contents` must be asked of an ONNX file: it alone says of which layer an operator is. "
                f"Received: {str(self.path)!r}, a {self.format.label}. Export the model with `export_onnx` as well."
            )
        try:
            return read_contents(self.path)
        except (ValueError, OSError) as error:
            raise ValueError(f"{self.path} {error}") from error

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
