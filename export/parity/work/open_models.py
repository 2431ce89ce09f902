"""Opens the model and the artifacts of a check, and hashes their content."""

import contextlib
import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.read_artifact import hash_files
from keras_pe.export.comparison.references.opening import Source, is_path, locate, locate_artifacts
from keras_pe.export.dependencies import installed_version, require
from keras_pe.export.errors import first_line
from keras_pe.export.model.saved_file import check_saved_file, is_in_old_format, registering_modules
from keras_pe.export.model.watch.keras_internals import loads_python_code
from keras_pe.export.parity.data.shards import fingerprint
from keras_pe.export.parity.work.worker_input import OpenedModel, Target
from keras_pe.export.parity.work.worker_session import model_of_this_process
from keras_pe.export.publishing.staging import staging
from keras_pe.export.runtimes.registry import find_runtimes, runtimes_for
from keras_pe.export.runtimes.runtime import RuntimeSpec

RuntimeChoice = str | RuntimeSpec


@contextlib.contextmanager
def opened_model(model: Any, folder: Path, *, in_process: bool) -> Iterator[OpenedModel]:
    """Yields the reference of a model, a path or an artifact.

    Args:
        model: As in `check_dataset`.
        folder: A folder in which a model in memory is saved for the workers.
        in_process: Whether this process runs the model itself.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If the file is not a model.
    """
    if is_path(model):
        yield open_model_file(model)
        return
    key = _hash_model(model)
    if in_process:
        with model_of_this_process(key, model):
            yield OpenedModel(Path(f"{model.name}.keras"), key)
        return
    path = folder / f"{model.name}-{key[:16]}.keras"
    with staging(path) as stage:  # always written, since a file at this path may be damaged
        _save(model, stage / path.name)
        (stage / path.name).replace(path)
    yield OpenedModel(path, key, registering_modules(path), allows_code=True)  # safe, since this process made the model


def _save(model: Any, path: Path) -> None:
    try:
        model.save(path)
    except OSError:
        raise
    except Exception as error:  # the configuration of a layer may raise any error
        raise ArgValueError(
            "model",
            f"must be one that Keras can save, for the processes that load it. Received: {model.name!r}, which "
            f"it cannot ({first_line(error)}). Or run the check in this process: workers=0.",
        ) from error


class OpenedArtifacts(NamedTuple):
    """The artifacts of a data set check with their runtimes.

    Attributes:
        targets: Every artifact in each of its runtimes.
        untaken: Artifacts that no runtime takes, as pairs of format and path.
        jobs: All chosen pairs of runtime and artifact, installed or not.
    """

    targets: tuple[Target, ...]
    untaken: tuple[tuple[str, Path], ...]
    jobs: list[tuple[RuntimeSpec, Path]]


def open_artifacts(artifacts: Any, runtimes: RuntimeChoice | Sequence[RuntimeChoice] | None) -> OpenedArtifacts:
    """Returns every artifact in each of the runtimes that take it.

    Raises:
        FileNotFoundError: If an artifact is missing.
        ValueError: If a path is not an artifact, or no path is passed.
        ImportError: If a requested runtime is not installed.
    """
    named = None if runtimes is None else find_runtimes(runtimes)
    located = [*dict.fromkeys(locate_artifacts(artifacts))]
    chosen = runtimes_for(located, named)
    if served := [spec.name for spec in chosen if spec.format == "served"]:
        raise ValueError(
            f"A data set must go through runtimes on this machine. Received: {', '.join(served)}. Check a server "
            "without a data set."
        )
    if runtimes is None:  # one session of ONNX Runtime for all rows; only a sweep compares levels of optimization
        chosen = tuple(spec for spec in chosen if spec.name == spec.family or spec.name == "onnxruntime[all]")
    if not located:
        raise ArgValueError("artifacts", "must have at least one. Received: none.")
    if any(format == Format.ONNX for format, _ in located):
        require("check_dataset", "onnx")
    jobs = [(spec, path) for format, path in located for spec in chosen if spec.format == format]
    fitting = [(_alone(spec), path) for spec, path in jobs if spec.installed]
    contents = {path: _hash_artifact(path) for path in dict.fromkeys(path for _, path in fitting)}
    targets = [Target(path.absolute(), spec, _target_key(contents[path], spec)) for spec, path in fitting]
    untaken = [(format, path) for format, path in located if path not in contents]
    return OpenedArtifacts(tuple(targets), tuple(untaken), jobs)


def _alone(spec: RuntimeSpec) -> RuntimeSpec:
    """Returns a runtime that computes with one thread, since there are as many workers as processors."""
    if not spec.factory.endswith(".onnxruntime:OnnxRuntime"):
        return spec
    return replace(spec, options={**spec.options, "threads": 1})


def _target_key(content: str, spec: RuntimeSpec) -> str:
    options = {name: str(value) for name, value in spec.options.items()}
    return fingerprint(content, spec.name, spec.factory, options, installed_version(spec.package) or "")


def open_model_file(model: Source) -> OpenedModel:
    """Returns the reference of a path to a model or an artifact.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If the file is not a model.
    """
    format, path = locate(model)
    path = path.absolute()
    if format == "keras":
        check_saved_file(path)
        key = _hash_artifact(path) if is_in_old_format(path) else _hash_keras_file(path)
        allows_code = "keras" in sys.modules and loads_python_code()
        return OpenedModel(path, key, registering_modules(path), allows_code)
    if format == "stored":
        raise ArgValueError("model", f"must be a .keras or .h5 file, or an artifact. Received: {path}.")
    return OpenedModel(path, _hash_artifact(path))


def _hash_artifact(path: Path) -> str:
    """Returns a hash of an artifact's content that does not depend on its name."""
    return fingerprint(sorted(("" if name == path.name else name, value) for name, value in hash_files(path).items()))


def _hash_keras_file(path: Path) -> str:
    """Returns a hash of a model's configuration and weights that does not depend on the time of saving."""
    try:
        with zipfile.ZipFile(path) as file:
            entries = [entry for entry in file.infolist() if entry.filename != "metadata.json"]
            return fingerprint(sorted([entry.filename, entry.CRC, entry.file_size] for entry in entries))
    except Exception as error:  # a damaged file may raise any error
        raise ArgValueError("model", f"must be a whole .keras file. Received: {path} ({error}).") from error


def _hash_model(model: Any) -> str:
    import keras

    if not isinstance(model, keras.Model):
        raise ArgTypeError("model", f"must be a keras.Model, a path or an artifact. Received: {type(model).__name__}.")
    digest = hashlib.sha256()
    try:
        digest.update(json.dumps(keras.saving.serialize_keras_object(model), sort_keys=True, default=str).encode())
    except Exception:  # a model without a configuration is identified by its class and its weights
        digest.update(f"{type(model).__module__}.{type(model).__qualname__}".encode())
    for variable in model.variables:
        array = keras.ops.convert_to_numpy(variable.value)
        digest.update(f"{variable.path} {array.shape} {array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
