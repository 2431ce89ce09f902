"""The stages of every export: signature, trace, convert, write, check and run, publish.

A `TargetFormat` has the function that traces a model, and a `Traced` has those that make and check the file. The other
stages are equal for all formats.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import (
    ABSENT_KEY,
    BORDER_KEY,
    FIXED_KEY,
    NOTES_KEY,
    SIZES_KEY,
    STATE_KEY,
    VALUES_KEY,
    VERSION_KEY,
    Artifact,
)
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.artifacts.state import states_to_json
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.dependencies import installed_version, keras_backend, require
from keras_pe.export.errors import DisagreementError, ExportError, ForeignExitError, sentence
from keras_pe.export.model.rebuild import in_export_precision
from keras_pe.export.model.signature.declared_inputs import declared_inputs
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import dimensions_to_json
from keras_pe.export.model.watch.known_values import values_to_json
from keras_pe.export.pipeline.other_backends import export_elsewhere
from keras_pe.export.pipeline.request import Request
from keras_pe.export.pipeline.sized_trace import traced_at_sizes
from keras_pe.export.pipeline.smoke_test import Checked
from keras_pe.export.pipeline.target_format import TargetFormat, Traced, Write
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.progress import telling_stages
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.staging import publish_file, publish_folder, staged_artifact
from keras_pe.export.results import Array, Finding
from keras_pe.export.runtimes.worker import Worker
from keras_pe.version import __version__

Explain = Callable[[Worker, Path, KerasReference, Mapping[str, Array]], Finding | None]
"""Returns the finding of a parity check on some inputs: where and why an artifact differs; None if it does not."""


def export(target: TargetFormat, request: Request, explain: Explain) -> Artifact:
    """Exports a model. The destination keeps its contents until the new file has matched Keras.

    Args:
        target: The format.
        request: The arguments of the exporter. A subprocess exports a JAX or PyTorch model.
        explain: Explains a file that differs from Keras. It must be a function of a module: the subprocess imports it.
    """
    start = time.perf_counter()
    for package, extra in target.extras.items():
        require(target.exporter, package, extra=extra)
    with telling_stages(request.progress) as tell:
        request = replace(request, progress=tell)
        try:
            with foreign_code():
                artifact = _opened_and_exported(target, request, explain)
        except ForeignExitError as error:
            name = getattr(request.model, "name", str(request.model))
            raise ExportError(target.format, name, sentence(error)) from error
    return replace(artifact, seconds=time.perf_counter() - start)


def _opened_and_exported(target: TargetFormat, request: Request, explain: Explain) -> Artifact:
    request = request.open_model()
    export_here = partial(_export_here, target, explain)
    if keras_backend() != "tensorflow":
        return export_elsewhere(export_here, target.format, request)
    return export_here(request)


def _export_here(target: TargetFormat, explain: Explain, request: Request) -> Artifact:
    destination = check_destination(request.filepath, target.format)
    with target.process() as process:  # the process starts in parallel with the trace, which saves its start-up time
        request.tell("signature")
        layers, input_signature, notes = in_export_precision(
            request.model, request.input_signature, target.precision, target.format
        )
        signature = request.signature_of(layers[0], input_signature)
        request.tell("trace")
        traced = traced_at_sizes(target.trace, layers, signature, may_fix=request.may_fix)
        signature = traced.signature
        notes += [*traced.notes, *signature.notes(), *request.border_notes]
        with staged_artifact(destination) as folder:
            request.tell("convert")
            file = folder / destination.name
            converted = traced.convert(file, process)
            notes += converted.notes
            describe = partial(
                _describe_artifact, target, destination, layers, request.border_record, notes, converted.metadata
            )
            check = partial(_check_and_explain, traced, file, process, explain)
            companions = _written(request, file, converted.write, describe, check, KerasReference(layers[0], signature))
            request.tell("publish")
            if file.is_dir():
                publish_folder(file, destination)
            else:
                publish_file(file, companions, destination)
    return replace(read_artifact(destination), rewrites=converted.rewrites)


def _written(
    request: Request,
    file: Path,
    write: Write,
    describe: Callable[[Signature, Sequence[str]], Artifact],
    check: Callable[[KerasReference], Checked],
    reference: KerasReference,
) -> list[Path]:
    """Writes the file, checks the file, and compares it with the model; returns its companion files.

    The published bytes are the bytes that passed. If the run adds a note or an output size to the description, the file
    is written, checked and run again.

    Args:
        request: The arguments of the exporter.
        file: The file or folder to write.
        write: Writes the file with its description.
        describe: Returns the description for a signature and the notes of a run.
        check: Checks the file and compares it with a reference.
        reference: The model with the traced signature.

    Raises:
        ExportError: If the file is not valid, does not run, or differs from Keras.
    """
    declared, notes = reference.signature, tuple[str, ...]()
    while True:
        request.tell("write")
        if file.is_file():
            file.unlink()  # the runtime may have mapped the file into memory, so overwriting it could crash the runtime
        companions = write(file, describe(declared, notes))
        request.tell("run")
        found = check(KerasReference(reference.model, declared))
        if found.outputs == declared.outputs and set(found.notes) <= set(notes):
            return companions
        declared, notes = replace(declared, outputs=found.outputs), (*dict.fromkeys([*notes, *found.notes]),)


def _describe_artifact(
    target: TargetFormat,
    destination: Path,
    layers: Sequence[Any],
    border: str | None,
    notes: Sequence[str],
    further: Mapping[str, str],
    signature: Signature,
    found: Sequence[str],
) -> Artifact:
    """Returns the description of an artifact, without its size and time, which are unknown so far.

    A model has equal metadata in every export: they do not depend on the time, the place or the machine.

    Args:
        target: The format.
        destination: The path of the artifact.
        layers: The model, then every layer in it.
        border: The record of the adapter; None if the model has no adapter.
        notes: The known differences from the model, before a run.
        further: Further metadata.
        signature: The signature of the artifact.
        found: The notes that a run has added.
    """
    notes = [*notes, *found]
    ours = (layer for layer in layers if type(layer).__module__.startswith("keras_pe.layers."))
    values = signature.values.published
    taken = {signature.renamed.get(spec.name, spec.name) for spec in signature.inputs}
    absent = [name for name in declared_inputs(layers[0]).optional if name not in taken]
    from keras_pe.export.model.stateless import exchanged_states  # imports Keras

    states = exchanged_states(layers, signature.inputs)
    metadata = {
        **({BORDER_KEY: border} if border is not None else {}),
        **({STATE_KEY: states_to_json(states)} if states else {}),
        **({VALUES_KEY: values_to_json(values)} if values.ranges or values.examples else {}),
        **({ABSENT_KEY: json.dumps(absent)} if absent else {}),
        "keras_pe.encodings": json.dumps({layer.name: layer.get_config() for layer in ours}, sort_keys=True),
        "keras_pe.model": layers[0].name,
        "keras_pe.names": json.dumps(dict(signature.renamed), sort_keys=True),
        NOTES_KEY: json.dumps(list(notes)),
        **({FIXED_KEY: signature.fixed_sizes.to_json()} if signature.fixed_sizes is not None else {}),
        SIZES_KEY: dimensions_to_json(signature.dimensions),
        VERSION_KEY: __version__,
        **further,
        **{f"version.{package}": installed_version(package) or "" for package in sorted(target.makers)},
    }
    shapes = signature.inputs, signature.outputs
    return Artifact(target.format, destination, *shapes, nbytes=0, seconds=0.0, notes=tuple(notes), metadata=metadata)


def _check_and_explain(
    traced: Traced, file: Path, process: Worker, explain: Explain, reference: KerasReference
) -> Checked:
    """Checks a file, and compares it with Keras.

    Raises:
        DisagreementError: If the file differs from Keras. The error names the layer and the cause.
        ExportError: If the file is not valid, does not open or does not run.
    """
    try:
        return traced.check(file, process, reference)
    except DisagreementError as error:
        try:
            found = None if error.cause else explain(process, file, reference, error.inputs)
        except Exception as problem:  # A failed diagnosis must not hide the disagreement, so it becomes its cause.
            raise error from problem
        if found is None:
            raise
        operators = () if found.layer is None else traced.view.computing_operators(found.layer)
        operator = operators[0] if len(operators) == 1 else None
        evidence = found.evidence + (f" Its operator is {operator!r}." if operator else "")
        location = {"layer": found.layer, "file": found.file, "line": found.line}
        raise error.with_evidence(evidence, operator=operator, cause=found.cause, **location) from error
