"""Artifacts as tables on the standard output, or as JSON: inputs, outputs, sizes, files, notes, operators by layer."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from keras_pe.cli.tables import add_row, text_table, whole_console
from keras_pe.display import printable, shown_bytes

if TYPE_CHECKING:
    from keras_pe.export.artifacts.artifact import Artifact
    from keras_pe.export.artifacts.onnx_contents import LayerContents, Term
    from keras_pe.export.artifacts.rewrite import Rewrite
    from keras_pe.export.artifacts.target_layers import TargetLayer

_Record = TypeVar("_Record")


def artifact_json(artifact: "Artifact", explain: bool) -> dict[str, Any]:
    """Returns an artifact as plain values; with `explain` quantized tensors and the layers of an ONNX file too."""
    from keras_pe.export.artifacts.quantized_tensors import read_quantization
    from keras_pe.export.artifacts.target_layers import read_target_layers

    description = asdict(artifact) | {"path": str(artifact.path)}
    if not explain:
        del description["rewrites"]
    if explain and artifact.format == "onnx":
        description["contents"] = [asdict(layer) for layer in artifact.contents]
    if explain and (layers := _read(artifact, read_target_layers)):
        description["target_layers"] = [asdict(layer) for layer in layers]
    if explain:
        description["quantized"] = [asdict(tensor) for tensor in read_quantization(artifact)]
    return description


def show_artifacts(artifacts: "Sequence[Artifact]", explain: bool) -> None:
    """Prints artifacts of one model: inputs and outputs once, a row for each file, the contents of ONNX files."""
    from keras_pe.export.artifacts.artifact import SIZES_KEY
    from keras_pe.export.artifacts.quantized_tensors import COLUMNS, quantization_rows, read_quantization
    from keras_pe.export.artifacts.target_layers import read_target_layers
    from keras_pe.export.model.sizes.dimensions import describe_dimensions, dimensions_from_json

    tensors = text_table("", "name", "shape", "dtype")
    for role, specs in (("input", artifacts[0].inputs), ("output", artifacts[0].outputs)):
        for spec in specs:
            add_row(tensors, (role, spec.name, f"({', '.join(map(str, spec.shape))})", spec.dtype))
    known = _read(artifacts[0], lambda metadata: dimensions_from_json(metadata.get(SIZES_KEY, "{}")))
    dimensions = text_table("dimension", "sizes", rows=(line.split(": ") for line in describe_dimensions(known)))
    was_exported = any(artifact.seconds for artifact in artifacts)
    files = text_table("format", "opset", "size", *(["time"] if was_exported else []), "path")
    for artifact in artifacts:
        seconds = [f"{artifact.seconds:.1f} s"] if was_exported else []
        opset, size = str(artifact.opset_version or ""), shown_bytes(artifact.nbytes)
        add_row(files, (artifact.format, opset, size, *seconds, str(artifact.path)))
    explained = [
        contents_table(artifact.contents, artifact.rewrites)
        for artifact in artifacts
        if explain and artifact.format == "onnx"
    ]
    by_target = [(_read(each, read_target_layers), each.rewrites) for each in artifacts] if explain else []
    explained += [target_table(layers, rewrites) for layers, rewrites in by_target if layers]
    loops = (_read(each, loops_table) for each in artifacts if explain and each.format == "litert")
    explained += [table for table in loops if table]
    tensors_by_file = [read_quantization(artifact) for artifact in artifacts] if explain else []
    explained += [text_table(*COLUMNS, rows=quantization_rows(found)) for found in tensors_by_file if found]
    console = whole_console()
    console.print(tensors, *([dimensions] if known else []), files, *explained)
    for note in dict.fromkeys(note for artifact in artifacts for note in artifact.notes):
        console.print(printable(note), markup=False)


def _read(artifact: "Artifact", read: Callable[[Mapping[str, str]], _Record]) -> _Record:
    """Returns a record in the metadata of an artifact. An error names the path of the artifact."""
    try:
        return read(artifact.metadata)
    except ValueError as error:
        raise ValueError(f"{artifact.path} {error}") from error


def show_target_layers(layers: "Sequence[TargetLayer]") -> None:
    """Prints whether a device takes each layer."""
    whole_console().print(target_table(layers))


def target_table(layers: "Sequence[TargetLayer]", rewrites: "Sequence[Rewrite]" = ()) -> Any:
    """Returns a table with a row for each layer: its operators, the rules that they break, the rewritten operators."""
    table = text_table("layer", "operators", "on the device", *(["rewritten"] if rewrites else []))
    for each in layers:
        changed = [_list_rewritten(each.layer, rewrites)] if rewrites else []
        because = " ".join(f"{operator}: {reason}" for operator, reason in each.reasons.items())
        row = (each.layer or "between layers", _list_counts(each.operators))
        add_row(table, (*row, f"falls back, because {because}" if because else "takes it", *changed))
    return table


def loops_table(metadata: Mapping[str, str]) -> Any:
    """Returns a table of the recurrent layers that stay loops in a LiteRT file, or an empty text without one."""
    from keras_pe.export.artifacts.rewrite import read_unfused

    found = read_unfused(metadata)
    rows = [(layer, *each) for layer, reasons in found.items() for each in reasons.items()]
    return text_table("layer", "operator", "not used, because", rows=rows) if rows else ""


def show_metadata(artifact: "Artifact") -> None:
    """Prints the texts in an artifact, without those that `show_artifacts` prints in words."""
    from keras_pe.export.artifacts.artifact import FIXED_KEY, NOTES_KEY, SIZES_KEY
    from keras_pe.export.artifacts.rewrite import UNFUSED_KEY
    from keras_pe.export.artifacts.target_layers import TARGET_KEY

    shown = (FIXED_KEY, NOTES_KEY, SIZES_KEY, TARGET_KEY, UNFUSED_KEY)
    rows = [(key, value) for key, value in sorted(artifact.metadata.items()) if key not in shown]
    if rows:
        whole_console().print(text_table("metadata", "", rows=rows))


def contents_table(contents: "Sequence[LayerContents]", rewrites: "Sequence[Rewrite]" = ()) -> Any:
    """Returns the table, which rich prints.

    The column "unfused" has the operations that stay several operators, and the column "fused" those of a user's code
    that became one operator. A column without any content is left out.
    """
    from keras_pe.export.artifacts.onnx_contents import add_terms

    unfused = [_explain_unfused(each, rewrites) for each in contents]
    fused = [_list_rewritten(each.layer, rewrites) for each in contents]
    columns = {name: cells for name, cells in (("unfused", unfused), ("fused", fused)) if any(cells)}
    table = text_table("layer", "operators", "parameters", "size", "multiplications", *columns)
    for each, *texts in zip(contents, *columns.values(), strict=True):
        numbers = _cells(each.operators, each.parameters, each.nbytes, each.multiplications)
        add_row(table, (each.layer or "between layers", *numbers, *texts))
    table.add_section()
    operators = sum((Counter(each.operators) for each in contents), Counter())
    terms = [x for each in contents for x in ([None] if each.multiplications is None else each.multiplications)]
    counts = (sum(each.parameters for each in contents), sum(each.nbytes for each in contents))
    add_row(table, ("all", *_cells(operators, *counts, add_terms(terms))))
    return table


def _explain_unfused(contents: "LayerContents", rewrites: "Sequence[Rewrite]") -> str:
    """Returns why operations of a layer stay several operators, with the lines of a user's code."""
    placed = {key: lines for key, lines in _find_lines(contents.layer, rewrites).items() if key[1]}
    operators = {operator for operator, _ in placed}
    elsewhere = {key: "" for key in contents.unfused.items() if key[0] not in operators}
    return "; ".join(f"{operator}: {reason}{lines}" for (operator, reason), lines in (elsewhere | placed).items())


def _list_rewritten(layer: str, rewrites: "Sequence[Rewrite]") -> str:
    """Returns the operators of a layer that replace operations of a user's code or are rewritten, with the lines."""
    found = _find_lines(layer, rewrites).items()
    return "; ".join(f"{operator}{lines}" for (operator, reason), lines in found if not reason)


def _find_lines(layer: str, rewrites: "Sequence[Rewrite]") -> dict[tuple[str, str], str]:
    """Returns the lines of a user's code in a layer, by the operator and the reason."""
    from keras_pe.export.model.watch.code_places import describe_line

    found: dict[tuple[str, str], str] = {}
    for each in rewrites:
        if each.layer == layer and each.file is not None and each.line is not None:
            place, before = describe_line(each.file, each.line), found.get((each.operator, each.reason), "")
            found[each.operator, each.reason] = before if place in before else f"{before} {place}"
    return found


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
