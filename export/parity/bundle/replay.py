"""Runs the failures of a bundle again: same artifact, same runtime, same inputs in the same order, no model."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.parity.bundle.bundle import Failure, read_bundle
from keras_pe.export.parity.bundle.hashes import hash_files
from keras_pe.export.parity.check import Progress, tried_input, versions_of
from keras_pe.export.parity.inputs.cases import Case
from keras_pe.export.parity.references.reference import Expectation, StoredReference
from keras_pe.export.parity.results import Array, NotTried, ParityReport, RuntimeResult
from keras_pe.export.parity.verdict.examine import examine
from keras_pe.export.runtimes.registry import known_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker


def replay_bundle(bundle: str | Path, *, timeout: float = 120.0, progress: Progress | None = None) -> ParityReport:
    """Runs every failure of a bundle again, and compares with what was expected then.

    Args:
        bundle: What `write_bundle` wrote. An artifact is looked for where it was as seen from the bundle, then where it
            was on the machine that wrote it.
        timeout: As in `check_parity`.
        progress: As in `check_parity`.

    Returns:
        The report: it has passed if no failure is there any more. Its basis says which artifacts have changed since.

    Raises:
        ValueError: If it is no bundle, or a runtime in it is unknown here.
        FileNotFoundError: If an artifact is missing.
    """
    start = time.perf_counter()
    content = read_bundle(bundle)
    jobs = [(failure, _find_spec(failure), _find_artifact(failure)) for failure in content.failures]
    changed = sorted({path.name for failure, _, path in jobs if _changed(failure, path)})
    results: list[RuntimeResult] = []
    not_tried: list[NotTried] = []
    expectations: dict[str, Expectation] = {}
    for done, (failure, spec, path) in enumerate(jobs):
        if progress is not None:
            progress(done, len(jobs), spec.name)
        expectation = _expectation(failure)
        expectations[failure.recording.case] = expectation
        if spec.installed:
            results.append(_run(failure, spec, path, expectation, timeout))
        else:
            not_tried.append(NotTried(spec.name, str(path), spec.install))
    basis = f"the answers recorded in {bundle} ({content.basis})"
    return ParityReport(
        model=content.model,
        basis=basis + (f"; changed since: {', '.join(changed)}" if changed else ""),
        tried=tuple(tried_input(each) for each in expectations.values()),
        results=tuple(results),
        not_tried=tuple(not_tried),
        seed=content.seed,
        versions=versions_of([result.version for result in results]),
        seconds=time.perf_counter() - start,
    )


class _PrimedWorker(Worker):
    """A runtime that has been asked what it had been asked before the failure: its state may depend on it."""

    def __init__(self, spec: RuntimeSpec, timeout: float, before: tuple[Mapping[str, Array], ...]) -> None:
        super().__init__(spec, timeout)
        self._before = before

    def load(self, path: Path | None) -> None:
        super().load(path)
        for inputs in self._before:
            with contextlib.suppress(RuntimeRefusedError):
                self.run(inputs)


def _run(failure: Failure, spec: RuntimeSpec, path: Path, expectation: Expectation, timeout: float) -> RuntimeResult:
    reference = StoredReference(
        "the recorded answers", {expectation.case.name: (expectation.case, expectation.outputs or {})}
    )
    with _PrimedWorker(spec, timeout, failure.recording.before) as worker:
        result = examine(worker, path, reference, [expectation])
    if result.passed or _changed(failure, path):
        return result
    # The cause was found with the model at hand; recorded answers alone may not tell it.
    return replace(result, findings=failure.findings or result.findings)


def _expectation(failure: Failure) -> Expectation:
    recording = failure.recording
    case = Case(recording.case, recording.inputs, f"failed in {failure.runtime}")
    if not recording.expected:
        return Expectation(case, None, refused="the reference refused it then")
    return Expectation(case, dict(recording.expected), dict(recording.truth) or None)


def _find_spec(failure: Failure) -> RuntimeSpec:
    """Returns the runtime, installed or not."""
    for spec in known_runtimes():
        if spec.name == failure.runtime:
            return spec
    names = ", ".join(sorted(spec.name for spec in known_runtimes()))
    raise ValueError(f"The bundle's runtime {failure.runtime!r} is unknown here. Known are: {names}.")


def _find_artifact(failure: Failure) -> Path:
    for place in failure.places:
        if place.exists():
            return place
    raise FileNotFoundError(f"No artifact at {' or at '.join(map(str, failure.places))}. Put it at one of them.")


def _changed(failure: Failure, artifact: Path) -> bool:
    found = hash_files(artifact)
    return any(found.get(name) != value for name, value in failure.hashes.items())
