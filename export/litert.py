"""`export_litert`: a LiteRT file of built-in operators only, so that every interpreter can run it."""

import dataclasses
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifact import Artifact
from keras_pe.export.dependencies import require
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.formats import Format
from keras_pe.export.graph.endpoint import Endpoint
from keras_pe.export.graph.refusals import refuse_state_and_randomness
from keras_pe.export.graph.view import GraphView
from keras_pe.export.handover import export_elsewhere, is_elsewhere
from keras_pe.export.messages import joined
from keras_pe.export.model.precision import in_export_precision
from keras_pe.export.model.signature import model_signature
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.metadata import describe
from keras_pe.export.publishing.staging import publish_file, staging
from keras_pe.export.reading import description
from keras_pe.export.reading.litert_file import METADATA
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker
from keras_pe.export.smoke_test import TIMEOUT, check_artifact
from keras_pe.protocols import Model

# How the converter names an operator that it cannot write: its type, and its path in the graph.
_CULPRIT = re.compile(r'error: loc\((?:callsite\()?fused\["(\w+):", "([^"@]+)')

_WAYS_AROUND = {
    "BitwiseAnd": "For keras.ops.argmax of floats take keras.ops.top_k(x, 1)[1], for argmin that of -x.",
    "StridedSlice": "Of an attention layer with use_causal_mask=True: pass an explicit mask of three dimensions.",
    **dict.fromkeys(
        ("TensorListReserve", "TensorListFromTensor", "TensorListStack", "While"),
        "For LSTM and GRU take unroll=True and a static length.",
    ),
}


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
        options = {
            "input_signature": input_signature,
            "sizes": sizes,
            "progress": progress,
        }
        return export_elsewhere("export_litert", Format.LITERT, model, filepath, options)
    destination = check_destination(filepath, Format.LITERT)
    stage("signature")
    layers, input_signature, notes = in_export_precision(model, input_signature, False, Format.LITERT)
    model = layers[0]
    signature = model_signature(model, input_signature, sizes=sizes)
    notes += signature.notes()
    stage("trace")
    endpoint = Endpoint(layers, signature, Format.LITERT)
    refuse_state_and_randomness(endpoint.view, model.name, Format.LITERT)
    artifact = Artifact(
        format=Format.LITERT,
        path=destination,
        inputs=signature.inputs,
        outputs=signature.outputs,
        nbytes=0,
        seconds=0.0,
        notes=tuple(notes),
        metadata=describe(layers, signature, ["keras", "tensorflow"], notes),
    )
    with Worker(find_runtimes(["litert"])[0], TIMEOUT) as runtime, staging(destination) as folder:
        stage("convert")
        endpoint.write(folder / "saved_model")
        content = _convert(folder / "saved_model", model.name, endpoint.view)
        stage("write")
        made = folder / destination.name
        nbytes = made.write_bytes(_described(content, description.to_json(artifact)))
        stage("run")
        check_artifact(made, runtime, layers, signature, Format.LITERT)
        stage("publish")
        publish_file(made, [], destination)
    return dataclasses.replace(artifact, nbytes=nbytes, seconds=time.perf_counter() - start)


def _convert(saved_model: Path, name: str, view: GraphView) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(saved_model), signature_keys=["serving_default"])
    try:
        content: bytes = converter.convert()
    except Exception as error:  # the converter's own error, and whatever its passes raise
        found = list(dict.fromkeys(_CULPRIT.findall(str(error))))
        sentences = [f"operator {kind!r} of {view.place(path)} has no LiteRT form." for kind, path in found]
        sentences += dict.fromkeys(_WAYS_AROUND[kind] for kind, _ in found if kind in _WAYS_AROUND)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = joined(sentences or [f"the conversion failed: {lines[0]}."])
        path, kind = found[0] if found else ("", None)
        raise UnsupportedError(Format.LITERT, name, reason, layer=view.layer(path), operator=kind) from error
    return content


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
