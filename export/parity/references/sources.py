"""Opens what a user names: models, artifacts, stored outputs, inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.artifact import Artifact
from keras_pe.export.parity.inputs.cases import Case, read_cases
from keras_pe.export.parity.inputs.roles import given_roles
from keras_pe.export.parity.inputs.sweep import sweep
from keras_pe.export.parity.references.reference import ArtifactReference, KerasReference, Reference, StoredReference
from keras_pe.export.parity.results import Array
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker

Source = str | Path | Artifact

_FORMATS = {".onnx": "onnx", ".tflite": "litert", ".keras": "keras", ".npz": "stored"}
_RUNTIMES = {"onnx": "onnxruntime[disabled]", "litert": "litert", "tf_saved_model": "saved_model"}


def locate(source: Source) -> tuple[str, Path]:
    """Returns the format and the path of a file or folder.

    Raises:
        FileNotFoundError: If it is not there.
        ValueError: If it is of no known kind.
    """
    path = Path(source.path if isinstance(source, Artifact) else source)
    if not path.exists():
        raise FileNotFoundError(f"No such file or folder: {path}.")
    if path.is_dir():
        if (path / "saved_model.pb").is_file():
            return "tf_saved_model", path
        raise ValueError(f"A folder must be a SavedModel, with a file saved_model.pb in it. Received: {path}.")
    if path.suffix not in _FORMATS:
        raise ValueError(f"A file must end in {', '.join(_FORMATS)}. Received: {path}.")
    return _FORMATS[path.suffix], path


def locate_artifact(source: Source) -> tuple[str, Path]:
    """Returns the format and the path of something that was exported.

    Raises:
        FileNotFoundError: If it is not there.
        ValueError: If it is not an artifact.
    """
    format, path = locate(source)
    if format not in _RUNTIMES:
        raise ValueError(f"`artifacts` must be .onnx or .tflite files or SavedModel folders. Received: {path}.")
    return format, path


def open_reference(model: Any, input_signature: Any, timeout: float) -> Reference:
    """Returns the reference that a model, a path or an artifact stands for."""
    if not isinstance(model, str | Path | Artifact):
        return KerasReference(model, input_signature)
    format, path = locate(model)
    if format == "keras":
        return KerasReference.load(path, input_signature)
    if format == "stored":
        case, outputs = read_cases(path)
        if not outputs:
            raise ValueError(f"Stored outputs must be arrays named outputs/NAME. Received: {path} without one.")
        return StoredReference(str(path), {case.name: (case, outputs)})
    (spec,) = find_runtimes([_RUNTIMES[format]])
    return ArtifactReference(path, Worker(spec, timeout))


def choose_cases(
    reference: Reference,
    inputs: Sequence[str | Path | Mapping[str, Array]] | None,
    ranges: Mapping[str, tuple[float, float]],
    seed: int,
) -> tuple[Case, ...]:
    """Returns the user's own cases, or else the sweep over the reference's inputs."""
    names = {spec.name for spec in reference.inputs}
    unknown = set(ranges) - names
    if unknown:
        raise ValueError(
            f"`ranges` must be of inputs: {', '.join(sorted(names))}. Received: {', '.join(sorted(unknown))}."
        )
    reference.roles = given_roles(ranges, reference.roles)
    if isinstance(reference, StoredReference):
        return reference.cases
    if inputs is None:
        return sweep(reference.inputs, reference.roles, seed)
    if not inputs:
        raise ValueError("`inputs` must have at least one case. Received: none.")
    cases = [_own_case(number, given) for number, given in enumerate(inputs)]
    for case in cases:
        if set(case.inputs) != names:
            raise ValueError(
                f"`inputs` must have an array for each of {', '.join(sorted(names))}. "
                f"Received: {', '.join(sorted(case.inputs))} in {case.name!r}."
            )
    return tuple(cases)


def _own_case(number: int, given: str | Path | Mapping[str, Array]) -> Case:
    if isinstance(given, Mapping):
        return Case(f"given {number}", dict(given), "given by the caller")
    return read_cases(Path(given))[0]
