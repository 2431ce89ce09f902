"""`export_onnx`: from a Keras model to one ONNX file that ONNX Runtime has run beside Keras."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.comparison.inputs.cases import GivenInputs
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.exporting import export
from keras_pe.export.graph.tracer import untraceable
from keras_pe.export.graph.tracing import Trace, Weight, trace
from keras_pe.export.graph.view import refuse_state_and_randomness
from keras_pe.export.model.border import Border
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.conversion import convert
from keras_pe.export.onnx.finishing.assembly import assemble, declare_outputs, set_metadata
from keras_pe.export.onnx.finishing.verification import check_file, check_graph
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.named_operations import named_operations
from keras_pe.export.onnx.operator_calls import Unfused
from keras_pe.export.onnx.recurrences import traced_as_calls
from keras_pe.export.onnx.writing import write_model
from keras_pe.export.request import Request
from keras_pe.export.runtimes.lending import onnxruntime_process
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.smoke_test import Checked
from keras_pe.protocols import Model

SELF_CONTAINED = 2**31 - 2**26  # bytes of weights: protobuf ends at 2 GiB, and the graph needs room as well


def export_onnx(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    opset_version: int = opsets.DEFAULT,
    external_data_threshold: int = SELF_CONTAINED,
    half_precision: bool = False,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to ONNX.

    The file is published only after ONNX's checker and strict shape inference have passed and ONNX Runtime has returned
    from it what Keras returns, at sizes that were not traced. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The `.onnx` file to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's; the model to check it against is `border.around(model)`.
        opset_version: The ONNX operator set, 15 to 25.
        external_data_threshold: Bytes of weights above which they are written to a file beside the model, named
            `<file>.<hash of its content>.data`. Below, the one file holds everything.
        half_precision: Export in float16. Otherwise a model in float16 or bfloat16 is exported as a float32 rebuild
            with the same weights, and a note of the artifact says so.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound ONNX form; its class tells why, its attributes name the layer and the
            operator.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not an ONNX file stands at `filepath`.
        ImportError: If a package is missing.
    """
    if opset_version not in opsets.EXPORTED:
        first, last = opsets.EXPORTED[0], opsets.EXPORTED[-1]
        raise ValueError(f"`opset_version` must be {first} to {last}. Received: {opset_version!r}.")
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress)
    precision = "float16" if half_precision else "float32"
    return export(_Onnx(precision, opset_version, external_data_threshold), request)


@dataclass(frozen=True)
class _Onnx:
    """The format, see `TargetFormat`."""

    precision: str | None
    opset_version: int
    external_data_threshold: int
    exporter: str = "export_onnx"
    format: Format = Format.ONNX
    extras: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(("keras", "tensorflow", "tf2onnx", "onnx", "onnxruntime"), "export")
    )
    makers: tuple[str, ...] = ("keras", "tensorflow", "tf2onnx", "onnx")

    def process(self) -> AbstractContextManager[Worker]:
        return onnxruntime_process()

    def trace(self, layers: Sequence[Any], signature: Signature) -> "_Traced":
        name, unfused = layers[0].name, Unfused()
        try:
            with traced_as_calls(layers, unfused), named_operations(layers, self.opset_version, unfused):
                traced = trace(layers, signature)
        except Exception as error:  # a layer may raise anything where a size is not known
            raise untraceable(Format.ONNX, name, error) from error
        refuse_state_and_randomness(traced.view, traced.signature, traced.outputs, name, Format.ONNX, traced.updated)
        return _Traced(self, layers, traced, unfused)


class _Traced:
    """A model on its way to the file, see `TracedModel`."""

    notes = ()

    def __init__(self, target: _Onnx, layers: Sequence[Any], traced: Trace, unfused: Unfused) -> None:
        self._target, self._layers, self._trace, self._unfused = target, layers, traced, unfused
        self.signature, self.view = traced.signature, traced.view
        self._proto: Any = None
        self._weights: list[Weight] = []

    def convert(self, file: Path, process: Worker) -> None:
        proto = convert(self._trace, self._target.opset_version, self._layers[0])
        self._proto, self._weights = assemble(proto, self._trace, self._unfused)
        check_graph(self._proto, self._weights, self._layers[0].name)

    def write(self, file: Path, artifact: Artifact) -> list[Path]:
        set_metadata(self._proto, artifact.metadata)
        declare_outputs(self._proto, artifact.outputs)
        is_external = sum(weight.nbytes for weight in self._weights) > self._target.external_data_threshold
        return write_model(self._proto, self._weights, file, is_external)[:-1]

    def check(self, file: Path, process: Worker, reference: KerasReference) -> Checked:
        return check_file(file, process, self._layers, reference)
