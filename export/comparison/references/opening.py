"""Opens the reference and the artifacts that a user names."""

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import ABSENT_KEY, VALUES_KEY, Artifact, Format
from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.comparison.inputs.borders import Borders
from keras_pe.export.comparison.inputs.cases import Case, GivenInputs, cast_case, check_sizes, parse_cases, read_case
from keras_pe.export.comparison.inputs.role import range_roles
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.interface import Interface
from keras_pe.export.comparison.references.reference import ArtifactReference, Reference, StoredReference
from keras_pe.export.comparison.references.tensor_pairs import transpose_inputs
from keras_pe.export.model.foreign_file import describe_foreign
from keras_pe.export.model.saved_file import KERAS_SUFFIXES, load_model
from keras_pe.export.model.signature.caller_arguments import by_name, checked_ranges
from keras_pe.export.model.signature.declared_inputs import declared_inputs, input_names
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.known_values import KnownValues, values_from_json
from keras_pe.export.model.watch.layer_paths import matched_paths
from keras_pe.export.progress import Stopwatch
from keras_pe.export.results import Array
from keras_pe.export.runtimes.registry import find_runtimes

Source = str | os.PathLike[str] | Artifact

_RUNTIMES = {Format.ONNX: "onnxruntime[disabled]", Format.LITERT: "litert", Format.SAVED_MODEL: "tensorflow"}


def is_path(source: Any) -> TypeGuard[Source]:
    """Whether a source is a file or folder instead of a model."""
    return isinstance(source, str | os.PathLike | Artifact)


def locate(source: Source) -> tuple[str, Path]:
    """Returns the format and the path of a file or folder. The format is that of an artifact, "keras" or "stored".

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If the format is unknown.
    """
    path = Path(source.path if isinstance(source, Artifact) else source)
    if not path.exists():
        if foreign := describe_foreign(path):
            raise ValueError(foreign)
        raise FileNotFoundError(f"No such file or folder: {path}.")
    named = None
    if path.is_file():
        named = "keras" if path.suffix in KERAS_SUFFIXES else "stored" if path.suffix == ".npz" else None
    format = named or Format.detect(path) or (Format.from_suffix(path) if path.is_file() else None)
    if format is None:
        if foreign := describe_foreign(path):
            raise ValueError(foreign)
        rule = (
            "A folder must be a SavedModel, with a file saved_model.pb in it."
            if path.is_dir()
            else "A file must be a .keras or .h5 file, an ONNX or LiteRT file, or an .npz file with outputs."
        )
        raise ValueError(f"{rule} Received: {path}.")
    return str(format), path


def locate_artifacts(sources: Source | Sequence[Source]) -> list[tuple[str, Path]]:
    """Returns the format and the path of each artifact, one or several.

    Raises:
        FileNotFoundError: If a path does not exist.
        ValueError: If a file is not an artifact.
        TypeError: If a source is not a path.
    """
    several = [sources] if is_path(sources) or not isinstance(sources, Iterable) else list(sources)
    if others := [each for each in several if not is_path(each)]:
        raise ArgTypeError("artifacts", f"must be paths, or results of exports. Received: {others[0]!r}.")
    found = [locate(source) for source in several]
    for format, path in found:
        if format not in _RUNTIMES:
            raise ArgValueError("artifacts", f"must be ONNX or LiteRT files or SavedModel folders. Received: {path}.")
    return found


def open_reference(
    model: Any,
    input_signature: Any,
    timeout: float,
    sizes: Mapping[str, Sequence[int]] | None = None,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    recorded_in: Iterable[Path] = (),
    interface: Interface | None = None,
    compiled: bool = False,
    watch: Stopwatch | None = None,
) -> Reference:
    """Returns the reference of a model, a path or an artifact, for use in a `with` statement.

    Args:
        model: As in `check_parity`.
        input_signature: The signature of a Keras model, as in `check_parity`.
        timeout: The time limit of an artifact, as in `check_parity`.
        sizes: The sizes of dynamic dimensions, as in `check_parity`.
        ranges: The valid values of inputs, as in `check_parity`.
        recorded_in: Artifacts whose metadata may contain values of their inputs.
        interface: The interface between a Keras model and the artifacts; ignored for other references.
        compiled: Whether a Keras model answers as one graph for all sizes, if possible.
        watch: Measures the duration of each stage.

    Raises:
        ValueError: If the reference cannot be opened.
        RuntimeFailedError: If the reference is an artifact that does not load.
    """
    watch = watch or Stopwatch()
    sizes, ranges = by_name("sizes", sizes), by_name("ranges", ranges)
    if is_path(model):
        format, path = locate(model)
        if format == "stored":
            case, outputs = read_case(path)
            if not outputs:
                raise ValueError(f"Stored outputs must be arrays named outputs/NAME. Received: {path} without one.")
            return StoredReference(str(path), case, outputs)
        if format != "keras":
            (spec,) = find_runtimes([_RUNTIMES[Format(format)]])
            artifact = ArtifactReference(path, spec, timeout, sizes)
            artifact.recorded = recorded_values(recorded_in, [spec.name for spec in artifact.inputs])
            return artifact
        model = load_model(path)
        watch.stage("load the model")
    from keras_pe.export.comparison.references.keras import KerasReference

    if interface is not None:
        model, own = interface.around(model, input_signature)
        if isinstance(own, Signature) and own is not input_signature:  # the adapter defines the dimensions
            own, sizes = own.with_sizes(sizes), {}
        input_signature = own
    fixed = None if interface is None else interface.fixed
    if isinstance(input_signature, Signature):  # it already has the known values
        recorded = recorded_values(recorded_in, [spec.name for spec in input_signature.inputs])
        recorded = replace(recorded, ranges={**input_signature.values.ranges, **recorded.ranges})
        reference = KerasReference(model, input_signature, sizes, fixed=fixed, compiled=compiled)
    else:
        recorded_in = [*recorded_in]
        if input_signature is None and getattr(model, "built", False):
            input_signature = declared_inputs(model).without(absent_inputs(recorded_in))
        recorded = recorded_values(recorded_in, input_names(model, input_signature))
        fair = {**recorded.ranges, **ranges}
        given: dict[str, Any] = {"inputs": recorded.examples, "ranges": fair, "fixed": fixed, "compiled": compiled}
        reference = KerasReference(model, input_signature, sizes, **given)
    reference.recorded = recorded
    reference.layouts = {} if interface is None else interface.layouts
    watch.stage("find the signature")
    return reference


def absent_inputs(artifacts: Iterable[Path]) -> set[str]:
    """Returns the optional inputs that were absent in the export, from the metadata of artifacts."""
    found = set[str]()
    for path in artifacts:
        with contextlib.suppress(ValueError, ImportError, OSError):  # the runtime will report the fault on loading
            text = read_artifact(path).metadata.get(ABSENT_KEY, "[]")
            found |= read_record(text, lambda names: set(map(str, names)), "absent inputs")
    return found


def study(reference: Reference, ranges: Mapping[str, tuple[float, float]], watch: Stopwatch) -> None:
    """Infers the roles of the inputs, and builds the rebuilds, before the first case runs.

    Args:
        reference: An open reference.
        ranges: The user's valid values of inputs.
        watch: Measures the duration of each stage.

    Raises:
        ValueError: If a range names an unknown input, is empty, or is not finite.
    """
    names = [spec.name for spec in reference.inputs]
    fair = checked_ranges(ranges, names)
    recorded = {name: ends for name, ends in reference.recorded.ranges.items() if name in names}
    reference.roles = range_roles(recorded | fair, reference.roles)
    watch.stage("infer the roles of the inputs")
    _ = reference.float64_model, reference.float32_model
    watch.stage("rebuild the model in float64")


def recorded_values(artifacts: Iterable[Path], names: Sequence[str]) -> KnownValues:
    """Returns the values of inputs in the metadata of artifacts, by the model's names as far as they are known.

    Args:
        artifacts: The paths of the artifacts.
        names: The model's names of its inputs.
    """
    ranges: dict[str, tuple[float, float]] = {}
    examples: tuple[Mapping[str, Array], ...] = ()
    for path in artifacts:
        try:
            artifact = read_artifact(path)
            text = artifact.metadata.get(VALUES_KEY)
            recorded = KnownValues() if text is None else values_from_json(text)
        except (ValueError, ImportError, OSError):  # the runtime will report the fault on loading
            continue
        ours = matched_paths([spec.name for spec in artifact.inputs], names)
        ranges.update({ours.get(name, name): ends for name, ends in recorded.ranges.items()})
        examples = examples or tuple(
            {ours.get(name, name): array for name, array in each.items()} for each in recorded.examples
        )
    return KnownValues(ranges=ranges, examples=examples)


def choose_cases(
    reference: Reference,
    inputs: GivenInputs | Sequence[GivenInputs] | None,
    seed: int,
    precision: str | None = None,
) -> tuple[Case, ...]:
    """Returns the user's cases, or else the stored case, or else the sweep over the reference's inputs.

    The sweep begins with the examples in the artifacts.

    Args:
        reference: An open reference.
        inputs: The user's cases; None for the sweep.
        seed: The seed of the sweep.
        precision: The precision that the user accepts. It excludes values near borders, which rounding may move across,
            and wide integers, which the precision may not represent.

    Raises:
        ValueError: If the user's cases cannot be used.
    """
    if isinstance(reference, StoredReference):
        if inputs is not None:
            raise ArgValueError(
                "inputs", f"must be left out for stored outputs. Received: inputs and {reference.name}."
            )
        return (reference.case,)
    if inputs is not None:
        cases = parse_cases(inputs, [spec.name for spec in reference.inputs])
        for case in cases if reference.states else ():
            check_sizes(case, reference.inputs, reference.dimensions)
        cases = tuple(
            replace(case, inputs=transpose_inputs(case.inputs, reference.layouts, reference.inputs)) for case in cases
        )
        return tuple(cast_case(case, reference.inputs) for case in cases)
    roles = reference.roles
    if precision is not None:
        roles = {name: replace(role, borders=Borders(), is_wide=False) for name, role in roles.items()}
    recorded = [
        Case(f"example {n}", each, "recorded in the artifact") for n, each in enumerate(reference.recorded.examples)
    ]
    return (
        *(cast_case(case, reference.inputs) for case in recorded),
        *sweep(reference.inputs, roles, seed, reference.dimensions),
    )
