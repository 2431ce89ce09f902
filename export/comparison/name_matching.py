"""Matches inputs and outputs of an artifact with those of the model, if their names or types differ."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from keras_pe.export.artifacts.artifact import VERSION_KEY, TensorInfo
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.model.watch.layer_paths import matched_paths
from keras_pe.export.results import HALF, Array, NameMatch
from keras_pe.export.runtimes.runner import Names, Runner
from keras_pe.export.runtimes.runtime import as_dtype

_WAY_OUT = "Other names are matched only if number, types and shapes agree. Give the artifact the model's names."
_OWN_WAY_OUT = (
    "In a file of this package the check only matches names that differ in their number. Export the model again."
)


def match_inputs(reference: Reference, inputs: Sequence[TensorInfo], path: Path | None) -> tuple[NameMatch, ...]:
    """Returns the inputs with other names in the artifact; an empty tuple if all names are the model's.

    Args:
        reference: The model.
        inputs: The inputs of the artifact.
        path: The artifact; None if a server runs it.

    Raises:
        RuntimeRefusedError: If names differ and cannot be matched.
    """
    order = [] if reference.signature is None else reference.signature.flat_names()[0]
    known = {spec.name: spec for spec in reference.inputs}
    wanted = [known[name] for name in order] or list(reference.inputs)
    named = {spec.name for spec in inputs}
    if named == known.keys() or (path is not None and named < known.keys()):  # a missing input is a separate cause
        return ()
    matched = _match("input", wanted, inputs, path)
    if matched is None:
        raise RuntimeRefusedError(
            f"The inputs of the artifact differ from those of the model. The model takes {describe_specs(wanted)}; "
            f"the artifact takes {describe_specs(inputs)}. {way_out(path)}"
        )
    return matched


def match_outputs(
    reference: Reference, expected: Mapping[str, Array], answer: Mapping[str, Array], path: Path | None
) -> tuple[NameMatch, ...]:
    """Returns the outputs with other names in the artifact; an empty tuple if they cannot be matched.

    Args:
        reference: The model.
        expected: The outputs of the model in one case.
        answer: The outputs of the artifact.
        path: The artifact; None if a server runs it.
    """
    if expected.keys() == answer.keys():
        return ()
    order = list(expected) if reference.signature is None else reference.signature.flat_names()[1]
    wanted = [_info(name, expected[name]) for name in order if name in expected]
    return _match("output", wanted, [_info(*pair) for pair in answer.items()], path) or ()


def runner_names(matches: Sequence[NameMatch]) -> Names:
    """Returns matches as the names that a runner takes."""
    inputs = {each.model: each.artifact for each in matches if each.kind == "input"}
    return Names(inputs, {each.model: each.artifact for each in matches if each.kind == "output"})


def input_dtypes(runner: Runner) -> dict[str, np.dtype]:
    """Returns the types of the artifact's inputs, by the model's names."""
    ours = {theirs: name for name, theirs in runner.names.inputs.items()}
    return {ours.get(spec.name, spec.name): as_dtype(spec.dtype) for spec in runner.inputs}


def cast_to_runtime_floats(runner: Runner, inputs: Mapping[str, Array], precision: str | None) -> Mapping[str, Array]:
    """Returns inputs with the float types of the artifact: 16-bit floats become float32 if the artifact takes float32.

    Other floats are rounded if the artifact takes them in the precision that its user accepts.
    """
    dtypes = input_dtypes(runner)
    cast = dict(inputs)
    for name, array in inputs.items():
        wanted = dtypes[name].name if name in dtypes else ""
        is_wider = array.dtype.name in HALF and wanted == "float32"
        if is_wider or (wanted == precision and is_float(array.dtype)):
            with np.errstate(over="ignore"):
                cast[name] = array.astype(dtypes[name], copy=False)
    return cast if any(cast[name] is not array for name, array in inputs.items()) else inputs


def describe_specs(specs: Sequence[TensorInfo]) -> str:
    """Returns inputs or outputs as text, each with its type and shape."""
    return ", ".join(f"{spec.name!r} {spec.dtype} ({', '.join(map(str, spec.shape))})" for spec in specs) or "nothing"


def describe_arrays(arrays: Mapping[str, Array]) -> str:
    """Returns arrays by name as text, each with its type and shape."""
    return describe_specs([_info(*pair) for pair in arrays.items()])


def _match(
    kind: Literal["input", "output"], wanted: Sequence[TensorInfo], found: Sequence[TensorInfo], path: Path | None
) -> tuple[NameMatch, ...] | None:
    """Returns matches of tensors without a counterpart of equal name: each takes the first remaining one that fits.

    If names differ in their numbers only, the numbers decide. In a file of this package, only the numbers may differ.
    """
    counted = matched_paths([spec.name for spec in wanted], [spec.name for spec in found])
    pairs = {name: other for name, other in counted.items() if name != other}
    names = {spec.name for spec in wanted} & {spec.name for spec in found} - pairs.keys()
    ours = [spec for spec in wanted if spec.name not in names]
    theirs = [spec for spec in found if spec.name not in names]
    if len(ours) != len(theirs) or (has_own_names(path) and len(ours) > len(pairs)):
        return None
    matched: list[NameMatch] = []
    left = list(theirs)
    for spec in ours:
        named = {pairs[spec.name]} if spec.name in pairs else {each.name for each in theirs} - {*pairs.values()}
        fitting = [other for other in left if other.name in named and _fits(spec, other)]
        if not fitting:
            return None
        left.remove(fitting[0])
        alike = [other for other in theirs if _fits(spec, other)]
        matched.append(NameMatch(kind, spec.name, fitting[0].name, by_order=len(alike) > 1))
    return tuple(each for each in matched if each.model != each.artifact)


def _fits(wanted: TensorInfo, found: TensorInfo) -> bool:
    """Whether types and shapes agree. A dynamic dimension agrees with any."""
    pairs = zip(wanted.shape, found.shape, strict=False)
    return (
        len(wanted.shape) == len(found.shape)
        and STRICT.serves(as_dtype(wanted.dtype), as_dtype(found.dtype))
        and all(one == other or isinstance(one, str) or isinstance(other, str) for one, other in pairs)
    )


def _info(name: str, array: Array) -> TensorInfo:
    return TensorInfo(name, array.shape, "string" if array.dtype.kind in "OSU" else array.dtype.name)


def way_out(path: Path | None) -> str:
    """Returns the way out for names that differ from the model's."""
    return _OWN_WAY_OUT if has_own_names(path) else _WAY_OUT


def has_own_names(path: Path | None) -> bool:
    """Whether this package wrote the file. Such a file promises the model's names, so other names are a fault."""
    if path is not None:
        with contextlib.suppress(ValueError, ImportError, OSError):  # this environment cannot read the format
            return VERSION_KEY in read_artifact(path).metadata
    return False
