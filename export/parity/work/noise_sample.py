"""Measures a sample of the rows before the run: the noise floor, and the decision rule of each output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.comparison.declared_shapes import Declarations
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.name_matching import match_inputs, match_outputs, runner_names
from keras_pe.export.comparison.output_decisions import Decision, infer_decision, parse_decision
from keras_pe.export.comparison.references.interface import Interface, inferred_interface
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.run_cases import computes_in_float32
from keras_pe.export.comparison.tolerance import MAX_FACTOR, TolerancePolicy, noise_floor
from keras_pe.export.errors import RuntimeFailedError, first_line
from keras_pe.export.model.sizes.dimensions import sizes_in_words
from keras_pe.export.parity.coverage import compare_weights
from keras_pe.export.parity.data.batching import Feed
from keras_pe.export.parity.data.pieces import count
from keras_pe.export.parity.data.shards import Shard, read_rows
from keras_pe.export.parity.data.source import DataError, DataSource
from keras_pe.export.parity.work.shard import shard_batches
from keras_pe.export.parity.work.target_runner import TargetRunner
from keras_pe.export.parity.work.worker_input import Calibration, Job, OutputRule, TargetCalibration
from keras_pe.export.parity.work.worker_session import Session, session_of
from keras_pe.export.results import Array, NameMatch
from keras_pe.export.runtimes.runtime import Arrays

SAMPLE_ROWS = 64
"""Number of sampled rows of each sampled shard."""
_MEASURED_ROWS = 16  # rows of each sampled shard whose size limits the rows of a batch


@dataclass(frozen=True)
class _Sampled:
    """A batch of the sample, with the outputs of the model and of its rebuilds."""

    inputs: Arrays
    expected: Arrays
    truth: Arrays
    in_float32: Arrays


def calibrate(job: Job, shards: tuple[Shard, ...]) -> Calibration:
    """Loads the model and the artifacts, and runs the model on the first rows of some shards.

    Raises:
        DataError: If the data does not fit the model.
        ValueError: If the model does not load, or an option names an unknown input or output.
    """
    precision = job.allowance.precision
    with session_of(job) as session:
        reference = session.reference
        if precision is not None and session.calls is not None:
            raise ArgValueError(
                "precision",
                f"must be left out for a model with a state, since its effect on a sequence is unknown. Accept a "
                f"difference with `atol`. Received: precision={precision!r}.",
            )
        targets = {key: _load(reference, target, precision) for key, target in session.targets.items()}
        feed = Feed.match(
            session.inputs, job.batching, job.source.columns, job.source.name, reference.layouts, job.label_columns
        )
        for shard in shards:
            for rows in islice(read_rows(job.source, feed.columns, shard, _MEASURED_ROWS), 1):
                feed = feed.with_row_bytes(shard.start, rows)
        sample = [each for shard in shards for each in _sample(session, job.source, feed, shard)]
        noises = [] if precision is None else session.noise([each.inputs for each in sample], precision)
        rules, has_floor = _rules(job, sample, noises)
        wide: dict[str, OutputRule] = {}
        if all(each.in_float32 and each.truth for each in sample):
            wide, _ = _rules(job, [replace(each, expected=each.in_float32) for each in sample], noises)
        for key, found in targets.items():
            target = session.targets[key]
            if not found.error:
                is_wide = bool(wide) and computes_in_float32(target.worker)
                names = (*found.names, *_output_names(reference, target, found.names, precision, sample[0]))
                found = replace(found, names=names, rules=wide if is_wide else rules, in_float32=is_wide)
                targets[key] = _with_contents(session, target, found, job)
    basis = f"{reference.name}, at most {MAX_FACTOR:g} times its own error against a float64 rebuild"
    if not has_floor:
        basis = f"{reference.name}, tolerance by dtype ({reference.no_rebuild or 'no output has floats'})"
    if any(found.in_float32 for found in targets.values()):
        basis += "; artifacts in float32 against its float32 rebuild"
    if reference.fixed:
        basis += f"; only at {sizes_in_words(reference.fixed)}, which the artifact fixes"
    return Calibration(reference.name, reference.version, basis, feed, targets, session.calls)


def _load(reference: Reference, target: TargetRunner, precision: str | None) -> TargetCalibration:
    """Loads an artifact, and returns its version, its names and any error."""
    version = ""
    target.begin_shard((), precision)
    try:
        target.load()
        version = target.worker.version
        if unaccepted := _describe_differences(reference, target.path, precision):
            return TargetCalibration(version, error=unaccepted)
        return TargetCalibration(version, names=match_inputs(reference, target.worker.inputs, target.path))
    except RuntimeFailedError as error:
        return TargetCalibration(version, error=str(error))


def _with_contents(session: Session, target: TargetRunner, found: TargetCalibration, job: Job) -> TargetCalibration:
    """Returns the calibration of a target with the declarations and the stored weights of its artifact.

    Stored weights may be rounded if an output decides, or the user accepts more than the strict tolerance policy.
    """
    if session.calls is None:  # else a declaration is about one call, and an answer has all of them
        declarations = Declarations.from_artifact(target.path, runner_names(found.names)).with_any_batch()
        found = replace(found, declarations=declarations)
    decides = any(rule.decision is not None for rule in found.rules.values())
    try:
        target.load()
        may_be_rounded = decides or not job.allowance.is_none
        weights, findings = compare_weights(target.worker, session.reference, may_be_rounded=may_be_rounded)
    except RuntimeFailedError:  # the rows will report the failure of the runtime
        return found
    return replace(found, weights=weights, findings=findings)


def _describe_differences(reference: Reference, path: Path, precision: str | None) -> str:
    """Returns sentences on the differences between the interfaces of an artifact and the model; empty if none."""
    if reference.signature is None:
        return ""
    found = inferred_interface(path, Interface(), reference.model, reference.signature, precision)
    return " ".join(each.evidence for each in found.differences)


def _output_names(
    reference: Reference,
    target: TargetRunner,
    inputs: Sequence[NameMatch],
    precision: str | None,
    sampled: _Sampled,
) -> tuple[NameMatch, ...]:
    """Returns the outputs that have other names in the artifact, from its answer to some rows."""
    target.begin_shard(inputs, precision)
    answered = [answer.outputs for answer in target.run(sampled.inputs) if answer.outputs]
    return match_outputs(reference, sampled.expected, answered[0], target.path) if answered else ()


def _sample(session: Session, source: DataSource, feed: Feed, shard: Shard) -> list[_Sampled]:
    """Returns the outputs of the model and of its rebuilds on the first rows of a shard."""
    found = []
    left = SAMPLE_ROWS
    has_float32 = session.make_rebuilds()
    for batch in shard_batches(source, feed, shard):
        inputs = {name: array[: max(1, left)] for name, array in batch.inputs.items()}
        try:
            expected = session.run(inputs)
        except RuntimeFailedError as error:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in inputs.items())
            raise DataError(
                f"{session.reference.name} must take the rows of {shard.place}. Received: {shapes}, which it refuses "
                f"({first_line(error)})."
            ) from error
        sampled = _Sampled(inputs, expected, {}, {})
        try:
            sampled = replace(sampled, truth=session.truth(inputs))
            if has_float32:
                sampled = replace(sampled, in_float32=session.run(inputs, in_float32=True))
        except RuntimeFailedError as error:  # a layer may require its own precision
            session.reference.no_rebuild = f"the float64 rebuild does not run: {error}"
        found.append(sampled)
        left -= count(inputs)
        if left <= 0:
            break
    return found


def _rules(
    job: Job, sample: list[_Sampled], noises: Sequence[Mapping[str, Array]]
) -> tuple[dict[str, OutputRule], bool]:
    names = list(sample[0].expected)
    accepted, decisions = job.allowance, job.acceptance.decisions
    accepted.check_outputs(names)
    unknown = sorted(set(decisions) - set(names))
    if unknown:
        raise ArgValueError(
            "acceptance.decisions", f"must be of outputs: {', '.join(names)}. Received: {', '.join(unknown)}."
        )
    rules: dict[str, OutputRule] = {}
    has_floor = False
    for name in names:
        outputs = [each.expected[name] for each in sample]
        if any(array.ndim == 0 for array in outputs):
            raise DataError(f"Output {name!r} must have a row for each row of the data. Received: a single value.")
        if not is_float(outputs[0].dtype):
            rules[name] = OutputRule(0.0, accepted.atol_of(name), None, is_final=True)
            continue
        decision = parse_decision(decisions[name]) if name in decisions else _infer(outputs)
        if decision is not None and not decision.decides(outputs[0]):
            raise ArgValueError(
                "decisions",
                f"must choose among more values than it returns. Received: {name!r} by {decision}, where a "
                f"row has the shape {outputs[0].shape[1:]}.",
            )
        floors = [noise_floor(each.expected[name], each.truth[name]) for each in sample if name in each.truth]
        has_floor = has_floor or bool(floors)
        channels: tuple[tuple[float, float], ...] = ()
        if accepted.precision is not None:
            moved = [noise.get(name, np.zeros(array.shape)) for noise, array in zip(noises, outputs, strict=True)]
            channels = _channels(job.policy, name, outputs, moved)
            floors = [max(allowed for allowed, _ in channels) / MAX_FACTOR]
        unit = max(floors) if floors else max(map(job.policy.flat_tolerance, outputs)) / MAX_FACTOR
        is_given = accepted.rtol > 0 or accepted.atol_of(name) > 0
        allowed = max(MAX_FACTOR * unit, accepted.atol_of(name)) if is_given or decision is None else None
        is_final = decision is not None or not floors or bool(channels)
        rules[name] = OutputRule(unit, allowed, decision, is_final, channels)
    for name, column in _labels(job, {name: rule.decision for name, rule in rules.items()}).items():
        rules[name] = replace(rules[name], label=column)
    return rules, has_floor


def _channels(
    policy: TolerancePolicy, name: str, outputs: Sequence[Array], moved: Sequence[Array]
) -> tuple[tuple[float, float], ...]:
    """Returns the tolerance of an accepted precision and the largest value, for each channel of the last axis."""
    found = []
    for expected, noise in zip(outputs, moved, strict=True):
        allowed = np.broadcast_to(policy.tolerance(name, expected, None, policy.floor(expected, noise)), expected.shape)
        magnitude = np.nan_to_num(np.abs(expected.astype(np.float64)), nan=0.0, posinf=0.0)
        size = expected.shape[-1] if expected.ndim > 1 else 1
        found.append([each.reshape(-1, size).max(axis=0) for each in (allowed, magnitude)])
    most, largest = (np.max([each[place] for each in found], axis=0) for place in (0, 1))
    return tuple(zip(most.tolist(), largest.tolist(), strict=True))


def _labels(job: Job, decisions: Mapping[str, Decision | None]) -> Mapping[str, str]:
    """Returns the column of the labels of each output.

    Raises:
        ValueError: If a labeled output does not decide, or `labels` is one column and several outputs or none decide.
    """
    given, deciding = job.acceptance.labels, [name for name, found in decisions.items() if found is not None]
    if isinstance(given, str):
        if len(deciding) == 1:
            return {deciding[0]: given}
        raise ArgValueError(
            "labels",
            "must name their output unless exactly one output decides. "
            f"Received: labels={given!r}, where {', '.join(deciding) or 'no output'} decides. "
            "Set how an output decides with `decisions`.",
        )
    if others := sorted(set(given) - set(deciding)):
        raise ArgValueError(
            "labels",
            f"must be of outputs that decide: {', '.join(deciding) or 'there is none'}. "
            f"Received: {', '.join(others)}. Set how an output decides with `decisions`.",
        )
    return given


def _infer(outputs: list[Array]) -> Decision | None:
    found = {infer_decision(array) for array in outputs}
    return found.pop() if len(found) == 1 else None
