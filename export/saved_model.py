"""`export_saved_model`: a TensorFlow SavedModel with named inputs and outputs and each weight once."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format, description_to_json
from keras_pe.export.artifacts.reading import SIDECAR
from keras_pe.export.comparison.inputs.cases import GivenInputs
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.exporting import TargetFormat, TracedModel, export
from keras_pe.export.graph.endpoint import Endpoint
from keras_pe.export.graph.tensorflow_internals import op_libraries
from keras_pe.export.graph.view import GraphView
from keras_pe.export.model.border import Border
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.request import Request
from keras_pe.export.runtimes.lending import tensorflow_process
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.smoke_test import Checked, check_artifact
from keras_pe.protocols import Model


def export_saved_model(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to a SavedModel with the signature `serving_default`.

    The folder is published only after TensorFlow has loaded it, without the code of any layer, and it has returned what
    Keras returns, or has run if its calls depend on those before. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The folder to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's. The artifact records the border, and a check reads it there.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound form.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a SavedModel stands at `filepath`.
        ImportError: If a package is missing.
    """
    packages = ("keras", "tensorflow")
    extras = dict.fromkeys(packages, "export")
    target = TargetFormat("export_saved_model", Format.SAVED_MODEL, extras, packages, tensorflow_process, _Traced)
    return export(target, Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress))


class _Traced(TracedModel):
    """A model on its way to the folder."""

    def __init__(self, layers: Sequence[Any], signature: Signature) -> None:
        self._endpoint = Endpoint(layers, signature, Format.SAVED_MODEL)
        super().__init__(self._endpoint.signature, self._endpoint.view, _state(self._endpoint.view))

    def convert(self, file: Path, process: Worker) -> None:
        self._endpoint.write(file)

    def write(self, file: Path, artifact: Artifact) -> list[Path]:
        """Writes what a SavedModel cannot hold: names of dimensions, the order of its tensors, the metadata."""
        place = file / SIDECAR
        place.parent.mkdir(exist_ok=True)
        place.write_text(description_to_json(artifact))
        return []

    def check(self, file: Path, process: Worker, reference: KerasReference) -> Checked:
        spec = replace(find_runtimes("tensorflow")[0], options={"libraries": op_libraries()})
        is_repeatable = not self.notes
        return check_artifact(file, process, reference, Format.SAVED_MODEL, spec=spec, is_repeatable=is_repeatable)


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
