"""Artifacts as tables on the standard output, or as JSON: inputs, outputs, sizes, files, notes, operators by layer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from keras_pe.cli.tables import add_row, text_table, whole_console
from keras_pe.display import shown_bytes

if TYPE_CHECKING:
    from keras_pe.export.artifacts.artifact import Artifact
    from keras_pe.export.artifacts.onnx_contents import LayerContents, Term
    from keras_pe.export.artifacts.target_layers import TargetLayer


def artifact_json(artifact: "Artifact", explain: bool) -> dict[str, Any]:
    """Returns an artifact as plain values; with `explain` quantized tensors and the layers of an ONNX file too."""
    from keras_pe.export.artifacts.quantization import read_quantization
    from keras_pe.export.artifacts.target_layers import read_target_layers

    description = asdict(artifact) | {"path": str(artifact.path)}
    if explain and artifact.format == "onnx":
        description["contents"] = [asdict(layer) for layer in artifact.contents]
    if explain and (layers := read_target_layers(artifact.metadata)):
        description["target_layers"] = [asdict(layer) for layer in layers]
    if explain:
        description["quantized"] = [asdict(tensor) for tensor in read_quantization(artifact)]
    return description


def show_artifacts(artifacts: "Sequence[Artifact]", explain: bool) -> None:
    """Prints artifacts of one model: inputs and outputs once, a row for each file, the contents of ONNX files."""
    from keras_pe.export.artifacts.artifact import SIZES_KEY
    from keras_pe.export.artifacts.quantization import COLUMNS, quantization_rows, read_quantization
    from keras_pe.export.artifacts.target_layers import read_target_layers
    from keras_pe.export.model.sizes.dimensions import describe_dimensions, dimensions_from_json

    tensors = text_table("", "name", "shape", "dtype")
    for role, specs in (("input", artifacts[0].inputs), ("output", artifacts[0].outputs)):
        for spec in specs:
            add_row(tensors, (role, spec.name, f"({', '.join(map(str, spec.shape))})", spec.dtype))
    known = dimensions_from_json(artifacts[0].metadata.get(SIZES_KEY, "{}"))
    dimensions = text_table("dimension", "sizes", rows=(line.split(": ") for line in describe_dimensions(known)))
    was_exported = any(artifact.seconds for artifact in artifacts)
    files = text_table("format", "opset", "size", *(["time"] if was_exported else []), "path")
    for artifact in artifacts:
        seconds = [f"{artifact.seconds:.1f} s"] if was_exported else []
        opset, size = str(artifact.opset_version or ""), shown_bytes(artifact.nbytes)
        add_row(files, (artifact.format, opset, size, *seconds, str(artifact.path)))
    explained = [contents_table(artifact.contents) for artifact in artifacts if explain and artifact.format == "onnx"]
    by_target = [read_target_layers(artifact.metadata) for artifact in artifacts] if explain else []
    explained += [target_table(layers) for layers in by_target if layers]
    tensors_by_file = [read_quantization(artifact) for artifact in artifacts] if explain else []
    explained += [text_table(*COLUMNS, rows=quantization_rows(found)) for found in tensors_by_file if found]
    console = whole_console()
    console.print(tensors, *([dimensions] if known else []), files, *explained)
    for note in dict.fromkeys(note for artifact in artifacts for note in artifact.notes):
        console.print(note, markup=False)


def show_target_layers(layers: "Sequence[TargetLayer]") -> None:
    """Prints whether a device takes each layer."""
    whole_console().print(target_table(layers))


def target_table(layers: "Sequence[TargetLayer]") -> Any:
    """Returns a table with a row for each layer: its operators, and the rules that they break."""
    table = text_table("layer", "operators", "on the device")
    for each in layers:
        because = "; ".join(f"{operator}: {reason}" for operator, reason in each.reasons.items())
        row = (each.layer or "between layers", _list_counts(each.operators))
        add_row(table, (*row, f"falls back, because {because}" if because else "takes it"))
    return table


def show_metadata(artifact: "Artifact") -> None:
    """Prints the texts in an artifact, without those that `show_artifacts` prints in words."""
    from keras_pe.export.artifacts.artifact import FIXED_KEY, NOTES_KEY, SIZES_KEY
    from keras_pe.export.artifacts.onnx_contents import UNFUSED_KEY
    from keras_pe.export.artifacts.target_layers import TARGET_KEY

    shown = (FIXED_KEY, NOTES_KEY, SIZES_KEY, TARGET_KEY, UNFUSED_KEY)
    rows = [(key, value) for key, value in sorted(artifact.metadata.items()) if key not in shown]
    if rows:
        whole_console().print(text_table("metadata", "", rows=rows))


def contents_table(contents: "Sequence[LayerContents]") -> Any:
    """Returns the table, which rich prints. Why something stays several operators is a column where anything does."""
    from keras_pe.export.artifacts.onnx_contents import add_terms

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
    add_row(table, ("all", *_cells(operators, *counts, add_terms(terms))))
    return table


def _cells(
    operators: Mapping[str, int], parameters: int, nbytes: int, multiplications: "Sequence[Term] | None"
) -> tuple[str, ...]:
    stored = (f"{parameters:,}", shown_bytes(nbytes)) if nbytes else ("", "")
    return (_list_counts(operators), *stored, _sum(multiplications))


def _list_counts(operators: Mapping[str, int]) -> str:
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())


def _sum(multiplications: "Sequence[Term] | None") -> str:
    if multiplications is None:
        return "unknown"
    return " + ".join("·".join([f"{factor:,}", *names]) for factor, names in multiplications)
