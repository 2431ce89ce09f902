"""`export_litert`: a LiteRT file of built-in operators only, so that every interpreter can run it."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts import description
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.litert_file import METADATA
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.dependencies import require
from keras_pe.export.graph.endpoint import Endpoint
from keras_pe.export.graph.refusals import refuse_state_and_randomness
from keras_pe.export.handover import export_elsewhere, is_elsewhere
from keras_pe.export.litert_conversion import convert
from keras_pe.export.model.rebuild.precision import in_export_precision
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.metadata import draft
from keras_pe.export.publishing.staging import publish_file, staging
from keras_pe.export.runtimes.lending import tensorflow_process
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.smoke_test import check_artifact
from keras_pe.protocols import Model


def export_litert(
    model: Model,
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Artifact:
    """Exports a Keras model to LiteRT, one of half precision as a float32 rebuild of it.

    The file is published only after LiteRT's interpreter, which has no other operators than the built-in ones, has
    returned from it what Keras returns. Until then, and if anything fails, what stood at `filepath` stays.

    Args:
        model: A built `keras.Model`. On another backend than TensorFlow it is saved, and exported by a process of its
            own; its layers must be ones that another process can import.
        filepath: The `.tflite` file to write.
        input_signature: See `model_signature`; needed for most subclassed models.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        progress: Called with the name of each stage when it starts.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound form of built-in operators; the message names the operator.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a LiteRT file stands at `filepath`.
        ImportError: If a package is missing.
    """
    start = time.perf_counter()
    stage = progress or (lambda name: None)
    require("export_litert", "tensorflow")
    require("export_litert", "ai_edge_litert", extra="export,litert")
    if is_elsewhere():
        given = {"input_signature": input_signature, "sizes": sizes, "progress": progress}
        return export_elsewhere("export_litert", Format.LITERT, model, filepath, given)
    destination = check_destination(filepath, Format.LITERT)
    with tensorflow_process() as process:  # it starts while the model is traced
        stage("signature")
        layers, input_signature, notes = in_export_precision(model, input_signature, False, Format.LITERT)
        model = layers[0]
        signature = model_signature(model, input_signature, sizes=sizes)
        notes += signature.notes()
        stage("trace")
        endpoint = Endpoint(layers, signature, Format.LITERT)
        signature = endpoint.signature
        refuse_state_and_randomness(endpoint.view, signature, endpoint.outputs, model.name, Format.LITERT)
        artifact = draft(Format.LITERT, destination, layers, signature, notes)
        with staging(destination) as folder:
            stage("convert")
            endpoint.write(folder / "saved_model")
            made = folder / destination.name
            convert(process, folder / "saved_model", made, model.name, endpoint.view)
            stage("write")
            converted = made.read_bytes()
            nbytes = made.write_bytes(_described(converted, description.to_json(artifact)))
            stage("run")
            reference = KerasReference(model, signature)
            found = check_artifact(made, process, reference, Format.LITERT, spec=find_runtimes("litert")[0])
            if found:
                artifact = draft(Format.LITERT, destination, layers, signature, (*notes, *found))
                nbytes = made.write_bytes(_described(converted, description.to_json(artifact)))
            stage("publish")
            publish_file(made, [], destination)
    return dataclasses.replace(artifact, nbytes=nbytes, seconds=time.perf_counter() - start)


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
