"""`export_litert`: a LiteRT file of built-in operators only, so that every interpreter can run it."""

import os
import re
import time
from pathlib import Path
from typing import Any

from keras_pe.export.artifact import Artifact
from keras_pe.export.destination import check_destination
from keras_pe.export.errors import ExportError, joined
from keras_pe.export.metadata import describe
from keras_pe.export.precision import in_export_precision
from keras_pe.export.publishing import publish_file, staging
from keras_pe.export.requirements import require, require_tensorflow_backend
from keras_pe.export.signature import Signature, model_signature

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


def export_litert(model: Any, filepath: str | os.PathLike[str], *, input_signature: Any = None) -> Artifact:
    """Exports a Keras model to LiteRT, one of half precision as a float32 rebuild of it.

    The file is published only after LiteRT's interpreter has opened it, which has no other operators than the built-in
    ones. Until then, and if anything fails, what stood at `filepath` stays.

    Args:
        model: A built `keras.Model` on the TensorFlow backend.
        filepath: The `.tflite` file to write.
        input_signature: See `model_signature`; needed for most subclassed models.

    Returns:
        What was written. LiteRT files have no names of dimensions: those of the artifact are the model's.

    Raises:
        ExportError: If the model has no sound form of built-in operators; the message names the operator.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a LiteRT file stands at `filepath`.
        ImportError: If a package is missing.
    """
    start = time.perf_counter()
    require("export_litert", "tensorflow")
    require("export_litert", "ai_edge_litert", extra="export,litert")
    require_tensorflow_backend("export_litert")
    destination = check_destination(Path(filepath), "litert")
    model, notes = in_export_precision(model, False, "LiteRT")
    signature = model_signature(model, input_signature)

    from keras_pe.export.onnx.refusals import refuse_state_and_randomness
    from keras_pe.export.saved_model import write_saved_model
    from keras_pe.export.tracing import trace

    refuse_state_and_randomness(trace(model, signature), model, "LiteRT")
    with staging(destination) as folder:
        write_saved_model(model, signature, folder / "saved_model")
        content = _convert(folder / "saved_model", model)
        _open(content, signature, model.name)
        made = folder / destination.name
        made.write_bytes(content)
        publish_file(made, [], destination)
    return Artifact(
        format="litert",
        path=destination,
        inputs=signature.inputs,
        outputs=signature.outputs,
        size=len(content),
        seconds=time.perf_counter() - start,
        notes=tuple(notes),
        metadata=describe(model, signature, ["keras", "tensorflow"]),
    )


def _convert(saved_model: Path, model: Any) -> bytes:
    import tensorflow as tf

    from keras_pe.export.inspection import describe_place

    converter = tf.lite.TFLiteConverter.from_saved_model(str(saved_model), signature_keys=["serving_default"])
    try:
        content: bytes = converter.convert()
    except Exception as error:  # the converter's own error, and whatever its passes raise
        found = list(dict.fromkeys(_CULPRIT.findall(str(error))))
        sentences = [f"operator {kind!r} of {describe_place(path, model)} has no LiteRT form." for kind, path in found]
        sentences += dict.fromkeys(_WAYS_AROUND[kind] for kind, _ in found if kind in _WAYS_AROUND)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = joined(sentences or [f"the conversion failed: {lines[0]}."])
        raise ExportError("LiteRT", model.name, reason) from error
    return content


def _open(content: bytes, signature: Signature, name: str) -> None:
    """Opens the file in the interpreter and compares what it takes and returns with the signature."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        interpreter = Interpreter(model_content=content)
        interpreter.allocate_tensors()
        runner = interpreter.get_signature_runner()
    except (RuntimeError, ValueError) as error:
        raise ExportError("LiteRT", name, f"the interpreter does not open the file: {error}.") from error
    found = (set(runner.get_input_details()), set(runner.get_output_details()))
    wanted = ({spec.name for spec in signature.inputs}, {spec.name for spec in signature.outputs})
    if found != wanted:
        raise ExportError("LiteRT", name, f"the file has the inputs and outputs {found}, the model {wanted}.")
