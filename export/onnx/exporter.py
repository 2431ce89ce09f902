"""`export_onnx`: from a Keras model to one ONNX file that ONNX Runtime has run beside Keras."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.dependencies import require
from keras_pe.export.graph.refusals import refuse_state_and_randomness, untraceable
from keras_pe.export.graph.tracing import trace
from keras_pe.export.handover import export_elsewhere, is_elsewhere
from keras_pe.export.model.rebuild.precision import in_export_precision
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.onnx.conversion import convert
from keras_pe.export.onnx.finishing.assembly import assemble
from keras_pe.export.onnx.finishing.verification import check_file, check_graph
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.named_operations import named_operations
from keras_pe.export.onnx.recurrences import traced_as_calls
from keras_pe.export.onnx.writing import write_model
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.metadata import NOTES_KEY, describe
from keras_pe.export.publishing.staging import publish_file, staging
from keras_pe.export.runtimes.lending import onnxruntime_process
from keras_pe.protocols import Model

SELF_CONTAINED = 2**31 - 2**26  # bytes of weights: protobuf ends at 2 GiB, and the graph needs room as well


def export_onnx(
    model: Model,
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    opset_version: int = opsets.DEFAULT,
    external_data_threshold: int = SELF_CONTAINED,
    half_precision: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Artifact:
    """Exports a Keras model to ONNX.

    The file is published only after ONNX's checker and strict shape inference have passed and ONNX Runtime has returned
    from it what Keras returns, at sizes that were not traced. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`. On another backend than TensorFlow it is saved, and exported by a process of its
            own; its layers must be ones that another process can import.
        filepath: The `.onnx` file to write.
        input_signature: See `model_signature`; needed for most subclassed models.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        opset_version: The ONNX operator set, 15 to 25.
        external_data_threshold: Bytes of weights above which they are written to a file beside the model, named
            `<file>.<hash of its content>.data`. Below, the one file holds everything.
        half_precision: Export in float16. Otherwise a model in float16 or bfloat16 is exported as a float32 rebuild
            with the same weights, and a note of the artifact says so.
        progress: Called with the name of each stage when it starts.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound ONNX form; its class tells why, its attributes name the layer and the
            operator.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not an ONNX file stands at `filepath`.
        ImportError: If a package is missing.
    """
    start = time.perf_counter()
    stage = progress or (lambda name: None)
    require("export_onnx", "tensorflow", "tf2onnx", "onnx", "onnxruntime")
    if opset_version not in opsets.EXPORTED:
        first, last = opsets.EXPORTED[0], opsets.EXPORTED[-1]
        raise ValueError(f"`opset_version` must be {first} to {last}. Received: {opset_version!r}.")
    if is_elsewhere():
        options = {
            "input_signature": input_signature,
            "sizes": sizes,
            "opset_version": opset_version,
            "external_data_threshold": external_data_threshold,
            "half_precision": half_precision,
            "progress": progress,
        }
        return export_elsewhere("export_onnx", Format.ONNX, model, filepath, options)
    destination = check_destination(filepath, Format.ONNX)

    stage("signature")
    layers, input_signature, notes = in_export_precision(model, input_signature, half_precision, Format.ONNX)
    name = layers[0].name
    signature = model_signature(layers[0], input_signature, sizes=sizes)
    notes += signature.notes()
    with onnxruntime_process() as runtime:  # it starts while the model is traced
        stage("trace")
        try:
            with traced_as_calls(layers), named_operations():
                traced = trace(layers, signature)
        except Exception as error:  # a layer may raise anything where a size is not known
            raise untraceable(Format.ONNX, name, signature, error) from error
        signature = traced.signature
        refuse_state_and_randomness(traced.view, signature, traced.outputs, name, Format.ONNX, traced.updated)
        stage("convert")
        proto = convert(traced, opset_version, layers[0])
        metadata = describe(layers, signature, ["keras", "tensorflow", "tf2onnx", "onnx"], notes)
        proto, weights = assemble(proto, traced, metadata)
        stage("check")
        check_graph(proto, weights, name)
        with staging(destination) as folder:
            stage("write")
            is_external = sum(weight.nbytes for weight in weights) > external_data_threshold
            *companions, file = write_model(proto, weights, folder / destination.name, is_external)
            stage("run")
            not_compared = check_file(file, runtime, layers, signature)
            if not_compared:
                _set_notes(proto, [*notes, *not_compared])
                *companions, file = write_model(proto, weights, folder / destination.name, is_external)
            stage("publish")
            publish_file(file, companions, destination)
    return dataclasses.replace(read_artifact(destination), seconds=time.perf_counter() - start)


def _set_notes(proto: Any, notes: Sequence[str]) -> None:
    """Replaces the notes of a model."""
    for entry in proto.metadata_props:
        if entry.key == NOTES_KEY:
            entry.value = json.dumps(list(notes))
