"""The format LiteRT: a file that contains only built-in operators, so every interpreter can run it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format, description_to_json
from keras_pe.export.artifacts.litert_file import SIGNATURE
from keras_pe.export.artifacts.litert_merging import add_descriptions
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.rewrite import unfused_texts
from keras_pe.export.artifacts.target_layers import TARGET_KEY, target_to_json
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import RuntimeFailedError, UnsupportedError, join_sentences
from keras_pe.export.formats.litert_devices import device_notes, refuse_operators, rewritten_operators, target_layers
from keras_pe.export.formats.litert_numbers import SHORT_FLOATS
from keras_pe.export.formats.litert_rewrites import rewritten, with_lstm_operators
from keras_pe.export.formats.litert_targets import DATE, TARGETS
from keras_pe.export.graph.graph_queries import GraphView, refuse_state_and_randomness
from keras_pe.export.graph.trace_with_variables import Endpoint
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.pipeline.smoke_test import Checked, check_artifact
from keras_pe.export.pipeline.target_format import Converted, TargetFormat, Traced
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.shared_workers import tensorflow_process
from keras_pe.export.runtimes.worker import Worker

_PRODUCTS_OF_INTEGERS = (
    "LiteRT multiplies no int8 tensors as Keras quantizes them: the weights are int8, and are multiplied as float32."
)

# The converter's message for an operator that it cannot write: the operator's type, and its path in the graph.
_CULPRIT = re.compile(r'error: loc\((?:fused\[)?(?:callsite\()?fused\["(\w+):", "([^"@]+)')

# Advice by a pattern of operator types. The first pattern that matches applies.
_WAYS_AROUND = {
    "TensorList.*|While": (
        "Collect the rows of a loop with keras.ops.scan or keras.ops.map, or fix the batch in `input_signature`."
    ),
    "Complex": "Return the real and the imaginary part of a complex tensor: LiteRT has no complex tensors.",
    "I?R?FFT.*": "Fix the length of a Fourier transform in `input_signature`, to 2048 at most.",
    "Cholesky|Eig|.*Determinant|Matrix(Inverse|.*Solve)|Qr|SelfAdjointEig.*|Svd": (
        "Precompute a decomposition where it is of weights, or leave it to the caller."
    ),
    "AsString|.*HashBucket.*|.*HashTable.*|LookupTable.*|Ragged.*|SparseCross.*|StaticRegex.*|String.*": (
        "Look texts and keys up before the model, which then takes the indices."
    ),
    "Erf": "LiteRT has the error function in GELU alone: use keras.ops.gelu with `approximate=False`, or a tanh.",
    "Bessel.*|Digamma|Erfinv|I?Gamma.*|Lgamma|NextAfter|Polygamma|Zeta": "Use functions with an elementary form.",
    "Cumprod": "Fix the length of the axis of keras.ops.cumprod in `input_signature`.",
    "InTopK.*": "Return the scores, and leave metrics to the caller.",
    "LeftShift": "Shift by a constant.",
    "Tan": "Divide keras.ops.sin by keras.ops.cos. Near a pole, the rounding of the cosine changes the quotient.",
    "Abs|Add(V2)?|BatchMatMulV2|Ceil|Cos|Div|Exp|Floor(Div|Mod)?|Invert|Log|MatMul|Max(imum)?|Mean|Min(imum)?|Mul|Neg|"
    "Pow|Prod|RealDiv|Round|Rsqrt|Sin|Sqrt|Square|Sub|Sum|Tanh": (
        "LiteRT computes it in other types: cast its inputs to float32, or integers to int32."
    ),
    ".*": "Write it with other operations of keras.ops, or use `export_onnx` or `export_saved_model`.",
}


def litert_format(target: str | None = None) -> TargetFormat:
    """Returns LiteRT as a format of exports.

    Args:
        target: A name in `TARGETS`; None for a file that need not suit a device.
    """
    packages = ("keras", "tensorflow")
    extras = {**dict.fromkeys(packages, "export"), "ai_edge_litert": "export,litert"}
    trace = partial(trace_model, target=target)
    return TargetFormat("export_litert", Format.LITERT, extras, packages, tensorflow_process, trace, "float32")


def trace_model(layers: Sequence[Any], signature: Signature, target: str | None = None) -> Traced:
    """Traces a model.

    Args:
        layers: The model, then every layer in it.
        signature: The signature of the model.
        target: See `litert_format`.

    Raises:
        TracingError: If Keras cannot trace the model.
        UnsupportedError: If the model has state or randomness.
    """
    recurrences = "fast" if target is None else TARGETS[target].recurrences
    name = layers[0].name
    endpoint = Endpoint(layers, signature, Format.LITERT, recurrences, has_fourier=target is None)
    refuse_state_and_randomness(endpoint.view, endpoint.signature, endpoint.outputs, name, Format.LITERT)
    has_integers = any(getattr(layer, "quantization_mode", None) == "int8" for layer in layers)
    notes = (_PRODUCTS_OF_INTEGERS,) if has_integers else ()
    signature = endpoint.signature
    if target is not None:
        outputs = [replace(each, dtype="float32") if each.dtype in SHORT_FLOATS else each for each in signature.outputs]
        signature = replace(signature, outputs=tuple(outputs))
    return Traced(signature, endpoint.view, partial(_convert, endpoint, name, target), _check, notes)


def _convert(endpoint: Endpoint, name: str, target: str | None, file: Path, process: Worker) -> Converted:
    folder = file.with_name(f"{file.name}.saved_model")
    endpoint.write(folder)
    try:
        process.call(convert_saved_model, str(folder), str(file), endpoint.keys)
    except RuntimeFailedError as error:  # an operator has no LiteRT form, or the converter ended its process
        raise _name_culprits(endpoint.view, name, str(error)) from error
    content = file.read_bytes()
    unfused = endpoint.unfused.rewrites(endpoint.view.layer_path)
    if target is None:
        content = with_lstm_operators(content)
        notes = device_notes(read_operators(content), endpoint.view)
        return Converted(partial(_write, content), notes, unfused_texts(unfused), tuple(unfused))
    device = TARGETS[target]
    converted, content = content, rewritten(content, device, endpoint.paths)
    operators = read_operators(content)
    rewrites = rewritten_operators(read_operators(converted), operators, endpoint.view)
    refuse_operators(operators, device, endpoint.view, name)
    layers = target_layers(operators, device, endpoint.view)
    note = f"Every operator is in the lists of {DATE} for the {device.device}."
    texts = {TARGET_KEY: target_to_json(target, layers), **unfused_texts(unfused)}
    return Converted(partial(_write, content), (note,), texts, (*rewrites, *unfused))


def convert_saved_model(folder: str, file: str, keys: Sequence[str] = (SIGNATURE,)) -> None:
    """Converts a SavedModel to a LiteRT file. A child process runs this function: the converter may end its process."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[*keys])
    Path(file).write_bytes(converter.convert())


def _write(content: bytes, file: Path, artifact: Artifact) -> list[Path]:
    file.write_bytes(add_descriptions(content, {SIGNATURE: description_to_json(artifact)}))
    return []


def _check(file: Path, process: Worker, reference: KerasReference) -> Checked:
    return check_artifact(file, process, reference, Format.LITERT, spec=find_runtimes("litert")[0])


def _name_culprits(view: GraphView, name: str, message: str) -> UnsupportedError:
    """Returns an error that names the operators on which the converter stopped."""
    found = list(dict.fromkeys(_CULPRIT.findall(message)))
    sentences = [f"operator {kind!r} of {view.place(path)} has no LiteRT form." for kind, path in found]
    sentences += dict.fromkeys(map(_way_around, (kind for kind, _ in found)))
    reason = join_sentences(sentences or [f"the conversion failed: {message.strip().splitlines()[0]}."])
    kind, path = found[0] if found else (None, "")
    return UnsupportedError(Format.LITERT, name, reason, operator=kind, **view.location(path))


def _way_around(operator: str) -> str:
    """Returns a sentence with a replacement for an operator."""
    return next(way for pattern, way in _WAYS_AROUND.items() if re.fullmatch(pattern, operator))
