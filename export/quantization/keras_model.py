"""Quantizes copies of a Keras model with Keras' own quantizers, and exports them."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.target_layers import read_target
from keras_pe.export.comparison.references.interface import known_interface
from keras_pe.export.errors import ExportError, first_line
from keras_pe.export.exporters import export_litert, export_onnx
from keras_pe.export.model.border import Border
from keras_pe.export.model.rebuild import clone_with
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.quantization.quantizer import Options
from keras_pe.export.results import NameMatch


@dataclass(frozen=True)
class KerasModel:
    """A Keras model, and the arguments of the export of its float file.

    Attributes:
        model: The model.
        format: The format of the file.
        arguments: The keyword arguments of the exporter.
    """

    model: Any
    format: Format
    arguments: Mapping[str, Any]

    @classmethod
    def prepare(
        cls, model: Any, artifact: Artifact, input_signature: Any, border: Border | None, names: Sequence[NameMatch]
    ) -> "KerasModel":
        """Returns a model, to be exported with the adapter, the names, the fixed sizes and the opset of its float file.

        Args:
            model: The model.
            artifact: The float file.
            input_signature: As in `check_dataset`.
            border: As in `check_dataset`.
            names: Inputs and outputs with other names in the float file.
        """
        interface = known_interface(artifact.path, border, model)
        record, fixed = interface.record, interface.fixed
        arguments = {
            "input_signature": input_signature,
            "border": _renaming(artifact, names) if record is None else record.border,
            "sizes": None if fixed is None else {each.name: (each.size,) for each in fixed.sizes},
        }
        if artifact.opset_version is not None:
            arguments["opset_version"] = max(artifact.opset_version, opsets.EXPORTED[0])
        if (target := read_target(artifact.metadata)) is not None:
            arguments["target"] = target
        return cls(model, artifact.format, arguments)

    def layers(self, options: Options) -> Mapping[str, str]:
        """Returns Keras' path of each layer that Keras quantizes, by the layer's path in files.

        Args:
            options: See `write`.

        Raises:
            ValueError: If Keras does not quantize the model.
        """
        copy = self._quantize_copy(options)
        pairs = zip(layer_paths(self.model), layer_paths(copy), strict=True)
        found = {
            path: own.path
            for (path, own), (_, other) in pairs
            if getattr(other, "quantization_mode", None) and not getattr(own, "quantization_mode", None)
        }
        # Within an input/output adapter, the paths in the file begin with the name of the model.
        return found | {f"{self.model.name}/{path}": own for path, own in found.items()}

    def write(self, target: Path, options: Options) -> None:
        """Writes the file of a quantized copy.

        Args:
            target: The file.
            options: The "mode" of Keras, and in "layers_in_float" Keras' paths of layers.

        Raises:
            ValueError: If Keras does not quantize the model, or the copy cannot be exported.
        """
        export: Any = export_onnx if self.format is Format.ONNX else export_litert
        try:
            export(self._quantize_copy(options), target, **self.arguments)
        except ExportError as error:
            rule = f"must have a {self.format.label} form after Keras has quantized it"
            raise ArgValueError("model", f"{rule}. Received: {self.model.name!r}: {error}") from error

    def _quantize_copy(self, options: Options) -> Any:
        floats = options.get("layers_in_float", ())
        try:
            copy = clone_with(self.model, lambda config: None)
            # A layer without a name in the configuration has another name in each copy, so the paths are the model's.
            pairs = zip(layer_paths(self.model), layer_paths(copy), strict=True)
            kept = {id(other) for (_, own), (_, other) in pairs if getattr(own, "path", None) in floats}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Keras warns of each layer that it does not quantize
                copy.quantize(options["mode"], filters=lambda layer: id(layer) not in kept)
        except Exception as error:  # a layer may raise any error
            raise ArgValueError(
                "model", f"must be a model that Keras quantizes. Received: {self.model.name!r}: {first_line(error)}."
            ) from error
        return copy


def _renaming(artifact: Artifact, names: Sequence[NameMatch]) -> Border | None:
    """Returns the adapter with the names of a file; None if they are the model's."""
    if not names:
        return None
    inputs = {each.artifact: each.model for each in names if each.kind == "input"}
    outputs = {each.artifact: each.model for each in names if each.kind == "output"}
    return Border(inputs=inputs, outputs={spec.name: outputs.get(spec.name, spec.name) for spec in artifact.outputs})
