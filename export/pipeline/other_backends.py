"""The export in a subprocess of a JAX or PyTorch model, which TensorFlow traces.

The subprocess loads the model from a `.keras` file, compares its outputs with those of the caller's model, and exports
the model.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.conventions.keras_hub_models import convert_keras_hub, is_converted
from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.usual_inputs import numbers
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import (
    DisagreementError,
    ProcessDiedError,
    UnsupportedError,
    describe,
    first_line,
    sentence,
)
from keras_pe.export.model.saved_file import local_layer, registering_modules, why_not_loaded
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import all_layers, python_code_allowed
from keras_pe.export.pipeline.request import Request
from keras_pe.export.pipeline.smoke_test import ask_keras, describe_faults, find_faults, policy_of
from keras_pe.export.processes.child_loop import note
from keras_pe.export.processes.process import Child
from keras_pe.export.processes.temporary_folder import TemporaryFolder
from keras_pe.export.runtimes.runtime import Arrays

_CHILD = "the process on the TensorFlow backend"
_WAY_OUT = (
    "Put it into a module that can be imported, registered with keras.saving.register_keras_serializable(), or set "
    "KERAS_BACKEND=tensorflow here."
)


def export_elsewhere(export_here: Callable[[Request], Artifact], format: Format, request: Request) -> Artifact:
    """Exports a model with a subprocess, in which Keras runs on TensorFlow.

    Args:
        export_here: A picklable function that exports a model on TensorFlow. The subprocess calls it.
        format: The format of the artifact.
        request: The arguments of the exporter, with a built `keras.Model` on any backend.

    Returns:
        The artifact of the exporter.

    Raises:
        UnsupportedError: If the class of a layer cannot be imported, the model cannot be saved, or the subprocess ended
            or cannot load the model.
        Exception: Any error of the exporter.
    """
    model: Any = request.model
    request.tell("signature")
    signature = request.signature_of(model, request.input_signature)
    layers = all_layers(model)
    if (local := local_layer(layers)) is not None:
        reason = (
            f"a subprocess on the TensorFlow backend must load the model, and cannot import the class "
            f"{type(local).__qualname__} of layer {local.name!r}. {_WAY_OUT}"
        )
        raise UnsupportedError(format, model.name, reason, layer=local.name)
    # One draw is not enough: a value near a jump of a function may round to either side of it.
    expect = KerasReference(model, signature).expect
    samples = [ask_keras(expect, numbers(signature, signature.sizes, seed)) for seed in range(2)]
    request.tell("hand over")
    with TemporaryFolder() as folder, Child(f"{__name__}:Exporting", environment=_environment(), name=_CHILD) as child:
        saved = folder.path / "model.keras"
        try:
            model.save(saved)
        except Exception as error:  # the configuration of a layer may raise any error
            reason = f"it cannot be saved for the TensorFlow backend: {first_line(error)}."
            raise UnsupportedError(format, model.name, reason) from error
        kept = {name: getattr(request, name) for name in ("border_record", "border_notes", "may_fix")}
        given = Request(saved, Path(request.filepath).absolute(), signature, **kept)
        modules = registering_modules(saved)
        try:
            artifact: Artifact = child.ask(
                "export",
                export_here,
                format,
                model.name,
                given,
                modules,
                is_converted(model),
                samples,
                on_note=request.tell,
            )
        except ProcessDiedError as error:
            raise UnsupportedError(format, model.name, sentence(error)) from None
    return artifact


def _environment() -> dict[str, str]:
    return {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")}


class Exporting:
    """The object that the subprocess creates and the caller sends requests to."""

    def export(
        self,
        export_here: Callable[[Request], Artifact],
        format: Format,
        name: str,
        request: Request,
        modules: Sequence[str],
        converted: bool,
        samples: list[tuple[Case, Arrays]],
    ) -> Artifact:
        """Exports the model after checking that the reloaded copy matches the original."""
        try:
            model = _load_saved(request, modules)
        except ValueError as error:
            raise UnsupportedError(format, name, f"{_CHILD} cannot load it: {error}") from error
        request = replace(request, model=model, progress=note)
        if converted:
            convert_keras_hub(request.model)
        _compare(request.model, request.input_signature, samples, format)
        return export_here(request)


def _load_saved(request: Request, modules: Sequence[str]) -> Any:
    """Returns the model that the caller has saved.

    Raises:
        ValueError: If this process cannot load the model. The message states the reason and the way out.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:  # a module may raise anything, or call `sys.exit`
            raise ValueError(
                f"its module {module!r} cannot be imported there ({describe(error)}). {_WAY_OUT}"
            ) from error
    with python_code_allowed():  # the code is the caller's own, and has already run in the caller's process
        try:
            return request.load_model_file()
        except ValueError as error:
            raise ValueError(why_not_loaded(error.__cause__ or error, Path(str(request.model)), _WAY_OUT)) from error


def _compare(model: Any, signature: Signature, samples: list[tuple[Case, Arrays]], format: Format) -> None:
    """Raises DisagreementError unless the loaded model matches the caller's model."""
    reference = KerasReference(model, signature)
    policy = policy_of(reference)
    for case, outputs in samples:
        answers = reference.expect(case.inputs)
        faults = find_faults(reference, policy, case, answers, outputs)
        if not faults:
            return
    faults_text = describe_faults(faults, policy, answers, outputs)
    reason = f"the copy that Keras loaded on the TensorFlow backend differs from the model: {faults_text}"
    raise DisagreementError(format, model.name, reason, case=case.name, inputs=case.inputs)
