"""An artifact, from an export or from disk: its format, its inputs and outputs."""

import enum
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import Shown, shown_bytes
from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.artifacts.onnx_contents import LayerContents, read_contents
from keras_pe.export.artifacts.onnx_model import is_onnx
from keras_pe.export.artifacts.rewrite import Rewrite
from keras_pe.export.artifacts.state import State, states_from_json

LAYERS_KEY = "keras_pe.layers"
"""The key of the tensors that each call of a layer returns: JSON, a list of names by the call's path."""

SIZES_KEY = "keras_pe.sizes"
"""The key of the dynamic dimensions of an artifact, with their sizes."""

FIXED_KEY = "keras_pe.fixed"
"""The key of the sizes that an artifact fixes although its model declares them dynamic, see `FixedSizes`."""

VALUES_KEY = "keras_pe.values"
"""The key of the values that the inputs of an artifact accept, if the exporter knew them."""

ABSENT_KEY = "keras_pe.absent"
"""The key of the optional inputs without which the model was called: JSON, a list of their names."""

NOTES_KEY = "keras_pe.notes"
"""The key of the differences between an artifact and its model: JSON, a list of sentences."""

BORDER_KEY = "keras_pe.border"
"""The key of the input/output adapter of an artifact."""

STATE_KEY = "keras_pe.state"
"""The key of the inputs and outputs that carry the model's variables from call to call, see `State`."""

VERSION_KEY = "keras_pe.version"
"""The key of the release of this package that made an artifact."""

LITERT_IDENTIFIER = b"TFL3"  # identifier of the flatbuffer, behind the four bytes of its root


class Format(enum.StrEnum):
    """A format that a model is exported to. Its value is its name in `keras.Model.export`."""

    ONNX = "onnx"
    SAVED_MODEL = "tf_saved_model"
    LITERT = "litert"

    @property
    def label(self) -> str:
        """The name that a sentence has for it."""
        return {Format.ONNX: "ONNX", Format.SAVED_MODEL: "SavedModel", Format.LITERT: "LiteRT"}[self]

    @property
    def suffix(self) -> str:
        """Suffix of a file of this format; a SavedModel is a folder of any name."""
        return {Format.ONNX: ".onnx", Format.SAVED_MODEL: "", Format.LITERT: ".tflite"}[self]

    @classmethod
    def detect(cls, path: str | os.PathLike[str]) -> "Format | None":
        """Returns the format of the file or folder at a path, detected from its content; None for any other."""
        path = Path(path)
        if path.is_dir():
            return cls.SAVED_MODEL if (path / "saved_model.pb").is_file() else None
        if not path.is_file():
            return None
        with path.open("rb") as file:
            if file.read(8)[4:] == LITERT_IDENTIFIER:
                return cls.LITERT
        return cls.ONNX if is_onnx(path) else None

    @classmethod
    def from_suffix(cls, path: str | os.PathLike[str]) -> "Format | None":
        """Returns the format of a file that is yet to be written, None where its name does not say."""
        suffix = Path(path).suffix
        return next((format for format in cls if suffix and format.suffix == suffix), None)


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


def dynamic_sizes(tensors: Iterable[TensorInfo], arrays: Mapping[str, Any]) -> dict[str, int]:
    """Returns the size of each dynamic dimension in arrays by name. A tensor without an array is left out."""
    known = ((each.shape, arrays[each.name].shape) for each in tensors if each.name in arrays)
    pairs = (pair for shapes in known for pair in zip(*shapes, strict=False))
    return {dim: size for dim, size in pairs if isinstance(dim, str)}


@dataclass(frozen=True, repr=False)
class Artifact(Shown):
    """A published export, which a prompt shows in one line and a notebook as a table.

    Attributes:
        format: Equal to "onnx", "tf_saved_model" or "litert", as in `keras.Model.export`.
        path: The file (ONNX, LiteRT) or folder (SavedModel).
        inputs: Its inputs, in the model's order.
        outputs: Its outputs, in the model's order.
        nbytes: Bytes on disk, external data included.
        seconds: Duration of the export.
        opset_version: The ONNX operator set, None for other formats.
        notes: Sentences on what differs from the model as it was, such as a float32 rebuild of a half-precision model.
        metadata: Texts in the artifact itself: versions, the encodings' configurations, the map of names.
        rewrites: The operations of an ONNX file that one operator replaces or could replace, with the line of the
            user's code. The file does not store them: an artifact from `read_artifact` has none.
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
    rewrites: tuple[Rewrite, ...] = field(default=(), compare=False)

    @property
    def contents(self) -> tuple[LayerContents, ...]:
        """Contents of an ONNX file by layer, in the order of computation; read on access.

        Raises:
            ValueError: If the format is not ONNX, or if the file can no longer be read. Other formats do not record the
                layer of an operator.
        """
        if self.format is not Format.ONNX:
            raise ArgValueError(
                "contents",
                "needs an ONNX file, the only format that records the layer of each operator. "
                f"Received: {str(self.path)!r}, a {self.format.label}. Export the model with `export_onnx` as well.",
            )
        try:
            return read_contents(self.path)
        except (ValueError, OSError) as error:
            raise ValueError(f"{self.path} {error}") from error

    @property
    def states(self) -> tuple[State, ...]:
        """The variables that are inputs and outputs, in the order of the inputs; empty without `state="arguments"`.

        Raises:
            ValueError: If the metadata are damaged.
        """
        try:
            return states_from_json(self.metadata.get(STATE_KEY, "[]"))
        except ValueError as error:
            raise ValueError(f"{self.path} {error}") from error

    def initial_state(self, batch: int = 1, length: int | None = None) -> dict[str, npt.NDArray[Any]]:
        """Returns the value of each state before the first call, by the name of its input.

        An output with the name of the input and `_out` has the value for the next call.

        Args:
            batch: The number of rows, if the batch is free.
            length: The length of a shared cache: the largest number of tokens of a text. Other states ignore it.

        Returns:
            Arrays of the shapes and dtypes in `states`; an empty dict for an artifact without state.

        Raises:
            ValueError: If `batch` or `length` is not a whole number from 1, or if the rows of the initial state differ
                and are not `batch` rows. Also if a shared cache has no `length`.
        """
        for name, size in (("batch", batch), ("length", 1 if length is None else length)):
            if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
                raise ArgValueError(name, f"must be a whole number from 1. Received: {name}={size!r}.")
        return {state.input: state.start(int(batch), length) for state in self.states}

    def _one_line(self) -> str:
        inputs, outputs = ("; ".join(map(str, each)) for each in (self.inputs, self.outputs))
        notes = " ".join([". Notes:", *self.notes]) if self.notes else ""
        return f"{self.format} at {self.path}, {shown_bytes(self.nbytes)}, {inputs} -> {outputs}{notes}"

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


def description_to_json(artifact: Artifact) -> str:
    """Returns what an artifact says about itself where its format has no words for it.

    That is the names of dimensions, the order of the tensors, the notes and the metadata.
    """
    tensors = {key: [asdict(info) for info in getattr(artifact, key)] for key in ("inputs", "outputs")}
    content = {**tensors, "notes": list(artifact.notes), "metadata": dict(artifact.metadata)}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def description_from_json(text: str) -> dict[str, Any]:
    """Returns the same as arguments of `Artifact`.

    Raises:
        ValueError: If the text is not what `description_to_json` wrote.
    """
    return read_record(text, _description, "a description")


def read_layer_tensors(metadata: Mapping[str, str]) -> dict[str, list[str | None]]:
    """Returns the names of the tensors with the outputs of each layer, by its path; empty without such a record.

    Raises:
        ValueError: If the record is damaged.
    """
    return read_record(metadata.get(LAYERS_KEY, "{}"), _layer_tensors, "layers")


def _layer_tensors(content: Any) -> dict[str, list[str | None]]:
    return {str(path): [None if name is None else str(name) for name in names] for path, names in content.items()}


def _description(content: Any) -> dict[str, Any]:
    tensors = {
        key: tuple(TensorInfo(str(info["name"]), tuple(info["shape"]), str(info["dtype"])) for info in content[key])
        for key in ("inputs", "outputs")
    }
    texts = {str(key): str(text) for key, text in content["metadata"].items()}
    return {**tensors, "notes": tuple(map(str, content["notes"])), "metadata": texts}
