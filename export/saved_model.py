"""`export_saved_model`: a TensorFlow SavedModel with named inputs and outputs and each weight once."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts import description
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.saved_model_folder import SIDECAR
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.dependencies import require
from keras_pe.export.graph.endpoint import Endpoint
from keras_pe.export.graph.tensorflow_internals import op_libraries
from keras_pe.export.graph.view import GraphView
from keras_pe.export.handover import export_elsewhere, is_elsewhere
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.metadata import draft
from keras_pe.export.publishing.staging import publish_folder, staging
from keras_pe.export.runtimes.lending import tensorflow_process
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.smoke_test import check_artifact
from keras_pe.protocols import Model


def export_saved_model(
    model: Model,
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Artifact:
    """Exports a Keras model to a SavedModel with the signature `serving_default`.

    The folder is published only after TensorFlow has loaded it, without the code of any layer, and it has returned what
    Keras returns, or has run if its calls depend on those before. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`. On another backend than TensorFlow it is saved, and exported by a process of its
            own; its layers must be ones that another process can import.
        filepath: The folder to write.
        input_signature: See `model_signature`; needed for most subclassed models.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        progress: Called with the name of each stage when it starts.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound form.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a SavedModel stands at `filepath`.
        ImportError: If a package is missing.
    """
    start = time.perf_counter()
    stage = progress or (lambda name: None)
    require("export_saved_model", "tensorflow")
    if is_elsewhere():
        given = {"input_signature": input_signature, "sizes": sizes, "progress": progress}
        return export_elsewhere("export_saved_model", Format.SAVED_MODEL, model, filepath, given)
    destination = check_destination(filepath, Format.SAVED_MODEL)
    with tensorflow_process() as process:  # it starts while the model is traced
        stage("signature")
        layers = all_layers(model)
        signature = model_signature(model, input_signature, sizes=sizes)
        stage("trace")
        endpoint = Endpoint(layers, signature, Format.SAVED_MODEL)
        signature = endpoint.signature
        state = _state(endpoint.view)
        notes = (*state, *signature.notes())
        artifact = draft(Format.SAVED_MODEL, destination, layers, signature, notes)
        with staging(destination) as folder:
            made = folder / destination.name
            stage("write")
            endpoint.write(made)
            _write_sidecar(made, artifact)
            stage("run")
            spec = dataclasses.replace(find_runtimes("tensorflow")[0], options={"libraries": op_libraries()})
            reference = KerasReference(layers[0], signature)
            found = check_artifact(made, process, reference, Format.SAVED_MODEL, spec=spec, is_repeatable=not state)
            if found:
                artifact = draft(Format.SAVED_MODEL, destination, layers, signature, (*notes, *found))
                _write_sidecar(made, artifact)
            nbytes = sum(file.stat().st_size for file in made.rglob("*") if file.is_file())
            stage("publish")
            publish_folder(made, destination)
    return dataclasses.replace(artifact, nbytes=nbytes, seconds=time.perf_counter() - start)


def _state(view: GraphView) -> tuple[str, ...]:
    """Returns a sentence on each kind of state that the graph keeps from call to call."""
    kinds = (
        (view.random_operators(), "draws random numbers"),
        (view.assigning_operators(), "changes a variable"),
    )
    return tuple(
        f"A call depends on those before it: {view.place(path)} {what} (operator {operator!r})."
        for found, what in kinds
        for path, operator in found[:1]
    )


def _write_sidecar(folder: Path, artifact: Artifact) -> None:
    """Writes what a SavedModel cannot hold itself: the names of dimensions, the order of its tensors, the metadata."""
    place = folder / SIDECAR
    place.parent.mkdir(exist_ok=True)
    place.write_text(description.to_json(artifact))
