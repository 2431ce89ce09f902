"""The interface between a model and an artifact: a `Border` from the caller or the file, or an inferred one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import BORDER_KEY, FIXED_KEY, VERSION_KEY, Artifact, TensorInfo
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.references.tensor_pairs import is_alone, is_decided, other_layout, pair
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.model.border import Border
from keras_pe.export.model.border_record import BorderRecord, border_depth, border_from_json
from keras_pe.export.model.signature.fixed_sizes import FixedSizes, fixed_sizes_from_json
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import Kind
from keras_pe.export.model.watch.layer_paths import matched_paths
from keras_pe.export.results import HALF, Cause, Finding, OtherValue
from keras_pe.export.runtimes.runtime import as_dtype


@dataclass(frozen=True)
class Interface:
    """The interface between a model and an artifact.

    Attributes:
        record: The border from the caller or the file; None without one.
        inferred: The border around `record` that the artifact's inputs and outputs imply; None if they agree.
        fixed: The sizes that the artifact records as fixed; None if it records none.
        differences: A finding for each inferred difference, which no user has accepted.
    """

    record: BorderRecord | None = None
    inferred: BorderRecord | None = None
    fixed: FixedSizes | None = None
    differences: tuple[Finding, ...] = field(default=(), compare=False)

    @property
    def layouts(self) -> dict[str, str]:
        """The artifact's layout of each input or output whose layout differs from the model's."""
        borders = [each.border for each in (self.record, self.inferred) if each is not None]
        return {name: layout for border in borders for name, layout in border.layout.items()}

    def around(self, model: Any, input_signature: Any = None) -> tuple[Any, Any]:
        """Returns the model with the artifact's interface, and its signature; both unchanged if they agree."""
        for record in (self.record, self.inferred):
            if record is not None:
                model, input_signature = record.around(model, input_signature, self.fixed)
        return model, input_signature


def known_interface(path: Path | None, border: Border | None, model: Any) -> Interface:
    """Returns the interface with the caller's border, or else the artifact's, and the artifact's fixed sizes.

    A decoder of another exporter has no record, so its inputs define the border.

    Args:
        path: The artifact; None if a server runs it.
        border: The caller's border.
        model: The Keras model.

    Raises:
        ValueError: If the recorded border or the recorded sizes cannot be read.
    """
    artifact = None if path is None else _read(path)
    known = {} if artifact is None else artifact.metadata
    text, sizes = (known.get(key) for key in (BORDER_KEY, FIXED_KEY))
    try:
        fixed = None if sizes is None else fixed_sizes_from_json(sizes)
        if artifact is not None and VERSION_KEY not in known and border in (None, Border(state="cache")):
            from keras_pe.export.model.foreign_decoder import foreign_decoder_record  # imports Keras

            if (record := foreign_decoder_record(model, artifact.inputs)) is not None:
                return Interface(record, fixed=fixed)
        if border is not None:
            return Interface(BorderRecord(repr(border), border, border_depth(model) + 1), fixed=fixed)
        recorded = None if text is None else border_from_json(text)
        if recorded is not None and artifact is not None:
            names = ([spec.name for spec in specs] for specs in (artifact.inputs, artifact.outputs))
            recorded = recorded.renumber(model, *names)
        return Interface(recorded, fixed=fixed)
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error


def inferred_interface(
    path: Path, known: Interface, model: Any, signature: Signature, precision: str | None = None
) -> Interface:
    """Returns the interface with a border inferred from the names, types and shapes of an artifact.

    Args:
        path: The artifact.
        known: The interface from the caller or the file.
        model: The Keras model within `known`.
        signature: The inputs and outputs of the model.
        precision: The precision that the user accepts. Inputs and outputs may have this type.
    """
    artifact = _read(path)
    if artifact is None:
        return known
    found = _Inference(is_own=VERSION_KEY in artifact.metadata, precision=precision)
    found.match_batch(signature.inputs, artifact.inputs)
    found.match_inputs(signature.inputs, artifact.inputs)
    found.match_outputs(signature.outputs, artifact.outputs)
    if not found.fields:
        return replace(known, differences=tuple(found.findings))
    border = Border(**found.fields)
    record = BorderRecord(repr(border), border, border_depth(model) + 1)
    given = None if known.record is None else known.record.border
    is_recorded = BORDER_KEY in artifact.metadata and given is not None
    way_out = _RECORDED if is_recorded else _accepting(_fields_together(given, found.fields))
    differences = [each if each.cause in _INPUTS else _with_way_out(each, way_out) for each in found.findings]
    return replace(known, inferred=record, differences=tuple(differences))


def _read(path: Path) -> Artifact | None:
    try:
        return read_artifact(path)
    except (ValueError, ImportError, OSError):  # the runtime will report the fault on loading
        return None


class _Inference:
    """The inferred fields of a border, and the findings that support them."""

    def __init__(self, *, is_own: bool, precision: str | None) -> None:
        self.fields: dict[str, Any] = {}
        self.findings: list[Finding] = []
        self._is_own, self._precision = is_own, precision

    def match_batch(self, wanted: Sequence[TensorInfo], found: Sequence[TensorInfo]) -> None:
        """Compares the first dimension of all inputs, if it is the batch."""
        first = {spec.shape[0] if spec.shape else "" for spec in found}
        is_free = all(spec.shape and spec.shape[0] == Kind.BATCH for spec in wanted)
        if is_free and len(first) == 1 and isinstance(size := first.pop(), int):
            self.fields[Kind.BATCH] = size
            message, sizes = f"The artifact accepts only a batch of {size}.", (OtherValue(Kind.BATCH, None, size),)
            self.findings.append(Finding(Cause.FROZEN_LENGTH, message, parameters=sizes))

    def match_inputs(self, wanted: Sequence[TensorInfo], found: Sequence[TensorInfo]) -> None:
        """Compares each input of the model with one of the artifact."""
        pairs = pair(wanted, found)
        missing = [spec.name for spec in wanted if spec not in pairs]
        extra = [spec.name for spec in found if spec not in pairs.values()]
        if missing and extra:  # the runtime will report on loading that these inputs are not the model's
            return
        for cause, names in ((Cause.MISSING_INPUT, missing), (Cause.EXTRA_INPUT, extra)):
            if names:
                self.findings.append(Finding(cause, _INPUTS[cause].format(", ".join(map(repr, names)))))
        # Keras numbers default names. A name with another number counts as the default name.
        renumbered = matched_paths([spec.name for spec in wanted], [spec.name for spec in found])
        for ours, theirs in pairs.items():
            name = ours.name
            if ours.name != theirs.name and self._is_own and renumbered.get(name) != theirs.name:
                name = theirs.name
                message = f"Input {theirs.name!r} of the artifact is {ours.name!r} of the model."
                self._add(Finding(Cause.RENAMED_INPUT, message), "inputs", name, ours.name)
            if self._is_another_type(ours.dtype, theirs.dtype, is_input=True):
                message = f"Input {theirs.name!r} is {theirs.dtype} in the artifact and {ours.dtype} in the model."
                self._add(Finding(Cause.OTHER_INPUT_TYPE, message), "dtypes", name, theirs.dtype)
            if (layout := other_layout(ours.shape, theirs.shape)) is not None:
                self._add(Finding(Cause.OTHER_IMAGE_LAYOUT, _shape_text("Input", ours, theirs)), "layout", name, layout)

    def match_outputs(self, wanted: Sequence[TensorInfo], found: Sequence[TensorInfo]) -> None:
        """Compares each output of the artifact with one of the model."""
        ours = {spec.name: spec for spec in wanted}
        kept = [spec.name for spec in found if spec.name in ours]
        if len(kept) < len(found) or len(found) < len(wanted):
            pairs = pair(wanted, found)
            is_unambiguous = len(found) == len(wanted) or all(is_alone(spec, wanted, found) for spec in found)
            if len(pairs) != len(found) or not is_unambiguous:
                return
            ours = {theirs.name: spec for spec, theirs in pairs.items()}
            gone = [spec.name for spec in wanted if spec not in pairs]
            if gone or any(self._is_changed(*pair) for pair in pairs.items()):  # renames are matched by a run
                self.fields["outputs"] = {name: spec.name for name, spec in ours.items()}
            for name in gone:
                message = f"The artifact returns {', '.join(map(repr, ours))}, but not the model's {name!r}."
                self.findings.append(Finding(Cause.MISSING_OUTPUT, message, output=name))
        for theirs in found:
            if theirs.name in ours:
                self._match_output(ours[theirs.name], theirs)

    def _match_output(self, ours: TensorInfo, theirs: TensorInfo) -> None:
        name = theirs.name
        if is_decided(ours, theirs):
            message = (
                f"Output {name!r} is {theirs.dtype} {_shape(theirs)} in the artifact, the index of the largest value "
            )
            message += f"of {ours.name!r} {_shape(ours)}."
            self._add(Finding(Cause.DECIDED_OUTPUT, message, output=name), "postprocessing", name, "argmax")
            if theirs.dtype != _INDEX:
                self.fields.setdefault("dtypes", {})[name] = theirs.dtype
            return
        if (layout := other_layout(ours.shape, theirs.shape)) is not None:
            message = _shape_text("Output", ours, theirs)
            self._add(Finding(Cause.OTHER_IMAGE_LAYOUT, message, output=name), "layout", name, layout)
        if self._is_another_type(ours.dtype, theirs.dtype, is_input=False):
            message = f"Output {name!r} is {theirs.dtype} in the artifact and {ours.dtype} in the model."
            self._add(Finding(Cause.OTHER_DTYPE, message, output=name), "dtypes", name, theirs.dtype)

    def _is_changed(self, ours: TensorInfo, theirs: TensorInfo) -> bool:
        """Whether an output of the artifact differs from the model's in more than its name."""
        return (
            is_decided(ours, theirs)
            or other_layout(ours.shape, theirs.shape) is not None
            or self._is_another_type(ours.dtype, theirs.dtype, is_input=False)
        )

    def _is_another_type(self, ours: str, theirs: str, *, is_input: bool) -> bool:
        """Whether a type cannot replace another. A wider float can, and so can the accepted precision."""
        if ours == theirs or "string" in (ours, theirs):
            return False
        if not (is_float(as_dtype(ours)) and is_float(as_dtype(theirs))):
            return True
        if theirs == self._precision:
            return False
        return not (
            (ours in HALF and theirs == "float32") or (not is_input and STRICT.serves(as_dtype(ours), as_dtype(theirs)))
        )

    def _add(self, finding: Finding, title: str, name: str, value: str) -> None:
        self.fields.setdefault(title, {})[name] = value
        self.findings.append(finding)


_RECORDED = "Export the model again."
_INPUTS = {
    Cause.MISSING_INPUT: (
        "The artifact lacks the model's input {}. No option accepts this. Export the model again with every input, or "
        "compare with a model without it."
    ),
    Cause.EXTRA_INPUT: (
        "The artifact has the input {}, which the model lacks. No option accepts this. Make it a constant of the "
        "artifact, or compare with a model that has it."
    ),
}
_INDEX = "int32"  # the type of the decisions of `Border`
_OPTIONS = {
    "inputs": "--rename-input",
    "dtypes": "--dtype",
    "layout": "--layout",
    "outputs": "--output",
    "postprocessing": "--postprocessing",
}


def _with_way_out(finding: Finding, way_out: str) -> Finding:
    return replace(finding, evidence=f"{finding.evidence} {way_out}")


def _fields_together(border: Border | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of one border that equals a border and another one around it."""
    found: dict[str, Any] = {} if border is None else {name: value for name, value in vars(border).items() if value}
    if "outputs" in found and not isinstance(found["outputs"], Mapping):
        found["outputs"] = {name: name for name in found["outputs"]}
    for title, value in fields.items():
        if title == Kind.BATCH or title not in found:
            found[title] = value
            continue
        own = found[title]
        if title in ("inputs", "outputs"):  # the outer border maps its names to names of the inner border
            renamed = {name: own.get(inner, inner) for name, inner in value.items()}
            kept = {} if title == "outputs" else {name: of for name, of in own.items() if name not in value.values()}
            found[title] = {**kept, **renamed}
        else:
            found[title] = {**own, **value}
    return found


def _accepting(fields: Mapping[str, Any]) -> str:
    """Returns the sentence with the options that accept a border."""
    options = [f"--batch {fields[Kind.BATCH]}"] if Kind.BATCH in fields else []
    for title, option in _OPTIONS.items():
        pairs = fields.get(title, {}).items()
        options += [
            f"{option} {name}" if title == "outputs" and name == value else f"{option} {name}={value}"
            for name, value in pairs
        ]
    arguments = ", ".join(f"{title}={value!r}" for title, value in fields.items())
    short = sorted(set(fields.get("dtypes", {}).values()).intersection(HALF))
    rounding = f" If the artifact also computes in {short[0]}, pass precision={short[0]!r}." if short else ""
    return f"Accept it with {' '.join(options)}, or border=Border({arguments}).{rounding}"


def _shape_text(kind: str, ours: TensorInfo, theirs: TensorInfo) -> str:
    return f"{kind} {theirs.name!r} has the shape {_shape(theirs)} in the artifact and {_shape(ours)} in the model."


def _shape(spec: TensorInfo) -> str:
    return f"({', '.join(map(str, spec.shape))})"
