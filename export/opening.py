"""Reads an artifact back from disk: what it takes and returns, and what it says about itself."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifact import Artifact, TensorSpec

SIDECAR = Path("assets.extra") / "keras_pe.json"  # TensorFlow leaves this folder of a SavedModel to its users


def open_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Returns what an exporter returned, from the file or folder alone; an ONNX file needs no TensorFlow.

    An artifact of another exporter opens too. Then the names of dynamic dimensions may say nothing.

    Args:
        path: An ONNX or LiteRT file, or the folder of a SavedModel.

    Returns:
        The artifact, with `seconds=0.0` because nothing was exported.

    Raises:
        FileNotFoundError: If there is nothing at `path`.
        ValueError: If it is none of these, or cannot be read.
    """
    place = Path(path)
    if not place.exists():
        raise FileNotFoundError(f"There is no artifact at {str(place)!r}.")
    if place.is_dir():
        if not (place / "saved_model.pb").is_file():
            raise ValueError(f"`path` must be an artifact. Received: {str(place)!r}, a folder without saved_model.pb.")
        return _open_saved_model(place)
    with place.open("rb") as file:
        is_litert = file.read(8)[4:8] == b"TFL3"
    return _open_litert(place) if is_litert else _open_onnx(place)


def write_sidecar(folder: Path, artifact: Artifact) -> None:
    """Writes what a SavedModel cannot hold itself: the names of dimensions, the order of its tensors, the metadata."""
    place = folder / SIDECAR
    place.parent.mkdir()
    specs = {key: [asdict(spec) for spec in getattr(artifact, key)] for key in ("inputs", "outputs")}
    content = {**specs, "notes": list(artifact.notes), "metadata": dict(artifact.metadata)}
    place.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def _open_onnx(path: Path) -> Artifact:
    from keras_pe.export.onnx.reading import read_without_weights

    try:
        model = read_without_weights(path)
    except ValueError as error:
        raise ValueError(f"`path` must be an artifact. {error}") from error
    if not model.graph.output:
        raise ValueError(f"`path` must be an artifact. Received: {str(path)!r}, an ONNX file without outputs.")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    weights = {tensor.name for tensor in model.graph.initializer}
    locations = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    files = {path, *(path.with_name(location) for location in locations)}
    return Artifact(
        format="onnx",
        path=path,
        inputs=tuple(_onnx_spec(value) for value in model.graph.input if value.name not in weights),
        outputs=tuple(_onnx_spec(value) for value in model.graph.output),
        size=sum(file.stat().st_size for file in files if file.exists()),
        seconds=0.0,
        opset=next((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), None),
        notes=tuple(json.loads(metadata.get("keras_pe.notes", "[]"))),
        metadata=metadata,
    )


def _onnx_spec(value: Any) -> TensorSpec:
    from onnx import helper

    tensor = value.type.tensor_type
    shape = (
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}_axis_{axis}"
        for axis, dim in enumerate(tensor.shape.dim)
    )
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return TensorSpec(value.name, tuple(shape), "string" if dtype == np.dtype(object) else dtype.name)


def _open_saved_model(path: Path) -> Artifact:
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if (path / SIDECAR).is_file():
        known = json.loads((path / SIDECAR).read_text())
        inputs, outputs = (
            tuple(TensorSpec(spec["name"], tuple(spec["shape"]), spec["dtype"]) for spec in known[key])
            for key in ("inputs", "outputs")
        )
        notes = tuple(known["notes"])
        return Artifact("tf_saved_model", path, inputs, outputs, size, 0.0, None, notes, known["metadata"])
    import tensorflow as tf

    signatures = tf.saved_model.load(path).signatures
    if "serving_default" not in signatures:
        raise ValueError(
            f"`path` must have the signature 'serving_default'. Received: {str(path)!r}, {list(signatures)}."
        )
    served = signatures["serving_default"]
    inputs = tuple(_tensorflow_spec(name, spec) for name, spec in served.structured_input_signature[1].items())
    outputs = tuple(_tensorflow_spec(name, spec) for name, spec in served.structured_outputs.items())
    return Artifact("tf_saved_model", path, inputs, outputs, size, 0.0)


def _tensorflow_spec(name: str, spec: Any) -> TensorSpec:
    shape = (f"{name}_axis_{axis}" if dim is None else int(dim) for axis, dim in enumerate(spec.shape))
    return TensorSpec(name, tuple(shape), spec.dtype.name)


def _open_litert(path: Path) -> Artifact:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_path=str(path)).get_signature_runner()
    inputs, outputs = (
        tuple(
            TensorSpec(
                name,
                tuple(f"{name}_axis_{i}" if dim < 0 else int(dim) for i, dim in enumerate(found["shape_signature"])),
                np.dtype(found["dtype"]).name,
            )
            for name, found in details.items()
        )
        for details in (runner.get_input_details(), runner.get_output_details())
    )
    return Artifact("litert", path, inputs, outputs, path.stat().st_size, 0.0)
