"""Which input and output of an artifact is which of the model's, where they have other names there, or other types."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from keras_pe.export.artifacts.artifact import VERSION_KEY, TensorInfo
from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.comparison.law import STRICT, is_float
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.model.watch.layer_paths import matched_paths
from keras_pe.export.results import HALF, Array, NameMatch
from keras_pe.export.runtimes.runner import Names, Runner
from keras_pe.export.runtimes.runtime import as_dtype

_WAY_OUT = "Other names are matched where number, types and shapes agree; else give the artifact the model's names."
_OWN_WAY_OUT = (
    "A file of this package has the names of its model, and others are not matched unless only their number is "
    "another: export the model again."
)


def match_inputs(reference: Reference, inputs: Sequence[TensorInfo], path: Path | None) -> tuple[NameMatch, ...]:
    """Returns the inputs that the artifact calls otherwise; none where it knows no other names than the model.

    Args:
        reference: The model.
        inputs: What the artifact takes.
        path: The artifact; None where a server has it.

    Raises:
        RuntimeRefusedError: If it has other names and cannot be matched.
    """
    order = [] if reference.signature is None else reference.signature.flattened()[0]
    known = {spec.name: spec for spec in reference.inputs}
    wanted = [known[name] for name in order] or list(reference.inputs)
    named = {spec.name for spec in inputs}
    if named == known.keys() or (path is not None and named < known.keys()):  # what a file lacks has its own cause
        return ()
    matched = _match("input", wanted, inputs, path)
    if matched is None:
        raise RuntimeRefusedError(
            f"The artifact's inputs are not those of the model. The model takes {described(wanted)}; "
            f"the artifact takes {described(inputs)}. {way_out(path)}"
        )
    return matched


def match_outputs(
    reference: Reference, expected: Mapping[str, Array], answer: Mapping[str, Array], path: Path | None
) -> tuple[NameMatch, ...]:
    """Returns the outputs that the artifact calls otherwise; none where it cannot be told which is which.

    Args:
        reference: The model.
        expected: Its outputs in one case.
        answer: What the artifact returned.
        path: The artifact; None where a server has it.
    """
    if expected.keys() == answer.keys():
        return ()
    order = list(expected) if reference.signature is None else reference.signature.flattened()[1]
    wanted = [_info(name, expected[name]) for name in order if name in expected]
    return _match("output", wanted, [_info(*pair) for pair in answer.items()], path) or ()


def as_names(matches: Sequence[NameMatch]) -> Names:
    """Returns what was matched as a runner takes it."""
    inputs = {each.model: each.artifact for each in matches if each.kind == "input"}
    return Names(inputs, {each.model: each.artifact for each in matches if each.kind == "output"})


def input_dtypes(runner: Runner) -> dict[str, np.dtype]:
    """Returns the types that the artifact takes, by the model's names."""
    ours = {theirs: name for name, theirs in runner.names.inputs.items()}
    return {ours.get(spec.name, spec.name): as_dtype(spec.dtype) for spec in runner.inputs}


def in_its_floats(runner: Runner, inputs: Mapping[str, Array], precision: str | None) -> Mapping[str, Array]:
    """Returns inputs with floats as the artifact takes them: those of 16 bits in float32, where it has that for them.

    Others are rounded where it takes them in the precision that its user accepts.
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


def described(specs: Sequence[TensorInfo]) -> str:
    """Returns inputs or outputs as text: each with its type and shape."""
    return ", ".join(f"{spec.name!r} {spec.dtype} ({', '.join(map(str, spec.shape))})" for spec in specs) or "nothing"


def described_arrays(arrays: Mapping[str, Array]) -> str:
    """Returns arrays by name as text: each with its type and shape."""
    return described([_info(*pair) for pair in arrays.items()])


def _match(
    kind: Literal["input", "output"], wanted: Sequence[TensorInfo], found: Sequence[TensorInfo], path: Path | None
) -> tuple[NameMatch, ...] | None:
    """Returns who is who among those without their like in name: each gets the first of those left that fits it.

    Where the numbers of names alone differ, these tell it. In a file of this package nothing else does.
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
    """Whether types and shapes agree; a dynamic dimension agrees with any."""
    pairs = zip(wanted.shape, found.shape, strict=False)
    return (
        len(wanted.shape) == len(found.shape)
        and STRICT.serves(as_dtype(wanted.dtype), as_dtype(found.dtype))
        and all(one == other or isinstance(one, str) or isinstance(other, str) for one, other in pairs)
    )


def _info(name: str, array: Array) -> TensorInfo:
    return TensorInfo(name, array.shape, "string" if array.dtype.kind in "OSU" else array.dtype.name)


def way_out(path: Path | None) -> str:
    """Returns what to do where the names are not the model's."""
    return _OWN_WAY_OUT if has_own_names(path) else _WAY_OUT


def has_own_names(path: Path | None) -> bool:
    """Whether it is a file of this package: it promises the model's names, and others are a fault."""
    if path is not None:
        with contextlib.suppress(ValueError, ImportError, OSError):  # of a format that cannot be read here
            return VERSION_KEY in read_artifact(path).metadata
    return False
