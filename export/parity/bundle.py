"""A replay bundle: one `.npz` file with the arrays of every failure and a description in `manifest.json`.

`python BUNDLE` runs the failures by the script `__main__.py` in the bundle. It needs NumPy and the runtime only.
`python BUNDLE --part` runs `part-K.onnx`, the smallest part of the K-th failure's ONNX file that fails alone.
The arrays are `arrays/K/NAME`. Each K is one set of inputs or outputs, which several failures may share.
A failure in the manifest lists its inputs in order, its expected outputs and its actual outputs by their K.
`chunks` divides the last inputs into calls that pass on a state, by the function in `chunked_calls.py`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_origin, get_type_hints

import numpy as np

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.read_artifact import hash_files
from keras_pe.export.comparison import chunked_calls
from keras_pe.export.dependencies import require
from keras_pe.export.errors import check_type, describe
from keras_pe.export.parity import bundle_script
from keras_pe.export.parity.failing_part import FailingPart, find_failing_part
from keras_pe.export.parity.npz_archive import MANIFEST, read_archive, write_archive
from keras_pe.export.publishing.destination import check_file_path
from keras_pe.export.publishing.staging import staged_file
from keras_pe.export.results import (
    Allowance,
    Array,
    Cause,
    CheckResults,
    Chunks,
    Finding,
    OtherValue,
    Recording,
    RuntimeResult,
)
from keras_pe.export.runtimes.registry import known_runtimes
from keras_pe.export.runtimes.runtime import RuntimeName

_Record = TypeVar("_Record")

_VERSION = 8

_Stored = dict[int, tuple[int, Mapping[str, Array]]]  # maps the id() of a set of arrays to its number and the set


@dataclass(frozen=True)
class RecordedFailure:
    """The failure of one runtime.

    Attributes:
        runtime: The name of the runtime.
        places: Paths where the artifact may be: relative to the bundle, and absolute on the recording machine.
        hashes: SHA-256 of each file of the artifact, by name.
        recording: The inputs, the expected outputs and the actual outputs.
        findings: The detected causes.
        signature: The signature that ran, as in `RuntimeResult`.
    """

    runtime: str
    places: tuple[Path, ...]
    hashes: Mapping[str, str]
    recording: Recording
    findings: tuple[Finding, ...]
    signature: str


@dataclass(frozen=True)
class Bundle:
    """The content of a replay bundle.

    Attributes:
        model: The reference of the check.
        reference: Description of the reference of the differences.
        allowance: Differences that the user accepts beyond rounding.
        seed: The seed of the sweep.
        versions: Versions of the packages that took part.
        failures: The failures, at least one.
    """

    model: str
    reference: str
    allowance: Allowance
    seed: int
    versions: Mapping[str, str]
    failures: tuple[RecordedFailure, ...]


def check_bundle_path(path: Path) -> None:
    """Raises ValueError unless the name of a bundle ends in `.npz`, and OSError if no file can have the name."""
    if path.suffix != ".npz":
        raise ValueError(f"A replay bundle's name must end in .npz. Received: {path}.")
    check_file_path(path, "A replay bundle")


def write_bundle(report: CheckResults, path: str | os.PathLike[str]) -> None:
    """Writes a file that replays the report's failures without the model.

    Args:
        report: A report of `check_parity` that has not passed.
        path: An `.npz` file. The bundle is written to a temporary file beside this path and then renamed.

    Raises:
        TypeError: If the report is not a report of a check by cases.
        ValueError: If no artifact failed, or the name does not end in `.npz`. A failure of the compiled model does not
            count, because a bundle does not contain the model.
        ImportError: If an ONNX file failed and `onnx`, which lists the files of an ONNX model, is missing.
        OSError: If the file cannot be written. An earlier file at this path stays.
    """
    check_type("report", report, CheckResults)
    path = Path(path).absolute()
    check_bundle_path(path)
    failed = [(each, each.recording) for each in report.results if each.artifact and each.recording is not None]
    if not failed:
        raise ValueError("A replay bundle must have a failure. Received: a report in which no artifact failed.")
    if any(each.format == Format.ONNX for each, _ in failed):
        require("write_bundle", "onnx")
    stored: _Stored = {}
    specs = {spec.name: spec for spec in known_runtimes() if spec.installed}
    parts = [find_failing_part(result, recording, specs.get(result.runtime)) for result, recording in failed]
    content = {
        "version": _VERSION,
        "model": report.model,
        "reference": report.reference,
        "allowance": asdict(report.allowance),
        "seed": report.seed,
        "versions": dict(report.versions),
        "failures": [
            _describe(result, recording, path.parent, stored, part)
            for (result, recording), part in zip(failed, parts, strict=True)
        ],
        "arrays": [arrays for _, arrays in stored.values()],
    }
    files = {f"part-{number}.onnx": part.model for number, part in enumerate(parts) if not isinstance(part, str)}
    files["chunked_calls.py"] = Path(chunked_calls.__file__).read_bytes()
    with staged_file(path, "The bundle") as staged:
        write_archive(staged, content, script=Path(bundle_script.__file__).read_text("utf-8"), files=files)


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Reads a bundle.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If the file is not a bundle.
    """
    path = Path(path).absolute()
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}.")
    try:
        content = read_archive(path)
        if content["version"] != _VERSION:
            raise ValueError(f"it is of version {content['version']}, not {_VERSION}")
        arrays = [_check_arrays(each) for each in content["arrays"]]
        failures = tuple(_read_failure(each, arrays, path.parent) for each in content["failures"])
        about = (str(content["model"]), str(content["reference"]), Allowance(**content["allowance"]))
        return Bundle(*about, int(content["seed"]), _texts(content["versions"]), failures)
    except Exception as error:  # the readers raise errors of any type on a truncated or changed file
        raise ValueError(
            f"A replay bundle must be an .npz file that a check has written. Received: {path}, whose {MANIFEST} cannot "
            f"be read ({describe(error)}). Run the check again with --bundle."
        ) from error


def _describe(
    result: RuntimeResult, recording: Recording, home: Path, stored: _Stored, part: FailingPart | str
) -> dict[str, Any]:
    """Returns the entry of a failure in the manifest, and adds the arrays of the failure to `stored`."""

    def number(arrays: Mapping[str, Array]) -> int:
        return stored.setdefault(id(arrays), (len(stored), arrays))[0]

    artifact = Path(result.artifact).absolute()
    return {
        "runtime": result.runtime,
        "version": result.version,
        "variant": RuntimeName.parse(result.runtime).variant,
        "format": result.format,
        "artifact": str(artifact),
        "signature": result.signature,
        "from_here": os.path.relpath(artifact, home),
        "sha256": hash_files(artifact),
        "case": recording.case,
        "fed": [number(inputs) for inputs in (*recording.before, recording.inputs)],
        "expected": number(recording.expected),
        "truth": number(recording.truth),
        "actual": number(recording.actual),
        "chunks": None if recording.chunks is None else asdict(recording.chunks),
        "status": result.status,
        "error": result.error,
        "findings": [asdict(finding) for finding in result.findings],
        "layer": None if recording.layer is None else vars(recording.layer),
        "part": part
        if isinstance(part, str)
        else {"inputs": part.inputs, "expected": part.expected, "actual": part.actual},
    }


def _read_failure(stored: Mapping[str, Any], arrays: Sequence[Mapping[str, Array]], home: Path) -> RecordedFailure:
    *before, inputs = (arrays[number] for number in stored["fed"])
    expected, truth, actual = (arrays[stored[name]] for name in ("expected", "truth", "actual"))
    chunks = stored["chunks"] and _check_types(
        Chunks(**{**stored["chunks"], "sizes": tuple(stored["chunks"]["sizes"])})
    )
    recording = Recording(str(stored["case"]), inputs, expected, actual, truth, tuple(before), chunks=chunks)
    places = (home / stored["from_here"], Path(stored["artifact"]))
    findings = tuple(_as_finding(each) for each in stored["findings"])
    runtime, signature = str(stored["runtime"]), str(stored["signature"])
    return RecordedFailure(runtime, places, _texts(stored["sha256"]), recording, findings, signature)


def _texts(stored: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in stored.items()}


def _check_arrays(stored: Any) -> Mapping[str, Array]:
    if not isinstance(stored, Mapping) or not all(isinstance(array, np.ndarray) for array in stored.values()):
        raise TypeError(f"must have arrays by name. Received: {stored!r:.80}")
    return stored


def _check_types(record: _Record) -> _Record:
    """Returns a dataclass if its fields have their types. Entries of containers are not checked."""
    for name, kind in get_type_hints(type(record)).items():
        value = getattr(record, name)
        if not isinstance(value, kind if isinstance(kind, UnionType) else get_origin(kind) or kind):
            raise TypeError(f"{name} must be of type {kind}. Received: {value!r:.80}")
    return record


def _as_finding(stored: Mapping[str, Any]) -> Finding:
    values = [{name: _hashable(value) for name, value in each.items()} for each in stored["parameters"]]
    parameters = tuple(OtherValue(**each) for each in values)
    read = {"cause": Cause(stored["cause"]), "absent": tuple(stored["absent"]), "parameters": parameters}
    return _check_types(Finding(**{**stored, **read}))


def _hashable(value: Any) -> Any:
    """Returns a JSON value with tuples instead of lists."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
