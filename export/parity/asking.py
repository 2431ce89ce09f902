"""The references of a check, one for each interface that an artifact has, and what each answers to its cases."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.interface import Interface, inferred_interface, known_interface
from keras_pe.export.comparison.references.opening import is_path, locate
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.model.border import Border
from keras_pe.export.model.border_record import border_depth
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.model.sizes.dimensions import sizes_in_words
from keras_pe.export.progress import Stopwatch
from keras_pe.export.results import Cause, Finding, RuntimeResult


@dataclass(frozen=True)
class Asked:
    """A reference, and what it has answered.

    Attributes:
        reference: The model as some artifacts have it.
        expectations: Its answers.
        differences: What these artifacts take or return otherwise than the model, which nobody has accepted.
        borders: How many borders stand around the caller's model in the reference.
    """

    reference: Reference
    expectations: tuple[Expectation, ...]
    differences: tuple[Finding, ...] = ()
    borders: int = 0


def ask_references(
    open_reference: Callable[..., Reference],
    choose_cases: Callable[[Reference], tuple[Case, ...]],
    model: Any,
    paths: Sequence[Path],
    border: Border | None,
    stack: ExitStack,
    watch: Stopwatch,
    precision: str | None = None,
    *,
    has_cases: bool = False,
) -> dict[Path | None, Asked]:
    """Returns what each artifact is measured against, by its path; under None that of the model itself and of a server.

    Args:
        open_reference: Takes a model, and by name the interface and the artifacts that have it.
        choose_cases: Takes an open reference.
        model: As in `check_parity`.
        paths: The artifacts.
        border: As in `check_parity`.
        stack: Closes the references.
        watch: Measures how long it takes.
        precision: As in `check_parity`.
        has_cases: Whether the cases are the user's own, whose batch an artifact may fix.

    Raises:
        ValueError: If a border does not fit the model, or cannot be read.
    """
    if is_path(model) and locate(model)[0] == "keras":
        model = load_model(locate(model)[1])
        watch.stage("load the model")
    if is_path(model):
        if border is not None:
            raise ValueError(f"`border` must go with a Keras model. Received: border={border!r:.80}, model={model}.")
        opened = stack.enter_context(open_reference(model, told_by=paths))
        asked = Asked(opened, opened.answer(choose_cases(opened)))
        watch.stage("run the reference")
        return dict.fromkeys((None, *paths), asked)
    of_paths = {path: known_interface(path, border, model) for path in paths}
    references: dict[Interface, Reference] = {}
    for known, sharing in _sharing(of_paths) or [(known_interface(None, border, model), [])]:
        base = stack.enter_context(open_reference(model, interface=known, told_by=sharing))
        inferred = {path: inferred_interface(path, known, base.model, base.signature, precision) for path in sharing}
        of_paths |= inferred
        for interface, alike in _sharing(inferred) or [(known, [])]:
            is_base = interface == known
            references[interface] = (
                base if is_base else stack.enter_context(open_reference(model, interface=interface, told_by=alike))
            )
    asked_of: dict[Interface, Asked] = {}
    for number, (interface, reference) in enumerate(references.items()):
        cases = choose_cases(reference)
        answers = reference.answer(_named(cases, f" ({number + 1})") if number else cases)
        borders = border_depth(reference.model) - border_depth(model)
        differences = interface.differences
        if has_cases:
            differences = tuple(each for each in differences if each.cause is not Cause.FROZEN_LENGTH)
        asked_of[interface] = Asked(reference, answers, differences, borders)
    watch.stage("run the reference")
    found: dict[Path | None, Asked] = {path: asked_of[interface] for path, interface in of_paths.items()}
    return {None: next(iter(asked_of.values())), **found}


def measured_against(asked: Mapping[Path | None, Asked]) -> str:
    """Returns what differences are measured against, in one sentence, with the sizes that each artifact fixes."""
    fixed = {path.name: each.reference.fixed for path, each in asked.items() if path and each.reference.fixed}
    said = [f"{name} at {sizes_in_words(sizes)} only" for name, sizes in fixed.items()]
    remark = f"; {', '.join(said)}: the artifact fixes the size" if said else ""
    return f"{asked[None].reference.basis}{remark}"


def as_of_model(result: RuntimeResult, asked: Asked) -> RuntimeResult:
    """Returns a result with the paths of layers as the caller's model has them, and with what nobody has accepted.

    Args:
        result: Of an artifact that the reference was compared with.
        asked: The reference.
    """
    prefix = f"{asked.reference.name}/" * asked.borders

    def own(path: str) -> str:
        return path.removeprefix(prefix)

    found = [
        replace(each, layer=None if each.layer is None else own(each.layer), absent=tuple(map(own, each.absent)))
        for each in result.findings
    ]
    proof = None if result.proof is None else replace(result.proof, layers=tuple(map(own, result.proof.layers)))
    layers = tuple(replace(each, layer=own(each.layer)) for each in result.layers)
    passed = result.passed and not asked.differences
    return replace(result, passed=passed, findings=(*asked.differences, *found), layers=layers, proof=proof)


def _sharing(interfaces: Mapping[Path, Interface]) -> list[tuple[Interface, list[Path]]]:
    """Returns each interface with the artifacts that have it."""
    found: dict[Interface, list[Path]] = {}
    for path, interface in interfaces.items():
        found.setdefault(interface, []).append(path)
    return list(found.items())


def _named(cases: Iterable[Case], suffix: str) -> tuple[Case, ...]:
    """Returns cases under names that those of another reference do not have."""
    return tuple(
        replace(case, name=case.name + suffix, repeats=None if case.repeats is None else case.repeats + suffix)
        for case in cases
    )
