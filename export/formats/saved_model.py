"""The format SavedModel: a folder with named inputs and outputs that stores each weight once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format, description_to_json
from keras_pe.export.artifacts.read_artifact import SIDECAR
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.graph.tensorflow_internals import op_libraries
from keras_pe.export.graph.trace_with_variables import Endpoint
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.pipeline.smoke_test import Checked, check_artifact
from keras_pe.export.pipeline.target_format import Converted, TargetFormat, Traced
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.shared_workers import tensorflow_process
from keras_pe.export.runtimes.worker import Worker


def saved_model_format() -> TargetFormat:
    """Returns the SavedModel as a format of exports."""
    packages = ("keras", "tensorflow")
    extras = dict.fromkeys(packages, "export")
    return TargetFormat("export_saved_model", Format.SAVED_MODEL, extras, packages, tensorflow_process, trace_model)


def trace_model(layers: Sequence[Any], signature: Signature) -> Traced:
    """Traces a model. State and randomness are allowed; a note reports them.

    Raises:
        TracingError: If Keras cannot trace the model.
    """
    endpoint = Endpoint(layers, signature, Format.SAVED_MODEL)
    notes = _state(endpoint.view)
    check = partial(_check, not notes)
    return Traced(endpoint.signature, endpoint.view, partial(_convert, endpoint), check, notes)


def _convert(endpoint: Endpoint, file: Path, process: Worker) -> Converted:
    endpoint.write(file)
    return Converted(_describe)


def _describe(file: Path, artifact: Artifact) -> list[Path]:
    """Writes a file with the names of dimensions, the order of tensors and the metadata: SavedModels lack these."""
    place = file / SIDECAR
    place.parent.mkdir(exist_ok=True)
    place.write_text(description_to_json(artifact))
    return []


def _check(is_repeatable: bool, file: Path, process: Worker, reference: KerasReference) -> Checked:
    spec = replace(find_runtimes("tensorflow")[0], options={"libraries": op_libraries()})
    return check_artifact(file, process, reference, Format.SAVED_MODEL, spec=spec, is_repeatable=is_repeatable)


def _state(view: GraphView) -> tuple[str, ...]:
    """Returns a sentence for each kind of state that the graph keeps between calls."""
    kinds = (
        (view.random_operators(), "draws random numbers"),
        (view.assigning_operators(), "changes a variable"),
    )
    return tuple(
        f"A call depends on those before it: {view.place(path)} {what} (operator {operator!r})."
        for found, what in kinds
        for path, operator in found[:1]
    )
