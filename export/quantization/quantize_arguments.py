"""Checks the arguments of `quantize` before the model is loaded."""

from collections.abc import Collection
from numbers import Real
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import did_you_mean
from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.litert_file import all_signature_keys
from keras_pe.export.artifacts.quantized_tensors import read_quantization
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.comparison.references.opening import Source, is_path, locate
from keras_pe.export.errors import check_whole
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.quantization.float_layers import MOST_TRIALS
from keras_pe.export.quantization.quantization_records import Goal, Kind
from keras_pe.export.quantization.quantizers import METHODS


def only_goal(decisions: float | None, error: float | None, size: float | None) -> Goal:
    """Returns the only goal that is given.

    Raises:
        ValueError: If not exactly one is given, or its value is out of range.
    """
    given: dict[Kind, float | None] = {"decisions": decisions, "error": error, "size": size}
    goals = [Goal(kind, value) for kind, value in given.items() if value is not None]
    if len(goals) != 1:
        named = ", ".join(f"{goal.kind}={goal.value!r}" for goal in goals) or "none"
        raise ArgValueError(
            goals[-1].kind if goals else "decisions",
            f"must be the only goal. Give one of `decisions`, `error` and `size`. Received: {named}.",
        )
    (goal,) = goals
    is_number = isinstance(goal.value, Real) and not isinstance(goal.value, bool)
    if not (is_number and 0 < goal.value < (float("inf") if goal.kind == "error" else 1)):
        rule = "above 0" if goal.kind == "error" else "a share between 0 and 1"
        raise ArgValueError(goal.kind, f"must be {rule}. Received: {goal.kind}={goal.value!r}.")
    return Goal(goal.kind, float(goal.value))


def check_method(method: str, known: Collection[str] = METHODS, where: str = "") -> None:
    """Raises ValueError unless a method is known."""
    if method not in known:
        hint = did_you_mean(method, known)
        raise ArgValueError("method", f"must be one of: {', '.join(known)}{where}. Received: method={method!r}.{hint}")


def check_numbers(calibration_share: float, trials: int) -> None:
    """Raises ValueError or TypeError for a number that is out of range."""
    if not (isinstance(calibration_share, Real) and 0 < calibration_share < 1):
        raise ArgValueError(
            "calibration_share", f"must be between 0 and 1. Received: calibration_share={calibration_share!r}."
        )
    check_whole("trials", trials, 1, MOST_TRIALS)


def read_float_file(artifact: Source) -> Artifact:
    """Returns the description of the float file.

    Raises:
        ValueError: If it is not an ONNX or LiteRT file.
    """
    path = Path(artifact.path if isinstance(artifact, Artifact) else artifact)
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}.")
    if path.is_dir():
        found = "a folder" if Format.detect(path) is None else "a SavedModel"
        raise ArgValueError(
            "artifact",
            f"must be an ONNX or LiteRT file. Received: {path}, {found}. Export the model with export_onnx or "
            "export_litert. A decoder of export_decoder has a state, which quantize does not take.",
        )
    return read_artifact(path)


def check_float_file(artifact: Artifact) -> None:
    """Raises ValueError if a file has quantized tensors already, or several signatures."""
    if quantized := read_quantization(artifact):
        raise ArgValueError(
            "artifact",
            f"must be a file in float32. Received: {artifact.path}, which has {len(quantized)} quantized tensors. Pass "
            "the file that it was made from.",
        )
    if artifact.format is Format.LITERT and len(keys := all_signature_keys(artifact.path)) > 1:
        raise ArgValueError(
            "artifact",
            f"must have one signature, since one set of rows calibrates and proves it. Received: {artifact.path}, with "
            f"{', '.join(keys)}. Export a file for each size.",
        )


def open_keras_model(model: Any, method: str) -> Any:
    """Returns the Keras model, loaded if `model` is a path.

    Raises:
        ValueError: If `model` is an artifact.
    """
    if not is_path(model):
        return model
    format, path = locate(model)
    if format != "keras":
        rule = f"must be a Keras model for the method {method!r}, with which Keras quantizes"
        raise ArgValueError("model", f"{rule}. Received: {path}.")
    return load_model(path)
