"""The conversion of a SavedModel to LiteRT, in a child process: on some graphs the converter aborts."""

import re
from pathlib import Path

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import RuntimeFailedError, UnsupportedError
from keras_pe.export.graph.view import GraphView
from keras_pe.export.messages import joined
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import RuntimeSpec

# How the converter names an operator that it cannot write: its type, and its path in the graph.
_CULPRIT = re.compile(r'error: loc\((?:callsite\()?fused\["(\w+):", "([^"@]+)')

_WAYS_AROUND = {
    **dict.fromkeys(
        ("TensorListReserve", "TensorListFromTensor", "TensorListStack", "While"),
        "Collect the rows of a loop with keras.ops.scan or keras.ops.map, or fix the batch in `input_signature`.",
    ),
}


def convert(process: Worker, saved_model: Path, file: Path, name: str, view: GraphView) -> None:
    """Writes the LiteRT file of a SavedModel.

    Args:
        process: One with TensorFlow.
        saved_model: The folder.
        file: What to write.
        name: The model's name, for the error.
        view: The model's graph, for the error.

    Raises:
        UnsupportedError: If there is no form of built-in operators, or the converter does not survive the attempt.
    """
    factory = f"{__name__}:Converter"
    spec = RuntimeSpec("converter", "tf_saved_model", factory, "tensorflow", "-", {"target": str(file)})
    try:
        process.load(saved_model, spec)
    except RuntimeFailedError as error:
        found = list(dict.fromkeys(_CULPRIT.findall(str(error))))
        sentences = [f"operator {kind!r} of {view.place(path)} has no LiteRT form." for kind, path in found]
        sentences += dict.fromkeys(_WAYS_AROUND[kind] for kind, _ in found if kind in _WAYS_AROUND)
        reason = joined(sentences or [f"the conversion failed: {str(error).strip().splitlines()[0]}."])
        path, kind = found[0] if found else ("", None)
        raise UnsupportedError(Format.LITERT, name, reason, layer=view.layer(path), operator=kind) from error


class Converter:
    """TensorFlow's converter in the child process, as if it were a runtime: to load a folder is to convert it."""

    inputs: tuple[TensorInfo, ...] = ()

    def __init__(self, path: str, target: str) -> None:
        import tensorflow as tf

        converter = tf.lite.TFLiteConverter.from_saved_model(path, signature_keys=["serving_default"])
        Path(target).write_bytes(converter.convert())
        self.version = f"tensorflow {tf.__version__}"
