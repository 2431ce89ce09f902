"""`keras-pe export`: a saved Keras model to the formats it is served in."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_pe.cli.errors import Command, in_options, tried
from keras_pe.cli.options import border_of, border_options, json_option, model_options, sizes_option
from keras_pe.cli.starting import check_model_file, prepare_keras
from keras_pe.cli.tables import add_row, text_table, whole_console
from keras_pe.shown import shown_bytes

if TYPE_CHECKING:
    from keras_pe.export.artifacts.artifact import Artifact, Format
    from keras_pe.export.artifacts.contents import LayerContents, Term

_FORMATS = ("onnx", "tf_saved_model", "litert")


@click.command(cls=Command)
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "formats",
    type=click.Choice(_FORMATS),
    multiple=True,
    help="May be given more than once. By default the one that OUT ends like: .onnx or .tflite.",
)
@click.option("--opset", type=click.IntRange(15, 25), help="The ONNX operator set. Default: 18.")
@click.option("--external-data", is_flag=True, help="Write the weights of the ONNX model to a file beside it.")
@sizes_option
@border_options
@model_options
@click.option("--explain", is_flag=True, help="Tell what the ONNX file is made of, by layer.")
@json_option("what was written")
def export(
    model: Path,
    out: Path,
    formats: tuple[str, ...],
    opset: int | None,
    external_data: bool,
    sizes: Mapping[str, tuple[int, ...]],
    modules: tuple[str, ...],
    unsafe: bool,
    explain: bool,
    as_json: bool,
    **border: Any,
) -> None:
    """Export MODEL, a .keras or .h5 file, to OUT.

    With one format OUT is the file or folder to write; with several it is what their names start with: OUT.onnx, OUT
    (the SavedModel folder), OUT.tflite. A format that is refused does not keep the others from being written. Exits
    with 0 when all are written, 1 when an export is refused, 2 when one could not be tried.
    """
    check_model_file(model)
    from keras_pe.export import Format
    from keras_pe.export.progress import telling_stages

    chosen = [Format(key) for key in dict.fromkeys(formats)] or [_format_of(out)]
    options = {"--opset": opset is not None, "--external-data": external_data, "--explain": explain}
    if Format.ONNX not in chosen and any(options.values()):
        names = " and ".join(name for name, is_given in options.items() if is_given)
        raise click.UsageError(f"{names} must go with the format onnx. Received: {', '.join(chosen)}.")
    places = {format: out if len(chosen) == 1 else out.with_name(out.name + format.suffix) for format in chosen}
    artifacts, errors = [], []
    prepare_keras(modules, unsafe)
    with telling_stages(not as_json) as stage:
        stage("load")
        loaded = _load(model)
        with tried():
            given = {"sizes": sizes, "border": border_of(border, _load)}
        for format, place in places.items():
            try:
                artifacts.append(_export(format, loaded, place, opset, external_data, stage, given))
            except click.ClickException as error:
                errors.append(error)
    if as_json:
        click.echo(json.dumps([_as_json(artifact, explain) for artifact in artifacts], indent=2))
    elif artifacts:
        _show(artifacts, explain)
    if errors:
        *others, last = sorted(errors, key=lambda each: each.exit_code)
        for other in others:
            other.show()
        raise last


def _format_of(out: Path) -> "Format":
    """Returns the format that a name ends like.

    Raises:
        UsageError: If it ends like none.
    """
    from keras_pe.export import Format

    if format := Format.of_suffix(out):
        return format
    endings = ", ".join(f"{each.suffix} for {each}" for each in Format if each.suffix)
    raise click.UsageError(
        f"OUT must end like its format ({endings}), or --format must say one ({', '.join(_FORMATS)}). Received: {out}."
    )


def _load(path: Path) -> Any:
    from keras_pe.export.model.saved_file import load_model

    with tried():
        return load_model(path)


def _export(
    format: "Format",
    model: Any,
    place: Path,
    opset: int | None,
    external_data: bool,
    stage: Callable[[str], None],
    given: Mapping[str, Any],
) -> "Artifact":
    """Exports to one format.

    Raises:
        ClickException: If it is refused (exit code 1) or could not be tried (2).
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
    try:
        with tried():
            return exporters[format](model, place, progress=lambda name: stage(f"{format}: {name}"), **given, **options)
    except export.ExportError as error:
        raise click.ClickException(in_options(str(error))) from error


def _as_json(artifact: "Artifact", explain: bool) -> dict[str, Any]:
    is_explained = explain and artifact.format == "onnx"
    contents = {"contents": [asdict(layer) for layer in artifact.contents]} if is_explained else {}
    return asdict(artifact) | {"path": str(artifact.path)} | contents


def _show(artifacts: "list[Artifact]", explain: bool) -> None:
    from keras_pe.export.artifacts.artifact import SIZES_KEY
    from keras_pe.export.model.sizes.dimensions import describe_dimensions, dimensions_from_json

    tensors = text_table("", "name", "shape", "dtype")
    for role, specs in (("input", artifacts[0].inputs), ("output", artifacts[0].outputs)):
        for spec in specs:
            add_row(tensors, (role, spec.name, f"({', '.join(map(str, spec.shape))})", spec.dtype))
    known = dimensions_from_json(artifacts[0].metadata[SIZES_KEY])
    dimensions = text_table("dimension", "sizes", rows=(line.split(": ") for line in describe_dimensions(known)))
    files = text_table("format", "opset", "size", "time", "path")
    for artifact in artifacts:
        size, seconds = shown_bytes(artifact.nbytes), f"{artifact.seconds:.1f} s"
        add_row(files, (artifact.format, str(artifact.opset_version or ""), size, seconds, str(artifact.path)))
    explained = [contents_table(artifact.contents) for artifact in artifacts if explain and artifact.format == "onnx"]
    console = whole_console()
    console.print(tensors, *([dimensions] if known else []), files, *explained)
    for note in dict.fromkeys(note for artifact in artifacts for note in artifact.notes):
        console.print(note, markup=False)


def contents_table(contents: "Sequence[LayerContents]") -> Any:
    """Returns the table, which rich prints. Why something stays several operators is a column where anything does."""
    from keras_pe.export.artifacts.contents import added

    is_any_unfused = any(each.unfused for each in contents)
    header = "layer", "operators", "parameters", "size", "multiplications", *(["unfused"] if is_any_unfused else [])
    table = text_table(*header)
    for each in contents:
        reasons = "; ".join(f"{operator}: {reason}" for operator, reason in each.unfused.items())
        numbers = _cells(each.operators, each.parameters, each.nbytes, each.multiplications)
        add_row(table, (each.layer or "between layers", *numbers, *([reasons] if is_any_unfused else [])))
    table.add_section()
    operators = sum((Counter(each.operators) for each in contents), Counter())
    terms = [x for each in contents for x in ([None] if each.multiplications is None else each.multiplications)]
    counts = (sum(each.parameters for each in contents), sum(each.nbytes for each in contents))
    add_row(table, ("all", *_cells(operators, *counts, added(terms))))
    return table


def _cells(
    operators: Mapping[str, int], parameters: int, nbytes: int, multiplications: "Sequence[Term] | None"
) -> tuple[str, ...]:
    counted = ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())
    stored = (f"{parameters:,}", shown_bytes(nbytes)) if nbytes else ("", "")
    return (counted, *stored, _sum(multiplications))


def _sum(multiplications: "Sequence[Term] | None") -> str:
    if multiplications is None:
        return "unknown"
    return " + ".join("·".join([f"{factor:,}", *names]) for factor, names in multiplications)
