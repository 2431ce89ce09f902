"""Repeats the failures of a bundle: equal artifact, runtime and inputs in equal order, without the model."""

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from keras_pe.export.artifacts.read_artifact import hash_files
from keras_pe.export.comparison.acceptance import accept_result
from keras_pe.export.comparison.chunked_calls import ignore_padding, run_in_chunks
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation, StoredReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.comparison.tolerance import TolerancePolicy, accepting
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.parity.bundle import RecordedFailure, read_bundle
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.parity.file_signatures import unreadable_result, write_signature
from keras_pe.export.parity.parity_report import ParityReport, make_report
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.progress import DIAGNOSIS_SECONDS, TIMEOUT, Budget, Progress, Stopwatch, check_seconds, telling
from keras_pe.export.results import Array, Recording, RuntimeResult
from keras_pe.export.runtimes.registry import known_runtimes, named_runtimes
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.worker import Worker


@foreign_code()
def replay_bundle(
    bundle: str | os.PathLike[str],
    *,
    runtimes: str | RuntimeSpec | Sequence[str | RuntimeSpec] = (),
    timeout: float = TIMEOUT,
    diagnosis_seconds: float = DIAGNOSIS_SECONDS,
    progress: Progress | bool | None = None,
) -> ParityReport:
    """Runs every failure of a bundle again, and compares the outputs with the recorded expected values.

    Args:
        bundle: A file of `write_bundle`. An artifact is looked up at its recorded path relative to the bundle, and then
            at its recorded absolute path.
        runtimes: Additional runtimes that may run, by name or as specs, such as "onnxruntime@/path/to/python". The
            runtimes of this package and registered runtimes may always run. A bundle that names another runtime is
            refused, since a bundle may come from an untrusted source.
        timeout: As in `check_parity`.
        diagnosis_seconds: As in `check_parity`.
        progress: As in `check_parity`.

    Returns:
        The report. It has passed if no failure persists. `reference` names the artifacts that have changed. A failure
        in a signature that its file no longer has is a failed result.

    Raises:
        ValueError: If the file is not a bundle, or one of its runtimes is neither known nor in `runtimes`.
        FileNotFoundError: If an artifact is missing.
    """
    check_seconds(timeout, diagnosis_seconds)
    watch = Stopwatch()
    content = read_bundle(bundle)
    allowed = {spec.name: spec for spec in (*known_runtimes(), *_requested_runtimes(runtimes))}
    jobs = [_Job(failure, _find_spec(failure, allowed), _find_artifact(failure)) for failure in content.failures]
    changed = [job.path.name for job in jobs if job.has_changed]
    policy = accepting(content.allowance)
    results: list[RuntimeResult] = []
    expectations: dict[str, Expectation] = {}
    with telling(progress) as tell:
        for done, job in enumerate(jobs):
            tell(done, len(jobs), job.spec.name)
            expectation = _expectation(job.failure)
            expectations[expectation.case.name] = expectation
            if job.spec.installed:
                results.append(_run(job, expectation, policy, timeout, diagnosis_seconds))
                watch.stage(f"{job.spec.name} {job.path.name}", results[-1].seconds)
    reference = f"the answers recorded in {bundle} ({content.reference})"
    reference += f"; changed since: {', '.join(sorted(set(changed)))}" if changed else ""
    ran = [(job.spec, job.path) for job in jobs]
    return make_report(
        content.model, reference, content.allowance, expectations.values(), results, ran, watch, content.seed
    )


def replay_command(report: ParityReport, bundle: Path) -> str:
    """Returns the command that replays a bundle of this report, with its runtimes of other packages as options."""
    known = {spec.name for spec in known_runtimes()}
    others = dict.fromkeys(each.runtime for each in report.results if each.recording and each.runtime not in known)
    named = [word for runtime in others for word in ("--runtime", runtime)]
    return shlex.join(["keras-pe", "check", "--replay", str(bundle), *named])


@dataclass(frozen=True)
class _Job:
    """A failure with its runtime and its artifact on this machine."""

    failure: RecordedFailure
    spec: RuntimeSpec
    path: Path

    @cached_property
    def has_changed(self) -> bool:
        """Whether the artifact differs from the recorded one."""
        found = hash_files(self.path)
        return any(found.get(name) != value for name, value in self.failure.hashes.items())


class _PrimedWorker(Worker):
    """A runtime that runs the inputs that preceded the failure, since its state may depend on them.

    A recorded sequence runs as one case.
    """

    def __init__(self, spec: RuntimeSpec, timeout: float, recording: Recording) -> None:
        super().__init__(spec, timeout)
        self._before, self._chunks, self._expected = recording.before, recording.chunks, recording.expected
        self._due: list[Mapping[str, Array]] = []

    def load(self, path: Path | None = None, spec: RuntimeSpec | None = None) -> None:
        super().load(path, spec)
        self._due = list(self._before)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        while self._due:  # not in `load`, since the names of the artifact's inputs are unknown until the first run
            with contextlib.suppress(RuntimeRefusedError):
                super().run(self._due.pop(0))
        if self._chunks is None:
            return super().run(inputs)
        chunks = self._chunks
        found = run_in_chunks(super().run, inputs, chunks.sizes, chunks.axes, chunks.carried, chunks.growing)
        if chunks.padding is None:
            return found
        return dict(ignore_padding(found, self._expected, inputs[chunks.padding], chunks.carried))


def _run(
    job: _Job, expectation: Expectation, policy: TolerancePolicy, timeout: float, diagnosis_seconds: float
) -> RuntimeResult:
    answered = job.failure.recording.actual  # the outputs that the check compared, whose types matter
    key = job.failure.signature
    with (
        StoredReference("the recorded answers", expectation.case, expectation.outputs or {}, answered) as reference,
        _PrimedWorker(job.spec, timeout, job.failure.recording) as worker,
        ExitStack() as stack,
    ):
        try:
            path = write_signature(job.path, key, stack) if key else job.path
        except Exception as error:  # a changed or damaged file may raise any error
            return unreadable_result(job.path, key, job.spec.name, error)
        run = run_cases(worker, job.spec, path, reference, [expectation], policy.allowance.precision)
        result = run.result
        if not result.passed:
            result = diagnose(run, worker, reference, reference.roles, Budget(diagnosis_seconds))
            result = result if policy.allowance.is_none else accept_result(result, run, reference, policy)
    result = replace(result, artifact=str(job.path), signature=key)
    if run.result.passed or job.has_changed:
        return result
    # The recorded findings used the model. The recorded answers alone may not suffice to find the cause.
    return replace(result, findings=job.failure.findings or result.findings)


def _expectation(failure: RecordedFailure) -> Expectation:
    recording = failure.recording
    case = Case(recording.case, recording.inputs, f"failed in {failure.runtime}")
    if not recording.expected:
        return Expectation(case, None, error="the reference refused it then")
    return Expectation(case, dict(recording.expected), dict(recording.truth) or None)


def _requested_runtimes(runtimes: str | RuntimeSpec | Sequence[str | RuntimeSpec]) -> Iterator[RuntimeSpec]:
    """Yields the runtimes of some names or specs, installed or not."""
    for each in [runtimes] if isinstance(runtimes, str | RuntimeSpec) else runtimes:
        yield from [each] if isinstance(each, RuntimeSpec) else named_runtimes(each)


def _find_spec(failure: RecordedFailure, allowed: Mapping[str, RuntimeSpec]) -> RuntimeSpec:
    """Returns the runtime of a failure, installed or not."""
    if failure.runtime in allowed:
        return allowed[failure.runtime]
    raise ValueError(
        f"The bundle's runtime {failure.runtime!r} is not one of this package's. If you trust it, name it: "
        f"--runtime {shlex.quote(failure.runtime)}, or in Python `runtimes=` with its name or its RuntimeSpec."
    )


def _find_artifact(failure: RecordedFailure) -> Path:
    for place in failure.places:
        if place.exists():
            return place
    raise FileNotFoundError(f"No artifact at {' or at '.join(map(str, failure.places))}. Put it at one of them.")
