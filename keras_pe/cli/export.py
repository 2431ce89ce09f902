"""`keras-pe export`: writes a saved Keras model in other formats."""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from keras_pe.cli.artifact_tables import artifact_json, show_artifacts, show_target_layers
from keras_pe.cli.exit_codes import Command, in_options, tried
from keras_pe.cli.options import (
    SavedPath,
    Verbosity,
    border_of,
    border_options,
    json_option,
    model_options,
    sizes_option,
    verbosity_options,
)
from keras_pe.cli.start_keras import check_model_file, prepare_keras

if TYPE_CHECKING:
    from keras_pe.export.artifacts.artifact import Artifact, Format
    from keras_pe.export.artifacts.target_layers import TargetLayer

_FORMATS = ("onnx", "tf_saved_model", "litert")
_TARGETS = ("gpu", "npu", "web", "micro")


class RefusedError(click.ClickException):
    """The format or the device cannot express the model.

    Attributes:
        layers: The operators of each layer, with the rules that they break; empty without a target.
    """

    def __init__(self, message: str, layers: "Sequence[TargetLayer]") -> None:
        super().__init__(message)
        self.layers = layers


@click.command(cls=Command)
@click.argument("model", type=SavedPath())
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "formats",
    type=click.Choice(_FORMATS),
    multiple=True,
    help="The format; repeat the option for several. Default: the format of the suffix of OUT, .onnx or .tflite.",
)
@click.option("--opset", type=click.IntRange(15, 25), help="The ONNX operator set. Default: 18.")
@click.option("--external-data", is_flag=True, help="Write the weights of the ONNX model to a file beside it.")
@click.option(
    "--target",
    type=click.Choice(_TARGETS),
    help="The device that runs the LiteRT file. Every size is fixed; the batch is 1 unless --sizes sets it.",
)
@sizes_option
@border_options
@click.option(
    "--seed",
    type=click.Choice(["argument"]),
    help="Make the state of each generator of random numbers an input and an output of the artifact.",
)
@model_options
@click.option(
    "--explain",
    is_flag=True,
    help="Print the operators of the ONNX file by layer. For LiteRT, print the recurrent layers that stay loops; with "
    "--target, whether the device accepts each layer.",
)
@json_option("the written files")
@verbosity_options(quiet="Print the paths of the files alone.", verbose="Print each stage and its seconds as well.")
def export(
    model: Path,
    out: Path,
    formats: tuple[str, ...],
    opset: int | None,
    external_data: bool,
    target: str | None,
    sizes: Mapping[str, tuple[int, ...]],
    seed: str | None,
    modules: tuple[str, ...],
    unsafe: bool,
    explain: bool,
    as_json: bool,
    verbosity: Verbosity,
    **border: Any,
) -> None:
    """Export MODEL, a .keras or .h5 file, to OUT.

    With one format, OUT is the file or folder of the export. With several formats, the names are OUT.onnx, OUT (the
    SavedModel folder) and OUT.tflite. If one format is refused, the others are still written. Exits with 0 if all are
    written, 1 if an export is refused, 2 if an export could not run.
    """
    check_model_file(model)
    from keras_pe.export import Format
    from keras_pe.export.progress import telling_stages

    chosen = [Format(key) for key in dict.fromkeys(formats)] or [_format_of(out)]
    options = {"--opset": opset is not None, "--external-data": external_data}
    if target is not None and Format.LITERT not in chosen:
        raise click.UsageError(f"--target must go with the format litert. Received: {', '.join(chosen)}.")
    if explain and not {Format.ONNX, Format.LITERT} & {*chosen}:
        raise click.UsageError(f"--explain must go with the format onnx or litert. Received: {', '.join(chosen)}.")
    if Format.ONNX not in chosen and any(options.values()):
        names = " and ".join(name for name, is_given in options.items() if is_given)
        raise click.UsageError(f"{names} must go with the format onnx. Received: {', '.join(chosen)}.")
    places = {format: out if len(chosen) == 1 else out.with_name(out.name + format.suffix) for format in chosen}
    artifacts, errors, refused = list["Artifact"](), list[click.ClickException](), list["TargetLayer"]()
    prepare_keras(modules, unsafe)
    with telling_stages(stage_printer(as_json, verbosity)) as stage:
        stage("load")
        loaded = load(model)
        with tried():
            given = {"sizes": sizes, "border": border_of(border, load), "seed": seed}
        for format, place in places.items():
            try:
                artifacts.append(_export(format, loaded, place, opset, external_data, target, stage, given))
            except RefusedError as error:
                refused += error.layers
                errors.append(error)
            except click.ClickException as error:
                errors.append(error)
    print_artifacts(artifacts, explain, as_json, verbosity)
    if refused and explain and not as_json:
        show_target_layers(refused)
    if errors:
        *others, last = sorted(errors, key=lambda each: each.exit_code)
        for other in others:
            other.show()
        raise last


def print_artifacts(artifacts: "Sequence[Artifact]", explain: bool, as_json: bool, verbosity: Verbosity) -> None:
    """Prints the written files: as JSON, as paths, or as a table."""
    if as_json:
        click.echo(json.dumps([artifact_json(artifact, explain) for artifact in artifacts], indent=2))
    elif verbosity is Verbosity.QUIET:
        for artifact in artifacts:
            click.echo(artifact.path)
    elif artifacts:
        show_artifacts(artifacts, explain)


def stage_printer(as_json: bool, verbosity: Verbosity) -> Callable[[str], None] | bool:
    """Returns the argument `progress` of an export: a function that prints times, or whether to show a bar."""
    return _timed_stages() if verbosity is Verbosity.VERBOSE else not as_json and verbosity is Verbosity.NORMAL


def _timed_stages() -> Callable[[str], None]:
    """Returns a function that prints the stage before, with its seconds, on the standard error."""
    running: list[tuple[str, float]] = []

    def start(stage: str) -> None:
        for name, since in running:
            click.echo(f"{name}: {perf_counter() - since:.2f} s", err=True)
        running[:] = [(stage, perf_counter())]

    return start


def _format_of(out: Path) -> "Format":
    """Returns the format that a name ends like.

    Raises:
        UsageError: If it ends like none.
    """
    from keras_pe.export import Format

    if format := Format.from_suffix(out):
        return format
    endings = ", ".join(f"{each.suffix} for {each}" for each in Format if each.suffix)
    raise click.UsageError(
        f"OUT must end like its format ({endings}), or --format must say one ({', '.join(_FORMATS)}). Received: {out}."
    )


def load(path: Path) -> Any:
    """Returns the model of a file.

    Raises:
        CouldNotBeTriedError: If Keras cannot load the file.
    """
    from keras_pe.export.model.saved_file import load_model

    with tried():
        return load_model(path)


def _export(
    format: "Format",
    model: Any,
    place: Path,
    opset: int | None,
    external_data: bool,
    target: str | None,
    stage: Callable[[str], None],
    given: Mapping[str, Any],
) -> "Artifact":
    """Exports to one format.

    Raises:
        ClickException: If the export is refused (exit code 1) or could not run (2).
    """
    from keras_pe import export

    exporters: dict[str, Callable[..., Artifact]] = {
        "onnx": export.export_onnx,
        "tf_saved_model": export.export_saved_model,
        "litert": export.export_litert,
    }
    options = dict[str, Any]()
    if format == "onnx":
        options |= {"opset_version": opset} if opset is not None else {}
        options |= {"external_data_threshold": 0} if external_data else {}
    if format == "litert":
        options["target"] = target
    with exporting():
        return exporters[format](model, place, progress=lambda name: stage(f"{format}: {name}"), **given, **options)


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Runs an exporter for a command: a refusal ends with code 1, an export that could not run with 2."""
    from keras_pe import export

    try:
        with tried():
            yield
    except export.UnsupportedError as error:
        raise RefusedError(in_options(str(error)), error.layers) from error
    except export.ExportError as error:
        raise click.ClickException(in_options(str(error))) from error
