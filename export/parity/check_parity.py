"""Runs a check of a model against its artifacts, and returns the report."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, wraps
from numbers import Integral
from pathlib import Path
from typing import Any, ParamSpec

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.comparison.acceptance import accept_result
from keras_pe.export.comparison.inputs.cases import Case, GivenInputs
from keras_pe.export.comparison.references.opening import (
    Source,
    choose_cases,
    is_path,
    locate,
    locate_artifacts,
    open_reference,
    study,
)
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.run_cases import Run, run_cases
from keras_pe.export.comparison.streams import expected_streams
from keras_pe.export.comparison.tolerance import TolerancePolicy, accepting
from keras_pe.export.errors import check_share, check_type
from keras_pe.export.model.border import Border
from keras_pe.export.parity.check_references import ask_references, measured_against, with_caller_paths
from keras_pe.export.parity.coverage import (
    input_coverage,
    with_coverage,
    with_coverage_required,
    with_damage,
    with_enough_compared,
)
from keras_pe.export.parity.diagnosis.cross_runtime import compare_runtimes, is_alike
from keras_pe.export.parity.diagnosis.diagnose import diagnose
from keras_pe.export.parity.file_signatures import FileSignatures
from keras_pe.export.parity.parity_report import ParityReport, make_report, untaken
from keras_pe.export.parity.streamed import with_streams
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.progress import DIAGNOSIS_SECONDS, TIMEOUT, Budget, Progress, Stopwatch, check_seconds, telling
from keras_pe.export.results import Allowance, CaseStatus, RunStatus, RuntimeResult
from keras_pe.export.runtimes.registry import runtimes_for
from keras_pe.export.runtimes.runner import InProcessRunner, Runner
from keras_pe.export.runtimes.runtime import RuntimeName, RuntimeSpec
from keras_pe.export.runtimes.worker import WorkerQueue
from keras_pe.protocols import Model

_Options = ParamSpec("_Options")


@foreign_code()
def check_parity(
    model: Model | Source,
    artifacts: Source | Sequence[Source] = (),
    *,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    runtimes: str | RuntimeSpec | Sequence[str | RuntimeSpec] | None = None,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    border: Border | None = None,
    seed: int = 0,
    require_coverage: bool = False,
    least_compared: float = 0.5,
    rtol: float = 0.0,
    atol: float | Mapping[str, float] = 0.0,
    precision: str | None = None,
    allow_changed: float = 0.0,
    timeout: float = TIMEOUT,
    diagnosis_seconds: float = DIAGNOSIS_SECONDS,
    progress: Progress | bool | None = None,
) -> ParityReport:
    """Runs a model and its exported artifacts on the same inputs, and reports where and why their outputs differ.

    The check does not change the model or its state.

    Args:
        model: The reference: a built `keras.Model`, the path of a `.keras` or `.h5` file, an artifact, or an `.npz`
            file. An artifact is an ONNX or LiteRT file or a SavedModel folder. An `.npz` file has inputs and their
            expected outputs. Only a Keras model needs Keras, and only a SavedModel needs TensorFlow.
        artifacts: One or several artifacts, as returned by an export or by path. They may be omitted if `runtimes`
            names a runtime that needs no artifact: the compiled model or a server.
        inputs: Cases instead of drawn inputs (the sweep): one or several mappings of names to arrays or `.npz` files.
        ranges: Valid values of an input in the sweep: the least value, and the first value above the valid ones.
        runtimes: Names such as "onnxruntime", "onnxruntime[all]" or "tensorflow", or your own runtime specs, one or
            several. The default is every installed runtime that takes one of the artifacts. "keras[xla]",
            "onnx_reference", "openvino" and execution providers other than the CPU's run only if named.
        input_signature: As in `export_onnx`, for models whose input signature cannot be inferred.
        sizes: Sizes of a dynamic dimension in the sweep, by its name, if they cannot be inferred:
            `{"height": (64, 224)}`.
        border: The input/output adapter of the artifacts, if their interface differs from the model's. By default, each
            artifact's own record, which an export with a border writes. `inputs`, `ranges` and `sizes` are then the
            artifact's.
        seed: The seed of the sweep.
        require_coverage: Whether to fail unless each artifact stores every weight of the model, table rows included,
            and the cases take every branch of its conditions. By default, the report counts the missing weights and
            branches, and only the outputs decide. A file with quantized or folded weights fails.
        least_compared: The least share of the values of the cases that must be compared, from 0 to 1. The check fails
            below this share. Values are not compared if the model refuses the case, both sides are NaN, or the value
            exceeds the range of the model's own floats.
        rtol: Accepted difference of an artifact that differs on purpose, as a share of the magnitude of the value.
        atol: Accepted absolute difference, added to the difference by `rtol`; one number, or one per output by its
            name.
        precision: "float16", "bfloat16", "int8" or "int4" (weights only). Accepts 8 times the change that such
            rounding makes in the model's own answer. The change is measured for each value by its own channel, row or
            position.
        allow_changed: The share of decisions that may change, over all cases, from 0 to 1. Decisions are rows of
            probabilities, and integers. `rtol`, `atol`, `precision` and `allow_changed` each accept more than the
            strict tolerance policy. The report names the policy that decided, and still states where and why the
            artifact differs. Each of them refuses a stored weight that rounding to its own format does not explain.
            Only `allow_changed` accepts changed decisions: the best class of probabilities, or of scores from 0 to 1. A
            tie within rounding does not count as a change.
        timeout: Seconds that a runtime may take to load, or to answer one case, before it counts as hung.
        diagnosis_seconds: Seconds that the search for a cause may take for each runtime with its own failure. The
            report lists the searches that did not run if no cause explains the failure.
        progress: A function that takes the number of finished steps, their total, and the name of the next step. True
            shows a bar, on the standard error or in a notebook with ipywidgets.

    Returns:
        The report. It has not passed if nothing was compared.

    Raises:
        ValueError: If an argument is not valid, a file cannot be read, or a runtime is unknown.
        TypeError: If the type of the model, an artifact or inputs is not supported.
        ImportError: If a requested runtime is not installed.
        FileNotFoundError: If a file is missing.
        RuntimeError: If code of the model or of a plug-in raises SystemExit.
    """
    check_seconds(timeout, diagnosis_seconds)
    check_type("require_coverage", require_coverage, bool)
    if not (isinstance(seed, Integral) and seed >= 0):
        raise ArgValueError("seed", f"must be a whole number from 0. Received: seed={seed!r}.")
    if border is not None:
        check_type("border", border, Border)
    check_share("least_compared", least_compared)
    policy = accepting(Allowance(rtol, atol, precision, allow_changed))
    watch, has_cases = Stopwatch(), inputs is not None
    targets: list[tuple[str, Path | None]] = [*dict.fromkeys(locate_artifacts(artifacts))]
    has_artifacts = bool(targets)
    if not is_path(model) or locate(model)[0] == "keras":
        targets.insert(0, ("keras", None))
    chosen = runtimes_for([(format, path) for format, path in targets if path is not None], runtimes)
    jobs = _plan(targets, chosen)
    if not has_artifacts and (runtimes is None or not jobs):
        raise ArgValueError(
            "artifacts",
            "must have at least one. Received: none. To check the compiled model, pass runtimes='keras' "
            "(--runtime keras).",
        )
    signatures = FileSignatures()
    with ExitStack() as stack:
        parts = signatures.split(targets, stack)
        ready = [(spec, path) for spec, path in _plan(parts, chosen) if spec.installed]
        total = len(ready) + 1
        tell = stack.enter_context(telling(progress))
        tell(0, total, "starting the runtimes")
        groups = [list(group) for _, group in itertools.groupby(ready, key=lambda job: (job[0].factory, job[1]))]
        workers = WorkerQueue((group[0][0] for group in groups), timeout, stack)
        watch.stage("start the runtimes")
        paths = [path for _, path in parts if path is not None]

        def open_with_options(reference: Any, **keywords: Any) -> Reference:
            options: dict[str, Any] = {"ranges": ranges, "watch": watch, **keywords}
            return open_reference(reference, input_signature, timeout, sizes, **options)

        def chosen_cases(reference: Reference, sharing: Sequence[Path]) -> tuple[Case, ...]:
            study(reference, ranges or {}, watch)
            tell(0, total, reference.name)
            cases = choose_cases(reference, inputs, seed, precision)
            return signatures.select(cases, sharing) if has_cases and sharing else cases

        asked = ask_references(
            open_with_options, chosen_cases, model, paths, border, stack, watch, precision, has_cases=has_cases
        )
        for each in asked.values():
            if outputs := dict.fromkeys(name for one in each.expectations for name in one.outputs or {}):
                policy.allowance.check_outputs(outputs)
        strict, results, idle = list[RuntimeResult](), list[RuntimeResult](), list[Path | None]()
        streams = {id(each): [*expected_streams(each.reference)] for each in asked.values()}
        for group in groups:
            mine = asked[group[0][1]]
            reference = mine.reference
            is_swept = not has_cases and reference.model is not None  # such cases have the sizes of their artifact
            answers = mine.expectations if is_swept else signatures.select_answers(mine.expectations, group[0][1])
            idle += [] if answers else [group[0][1]]
            with workers.next() or InProcessRunner(group[0][0], reference.model, reference.signature) as runner:
                for spec, path in group if answers else ():
                    tell_here = partial(tell, len(results) + 1, total)
                    tell_here(spec.name)
                    budget = partial(Budget, diagnosis_seconds, partial(_tell_search, tell_here, spec.name))
                    run = run_cases(runner, spec, path, reference, answers, precision)
                    strict.append(_explain(run, runner, reference, strict, budget, policy))
                    result = _apply_allowance(strict[-1], run, runner, reference, policy, results)
                    result = with_streams(result, run, runner, reference, streams[id(mine)], policy, budget)
                    results.append(with_caller_paths(result, mine))
                    watch.stage(f"{spec.name} {path.name if path else ''}".strip(), results[-1].seconds)
        reference, basis = asked[None].reference, measured_against(asked)
        distinct = {id(each): each for each in asked.values()}
        expectations = [one for each in distinct.values() for one in each.expectations]
        expectations += [one.expectation for key in distinct for one in streams[key]]
        answered = [each.case.inputs for each in asked[None].expectations if each.outputs is not None]
        exercised = input_coverage(reference.inputs, reference.roles, answered)
        unfit = signatures.without_cases(idle)
        exercised = replace(exercised, signatures=tuple(each.subject for each in unfit))
        tell(total, total, "done")
    results += signatures.unreadable
    results += _untried_results(targets, {path for spec, path in jobs if spec.installed})
    examples = 0 if inputs is not None else len(reference.recorded.examples)
    found = compare_runtimes([*map(signatures.restore, results)])
    found = [with_enough_compared(each, least_compared, examples) for each in found]
    if require_coverage:
        found = [*map(with_coverage_required, found), *unfit]
    measure = (reference.name, basis, policy.allowance)
    return make_report(*measure, expectations, found, jobs, watch, seed, reference.version, exercised)


def _plan(
    targets: Sequence[tuple[str, Path | None]], chosen: Sequence[RuntimeSpec]
) -> list[tuple[RuntimeSpec, Path | None]]:
    """Returns each runtime with each artifact that it takes. The artifact of a server is None."""
    jobs = [(spec, path) for format, path in targets for spec in chosen if spec.format == format]
    return jobs + [(spec, None) for spec in chosen if spec.format == "served"]


def _raising(check: Callable[_Options, ParityReport]) -> Callable[_Options, ParityReport]:
    """Returns `assert_parity`, which has the arguments of `check`."""

    @wraps(check, assigned=("__module__",))
    def assert_parity(*arguments: _Options.args, **keywords: _Options.kwargs) -> ParityReport:
        """Runs `check_parity` with these arguments, and raises AssertionError with the report unless it passes.

        Returns:
            The report that passed.
        """
        report = check(*arguments, **keywords)
        if not report.passed:
            raise AssertionError(str(report))
        return report

    assert_parity.__qualname__ = assert_parity.__name__
    return assert_parity


assert_parity = _raising(check_parity)


def _explain(
    run: Run,
    runner: Runner,
    reference: Reference,
    before: Sequence[RuntimeResult],
    budget: Callable[[], Budget],
    policy: TolerancePolicy,
) -> RuntimeResult:
    """Returns the strict verdict with its causes. Copies the causes of another variant that fails alike."""
    failed = any(case.status is CaseStatus.FAILED for case in run.result.cases)
    if run.result.passed or (run.result.status is RunStatus.COMPARED and not failed):
        return run.result  # a diagnosis needs a difference, and no case has one
    for other in before:
        is_variant = (other.artifact, _any_variant(other)) == (run.result.artifact, _any_variant(run.result))
        if is_variant and is_alike(other, run.result):
            return replace(run.result, findings=other.findings, layers=other.layers, proof=other.proof)
    is_rounding = policy.allowance.precision is not None and accept_result(run.result, run, reference, policy).passed
    return diagnose(run, runner, reference, reference.roles, budget(), is_rounding=is_rounding)  # begins the budget


def _apply_allowance(
    strict: RuntimeResult,
    run: Run,
    runner: Runner,
    reference: Reference,
    policy: TolerancePolicy,
    before: Sequence[RuntimeResult],
) -> RuntimeResult:
    """Returns the verdict under the user's allowance. If the result passes, it has the coverage of the artifact."""
    is_settled = strict.passed or policy.allowance.is_none
    result = strict if is_settled else with_damage(accept_result(strict, run, reference, policy), runner, reference)
    return with_coverage(result, runner, reference, run.expectations, before) if result.passed else result


def _tell_search(tell: Callable[[str], None], runtime: str, what: str) -> None:
    tell(f"{runtime}: {what}")


def _any_variant(result: RuntimeResult) -> RuntimeName:
    return RuntimeName.parse(result.runtime).any_variant


def _untried_results(targets: Sequence[tuple[str, Path | None]], ran: set[Path | None]) -> list[RuntimeResult]:
    """Returns a failed result for each artifact that no runtime ran."""
    failed = RuntimeResult("", "", "none", passed=False, status=RunStatus.NOT_LOADED)
    return [
        replace(failed, artifact=str(path), format=format, error=untaken(format))
        for format, path in targets
        if path is not None and path not in ran
    ]
