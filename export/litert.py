"""`export_litert`: a LiteRT file of built-in operators only, so that every interpreter can run it."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import Artifact, Format, TensorInfo, description_to_json
from keras_pe.export.artifacts.litert_file import METADATA
from keras_pe.export.comparison.inputs.cases import GivenInputs
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import RuntimeFailedError, UnsupportedError, joined
from keras_pe.export.exporting import TargetFormat, TracedModel, export
from keras_pe.export.graph.endpoint import Endpoint
from keras_pe.export.graph.view import refuse_state_and_randomness
from keras_pe.export.model.border import Border
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.request import Request
from keras_pe.export.runtimes.lending import tensorflow_process
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.smoke_test import Checked, check_artifact
from keras_pe.protocols import Model

_PRODUCTS_OF_INTEGERS = (
    "LiteRT multiplies no int8 tensors as Keras quantizes them: the weights are int8, and are multiplied as float32."
)

# How the converter names an operator that it cannot write: its type, and its path in the graph.
_CULPRIT = re.compile(r'error: loc\((?:callsite\()?fused\["(\w+):", "([^"@]+)')

# By a pattern of operators: what to do instead.
_WAYS_AROUND = {
    "TensorList.*|While": (
        "Collect the rows of a loop with keras.ops.scan or keras.ops.map, or fix the batch in `input_signature`."
    ),
    "Complex": "Return the real and the imaginary part of a complex tensor: LiteRT has no complex tensors.",
    "I?R?FFT.*": "Fix the length of a Fourier transform in `input_signature`, to 2048 at most.",
    "Cholesky|Eig|.*Determinant|Matrix(Inverse|.*Solve)|Qr|SelfAdjointEig.*|Svd": (
        "Precompute a decomposition where it is of weights, or leave it to the caller."
    ),
    "AsString|.*HashBucket.*|.*HashTable.*|LookupTable.*|Ragged.*|StaticRegex.*|String.*": (
        "Look texts and keys up before the model, which then takes the indices."
    ),
    ".*": "Write it with other operations of keras.ops, or use `export_onnx` or `export_saved_model`.",
}


def export_litert(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to LiteRT, one of half precision as a float32 rebuild of it.

    The file is published only after LiteRT's interpreter, which has no other operators than the built-in ones, has
    returned from it what Keras returns. Until then, and if anything fails, what stood at `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The `.tflite` file to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's. The artifact records the border, and a check reads it there.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound form of built-in operators; the message names the operator.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a LiteRT file stands at `filepath`.
        ImportError: If a package is missing.
    """
    packages = ("keras", "tensorflow")
    extras = {**dict.fromkeys(packages, "export"), "ai_edge_litert": "export,litert"}
    target = TargetFormat("export_litert", Format.LITERT, extras, packages, tensorflow_process, _Traced, "float32")
    return export(target, Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress))


class _Traced(TracedModel):
    """A model on its way to the file."""

    def __init__(self, layers: Sequence[Any], signature: Signature) -> None:
        endpoint, self._name = Endpoint(layers, signature, Format.LITERT), layers[0].name
        refuse_state_and_randomness(endpoint.view, endpoint.signature, endpoint.outputs, self._name, Format.LITERT)
        has_integers = any(getattr(layer, "quantization_mode", None) == "int8" for layer in layers)
        super().__init__(endpoint.signature, endpoint.view, (_PRODUCTS_OF_INTEGERS,) if has_integers else ())
        self._endpoint, self._converted = endpoint, b""

    def convert(self, file: Path, process: Worker) -> None:
        folder = file.with_name(f"{file.name}.saved_model")
        self._endpoint.write(folder)
        factory = f"{__name__}:Converter"
        spec = RuntimeSpec("converter", "tf_saved_model", factory, "tensorflow", "-", {"target": str(file)})
        try:
            process.load(folder, spec)
        except RuntimeFailedError as error:  # there is no form, or the converter does not survive the attempt
            raise self._unsupported(str(error)) from error
        self._converted = file.read_bytes()

    def _unsupported(self, said: str) -> UnsupportedError:
        """Returns the error that names the operators on which the converter stopped."""
        found = list(dict.fromkeys(_CULPRIT.findall(said)))
        sentences = [f"operator {kind!r} of {self.view.place(path)} has no LiteRT form." for kind, path in found]
        sentences += dict.fromkeys(map(_way_around, (kind for kind, _ in found)))
        reason = joined(sentences or [f"the conversion failed: {said.strip().splitlines()[0]}."])
        path, kind = found[0] if found else ("", None)
        return UnsupportedError(Format.LITERT, self._name, reason, layer=self.view.layer(path), operator=kind)

    def write(self, file: Path, artifact: Artifact) -> list[Path]:
        file.write_bytes(_described(self._converted, description_to_json(artifact)))
        return []

    def check(self, file: Path, process: Worker, reference: KerasReference) -> Checked:
        return check_artifact(file, process, reference, Format.LITERT, spec=find_runtimes("litert")[0])


def _way_around(operator: str) -> str:
    """Returns the sentence that says what to do without an operator."""
    return next(way for pattern, way in _WAYS_AROUND.items() if re.fullmatch(pattern, operator))


def _described(content: bytes, text: str) -> bytes:
    """Returns the file with a description in its metadata, which every interpreter passes over."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(text.encode(), np.uint8)
    entry.name, entry.buffer = METADATA, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    builder = flatbuffers.Builder(len(content) + len(text))
    builder.Finish(model.Pack(builder), content[4:8])
    return bytes(builder.Output())


class Converter:
    """TensorFlow's converter in the child process, as if it were a runtime: to load a folder is to convert it."""

    inputs: tuple[TensorInfo, ...] = ()

    def __init__(self, path: str, target: str) -> None:
        import tensorflow as tf

        converter = tf.lite.TFLiteConverter.from_saved_model(path, signature_keys=["serving_default"])
        Path(target).write_bytes(converter.convert())
        self.version = f"tensorflow {tf.__version__}"
