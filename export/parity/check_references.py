"""The references of a check, one for each interface of an artifact, and their answers to the cases."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
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
    """A reference and its answers.

    Attributes:
        reference: The model with the interface of some artifacts.
        expectations: The answers of the reference.
        differences: Differences between the interfaces of the artifacts and the model that the user has not accepted.
        borders: Number of input/output adapters around the caller's model in the reference.
    """

    reference: Reference
    expectations: tuple[Expectation, ...]
    differences: tuple[Finding, ...] = ()
    borders: int = 0


def ask_references(
    open_reference: Callable[..., Reference],
    choose_cases: Callable[[Reference, Sequence[Path]], tuple[Case, ...]],
    model: Any,
    paths: Sequence[Path],
    border: Border | None,
    stack: ExitStack,
    watch: Stopwatch,
    precision: str | None = None,
    *,
    has_cases: bool = False,
) -> dict[Path | None, Asked]:
    """Returns the reference of each artifact by its path. The key None has the reference of the model and of a server.

    Args:
        open_reference: A function of a model. Its keywords are the interface and the artifacts that have it.
        choose_cases: A function that returns the cases of an open reference and the artifacts that share it;
            without an artifact, the cases of the model itself.
        model: As in `check_parity`.
        paths: The artifacts.
        border: As in `check_parity`.
        stack: Closes the references.
        watch: Measures the duration of each stage.
        precision: As in `check_parity`.
        has_cases: Whether the user chose the cases. An artifact may fix the batch of such cases.

    Raises:
        ValueError: If a border does not fit the model, or cannot be read.
    """
    if is_path(model) and locate(model)[0] == "keras":
        model = load_model(locate(model)[1])
        watch.stage("load the model")
    if is_path(model):
        if border is not None:
            raise ArgValueError(
                "border", f"must go with a Keras model. Received: border={border!r:.80}, model={model}."
            )
        opened = stack.enter_context(open_reference(model, recorded_in=paths))
        asked = Asked(opened, opened.answer(choose_cases(opened, [])))
        watch.stage("run the reference")
        return dict.fromkeys((None, *paths), asked)
    of_paths = {path: known_interface(path, border, model) for path in paths}
    references: dict[Interface, Reference] = {}
    for known, sharing in _sharing(of_paths) or [(known_interface(None, border, model), [])]:
        base = stack.enter_context(open_reference(model, interface=known, recorded_in=sharing))
        inferred = {path: inferred_interface(path, known, base.model, base.signature, precision) for path in sharing}
        of_paths |= inferred
        for interface, alike in _sharing(inferred) or [(known, [])]:
            is_base = interface == known
            references[interface] = (
                base if is_base else stack.enter_context(open_reference(model, interface=interface, recorded_in=alike))
            )
    free = replace(next(iter(references)), fixed=None)
    if has_cases and free not in references and len({interface.fixed for interface in references}) > 1:
        # The cases have several sizes. The model itself takes all of them.
        references[free] = stack.enter_context(open_reference(model, interface=free, recorded_in=paths))
    asked_of: dict[Interface, Asked] = {}
    for number, (interface, reference) in enumerate(references.items()):
        cases = choose_cases(reference, [path for path, own in of_paths.items() if own == interface])
        answers = reference.answer(_with_suffix(cases, f" ({number + 1})") if number else cases)
        borders = border_depth(reference.model) - border_depth(model)
        differences = interface.differences
        if has_cases:
            differences = tuple(each for each in differences if each.cause is not Cause.FROZEN_LENGTH)
        asked_of[interface] = Asked(reference, answers, differences, borders)
    watch.stage("run the reference")
    found: dict[Path | None, Asked] = {path: asked_of[interface] for path, interface in of_paths.items()}
    first = next((each for each in asked_of.values() if each.expectations), next(iter(asked_of.values())))
    return {None: asked_of.get(free, first) if has_cases else first, **found}


def measured_against(asked: Mapping[Path | None, Asked]) -> str:
    """Returns one sentence that names the reference and the sizes that each artifact fixes."""
    fixed = {path.name: each.reference.fixed for path, each in asked.items() if path and each.reference.fixed}
    limits = [f"{name} at {sizes_in_words(sizes)} only" for name, sizes in fixed.items()]
    remark = f"; {', '.join(limits)}: the artifact fixes the size" if limits else ""
    return f"{asked[None].reference.basis}{remark}"


def with_caller_paths(result: RuntimeResult, asked: Asked) -> RuntimeResult:
    """Returns a result with the paths of layers in the caller's model and with the differences of the interface.

    Args:
        result: The result of an artifact.
        asked: The reference that the artifact was compared with.
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
    """Returns each interface with the artifacts that share it."""
    found: dict[Interface, list[Path]] = {}
    for path, interface in interfaces.items():
        found.setdefault(interface, []).append(path)
    return list(found.items())


def _with_suffix(cases: Iterable[Case], suffix: str) -> tuple[Case, ...]:
    """Returns cases with a suffix in their names, which keeps the names unique among several references."""
    return tuple(
        replace(case, name=case.name + suffix, repeats=None if case.repeats is None else case.repeats + suffix)
        for case in cases
    )
