"""A model on another backend than TensorFlow: handed over to a child process that has Keras on TensorFlow.

Exporters trace with TensorFlow. The child loads the model from a `.keras` file, must return what the caller's own model
returns, and exports it.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.comparison.faults import describe_faults, find_faults
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.plain import numbers
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import DisagreementError, ProcessDiedError, UnsupportedError
from keras_pe.export.messages import first_line
from keras_pe.export.model.rebuild.registered import local_layer, registering_modules
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.processes.child import Child
from keras_pe.export.processes.room import Room
from keras_pe.export.processes.serve import note
from keras_pe.export.runtimes.runtime import Arrays
from keras_pe.export.smoke_test import ask_keras, law_of

_CHILD = "the process on the TensorFlow backend"


def is_elsewhere() -> bool:
    """Returns whether Keras runs on another backend than TensorFlow."""
    import keras

    return bool(keras.backend.backend() != "tensorflow")


def export_elsewhere(
    exporter: str, format: Format, model: Any, filepath: str | os.PathLike[str], options: Mapping[str, Any]
) -> Artifact:
    """Exports a model with another process, in which Keras runs on TensorFlow.

    Args:
        exporter: The exporter's name in `keras_pe.export`.
        format: Its format.
        model: A built `keras.Model` on any backend.
        filepath: Where the artifact will stand.
        options: The exporter's other arguments.

    Returns:
        What the exporter returned.

    Raises:
        UnsupportedError: If the model has layers that only this process knows, cannot be saved, or the other process
            ended.
        Exception: What the exporter raised.
    """
    options = dict(options)
    stage = options.pop("progress", None) or (lambda name: None)
    stage("signature")
    signature = model_signature(model, options.pop("input_signature", None), sizes=options.pop("sizes", None))
    layers = all_layers(model)
    if (local := local_layer(layers)) is not None:
        reason = (
            f"its layer {local.name!r} ({type(local).__qualname__}) is known in this process only, and the model must "
            "be loaded in another, on the TensorFlow backend. Put the class into a module, registered with "
            "keras.saving.register_keras_serializable(), or set KERAS_BACKEND=tensorflow here."
        )
        raise UnsupportedError(format, model.name, reason, layer=local.name)
    # Two draws: a value next to where a function jumps may fall on either side.
    expect = KerasReference(model, signature).expect
    samples = [ask_keras(expect, numbers(signature, signature.sizes, seed)) for seed in range(2)]
    stage("hand over")
    with Room() as room, Child(f"{__name__}:Exporting", environment=_environment(), name=_CHILD) as child:
        saved = room.path / "model.keras"
        try:
            model.save(saved)
        except Exception as error:  # whatever a layer's configuration raises
            reason = f"it cannot be saved for the TensorFlow backend: {first_line(error)}."
            raise UnsupportedError(format, model.name, reason) from error
        options["input_signature"] = signature
        to = str(Path(filepath).absolute())
        try:
            artifact: Artifact = child.ask(
                "export", exporter, format, saved, registering_modules(saved), to, options, samples, told=stage
            )
        except ProcessDiedError as error:
            raise UnsupportedError(format, model.name, f"{error}.") from None
    return artifact


def _environment() -> dict[str, str]:
    return {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")}


class Exporting:
    """What stands in the child."""

    def export(
        self,
        exporter: str,
        format: Format,
        saved: Path,
        modules: Sequence[str],
        filepath: str,
        options: Mapping[str, Any],
        samples: list[tuple[Case, Arrays]],
    ) -> Artifact:
        """Exports the model, if it returns what it returned."""
        import keras

        import keras_pe.export

        for module in modules:
            importlib.import_module(module)
        model = keras.saving.load_model(saved, compile=False)
        _compare(model, options["input_signature"], samples, format)
        artifact: Artifact = getattr(keras_pe.export, exporter)(model, filepath, **options, progress=note)
        return artifact


def _compare(model: Any, signature: Signature, samples: list[tuple[Case, Arrays]], format: Format) -> None:
    """Raises DisagreementError unless the loaded model returns what the caller's own returned."""
    reference = KerasReference(model, signature)
    law = law_of(reference)
    for case, outputs in samples:
        answers = reference.expect(case.inputs)
        faults = find_faults(reference, law, case, answers, outputs)
        if not faults:
            return
    reason = f"loaded on the TensorFlow backend it is another: {describe_faults(faults, law, answers, outputs)}"
    raise DisagreementError(format, model.name, reason)
