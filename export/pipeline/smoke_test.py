"""The comparison of an artifact with Keras that every export makes before it publishes the artifact.

The comparison is a small parity check under the coarse tolerance policy, at two sizes that were not traced. Rounding
does not fail it; the parity check itself is stricter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_pe.export.artifacts.artifact import Format, TensorInfo
from keras_pe.export.comparison.compare import compare_outputs, may_be_rounding
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.inputs.cases import Case, cast_case
from keras_pe.export.comparison.inputs.usual_inputs import Draw, numbers, pixels
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.comparison.tolerance import MAX_FACTOR, TolerancePolicy, coarse
from keras_pe.export.errors import (
    DisagreementError,
    InvalidArtifactError,
    RuntimeFailedError,
    RuntimeRefusedError,
    sentence,
)
from keras_pe.export.model.rebuild import half_dtypes
from keras_pe.export.model.signature.signature import confirmed_outputs
from keras_pe.export.model.sizes.dimensions import sizes_in_words
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.pipeline.overflow import refuse_overflow
from keras_pe.export.results import Array, Comparison, Problem
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.worker import Worker

Run = Callable[[Mapping[str, Array]], Arrays]


@dataclass(frozen=True)
class Checked:
    """The results of a comparison that the artifact records.

    Attributes:
        notes: A sentence for each size that Keras refuses. The outputs were not compared at these sizes.
        outputs: The outputs of the artifact, with the sizes that the runs confirmed.
    """

    notes: tuple[str, ...]
    outputs: tuple[TensorInfo, ...]


class _KerasRefusesError(Exception):
    """Keras refuses all inputs of a size; the cause is its own error."""


def check_artifact(
    path: Path,
    runner: Worker,
    reference: KerasReference,
    format: Format,
    *,
    spec: RuntimeSpec | None = None,
    is_repeatable: bool = True,
) -> Checked:
    """Opens an artifact, compares the names of its inputs with the model's, and runs the artifact and the model.

    Args:
        path: The artifact's file or folder.
        runner: The process that opens and runs the artifact.
        reference: The model as it was exported.
        format: The format, for the error.
        spec: The runtime to use, if the process started with another one.
        is_repeatable: Whether two calls of the model with equal inputs return equal outputs. If False, the artifact
            runs without a comparison.

    Raises:
        InvalidArtifactError: If the artifact does not open or run, or its inputs differ from the model's.
        DisagreementError: If its outputs differ from the model's.
        UnsupportedError: If its outputs are NaN or infinite, and finite in float32.
    """
    try:
        runner.load(path, spec)
    except RuntimeFailedError as error:
        reason = sentence(f"the runtime does not open it: {error}")
        raise InvalidArtifactError(format, reference.name, reason) from error
    actual, expected = ({spec.name for spec in specs} for specs in (runner.inputs, reference.inputs))
    if actual != expected:
        reason = f"it takes {sorted(actual)}, the model {sorted(expected)}."
        raise InvalidArtifactError(format, reference.name, reason)
    if is_repeatable:
        return check_agreement(runner.run, reference, format)
    try:
        runner.run({name: np.asarray(array) for name, array in reference.signature.example().items()})
    except RuntimeFailedError as error:
        raise _not_run(format, reference.name, error) from error
    return Checked((), reference.signature.outputs)


def check_agreement(run: Run, reference: KerasReference, format: Format) -> Checked:
    """Compares the outputs of an artifact with Keras: on the caller's examples or drawn values, and at a second size.

    A network that was trained on pixels may amplify rounding on values of both signs until the outputs are noise. Such
    a comparison is inconclusive, so pixels are drawn instead. A comparison that fails is repeated with other values and
    with Keras in a `tf.function`. The reasons are values near a jump of a function, which may round to either side, and
    layers that compute something else in a graph.

    Args:
        run: Runs the artifact, and raises the errors of a runtime.
        reference: The model as it was exported.
        format: The format, for the error.

    Raises:
        InvalidArtifactError: If the artifact does not run.
        DisagreementError: If both comparisons fail, or the outputs have other names.
        UnsupportedError: If the outputs are NaN or infinite in half precision alone.
    """
    import tensorflow as tf

    signature, policy = reference.signature, policy_of(reference)
    first, other = signature.sizes, signature.other_sizes()
    kinds: list[Draw] = [numbers, pixels]
    examples = [cast_case(Case("given", example, "given"), reference.inputs) for example in signature.values.examples]
    rounds: list[tuple[Mapping[str, int], list[Draw]]] = [(first, [lambda *_, c=case: [c]]) for case in examples]
    rounds = rounds or [(first, kinds)]
    rounds += [(other, kinds)] if other != first else []
    rounds += [(step, kinds)] if (step := signature.step_sizes()) else []
    notes: list[str] = []
    runs: list[tuple[Arrays, Arrays]] = []

    def run_and_record(inputs: Mapping[str, Array]) -> Arrays:
        outputs = run(inputs)
        runs.append((dict(inputs), outputs))
        return outputs

    for place, (size, draws) in enumerate(rounds):
        try:
            with tf.device("/cpu:0"):  # a GPU may multiply float32 in TF32, which rounds to ten bits
                fault = _find_fault(run_and_record, reference, format, policy, size, draws)
        except RuntimeFailedError as error:
            raise _not_run(format, reference.name, error) from error
        except _KerasRefusesError as refusal:
            if place < max(len(examples), 1):  # the model has run at the first sizes, so a refusal here is a fault
                raise (refusal.__cause__ or refusal) from None
            where = sizes_in_words(size)
            notes.append(f"It was not compared with Keras at {where}, which Keras refuses ({refusal}).")
            continue
        if fault is not None:
            raise fault
        if place < max(len(examples), 1):  # the drawn values beside a user's own may be larger than the user's
            refuse_overflow(reference, format, *runs[-1])
    return Checked(tuple(notes), confirmed_outputs(signature.inputs, signature.outputs, runs))


def policy_of(reference: KerasReference) -> TolerancePolicy:
    """Returns the coarse tolerance policy for a model."""
    layers = all_layers(reference.model)
    is_short = bool(half_dtypes(layers)) or any(getattr(layer, "quantization_mode", None) for layer in layers)
    # Integers may be compared exactly if all inputs are texts: no rounding of an input can change such an integer.
    return coarse(is_short=is_short, compares_integers=all(spec.dtype == "string" for spec in reference.inputs))


def ask_keras(expect: Run, cases: Sequence[Case]) -> tuple[Case, Arrays]:
    """Returns the first case that Keras accepts, and Keras' outputs for this case."""
    return _run_both(lambda inputs: {}, expect, cases)[::2]


def _find_fault(
    run: Run,
    reference: KerasReference,
    format: Format,
    policy: TolerancePolicy,
    sizes: Mapping[str, int],
    kinds: list[Draw],
) -> DisagreementError | None:
    """Returns an error for a difference between an artifact and Keras at one size; None if rounding explains it.

    A kind of inputs whose comparison is inconclusive moves to the end of `kinds`.
    """
    fault = None
    # The eager call comes first, since most models pass it: tracing a model for one call takes longer.
    for seed, expect in enumerate((reference.expect, reference.expect_traced)):
        for draw in tuple(kinds):
            try:
                case, actual, expected = _run_both(run, expect, draw(reference.signature, sizes, seed))
            except _KerasRefusesError:
                if fault is None:
                    raise
                return fault
            faults = find_faults(reference, policy, case, expected, actual)
            if not faults:
                return None
            message = describe_faults(faults, policy, expected, actual)
            if reference.no_rebuild:
                message += f" The effect of rounding was measured without float64: {reference.no_rebuild}."
            where = ", ".join(filter(None, (case.name, sizes_in_words(case.sizes))))
            fault = DisagreementError(format, reference.name, message, case=where, inputs=case.inputs)
            if not all(map(is_drowned, faults)):
                break
            kinds.append(kinds.pop(0))
    return fault


def _run_both(run: Run, expect: Run, cases: Sequence[Case]) -> tuple[Case, Arrays, Arrays]:
    """Returns the first case that Keras accepts, and the outputs of the artifact and of Keras.

    The artifact runs first. An operator that crashes would crash Keras too, and Keras runs in this process, while the
    artifact runs in a subprocess.
    """
    for number, case in enumerate(cases, 1):
        refusal, actual = None, Arrays()
        try:
            actual = run(case.inputs)
        except RuntimeRefusedError as error:
            refusal = error  # Keras may refuse these inputs as well
        try:
            expected = expect(case.inputs)
        except RuntimeRefusedError as error:
            if number == len(cases):
                raise _KerasRefusesError(str(error)) from error.__cause__
            continue
        if refusal is not None:
            raise refusal
        break
    return case, actual, expected


def _not_run(format: Format, name: str, error: RuntimeFailedError) -> InvalidArtifactError:
    return InvalidArtifactError(format, name, sentence(f"the runtime opens it and does not run it: {error}"))


def find_faults(
    reference: Reference,
    policy: TolerancePolicy,
    case: Case,
    expected: Mapping[str, Array],
    actual: Mapping[str, Array],
) -> list[Comparison]:
    """Returns the outputs that are wrong. The rounding error of Keras itself decides if the cause may be rounding.

    A correct artifact and Keras add equal terms in different orders. Their errors against the float64 reference are
    therefore of one size: the unit of rounding times the condition number of the model. For a well-conditioned model
    the tolerance is about 1e-6. For an ill-conditioned model, only a conversion fault that exceeds this noise is
    reported.
    """
    faults = _find_failures(compare_outputs(expected, actual, policy=policy))
    if not may_be_rounding(faults):
        return faults
    try:
        truth = reference.truth(case.inputs)
    except RuntimeRefusedError:  # the float64 model refuses these values, or a layer insists on its own precision
        truth = {}
    (noise,) = reference.noise([case])
    return _find_failures(compare_outputs(expected, actual, truth, noise=noise, policy=policy))


def is_drowned(comparison: Comparison) -> bool:
    """Whether Keras' own rounding error exceeds the tolerance, so that a comparison is inconclusive."""
    return comparison.noise_floor is not None and MAX_FACTOR * comparison.noise_floor > comparison.tolerance


def describe_faults(
    faults: Sequence[Comparison], policy: TolerancePolicy, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> str:
    """Returns a sentence on the fault of the first wrong output."""
    first = faults[0]
    name = f"output {first.output!r}"
    if any(each.problem in (Problem.MISSING, Problem.EXTRA) for each in faults):
        return f"it returns {sorted(actual)}, the model {sorted(expected)}."
    if first.problem is Problem.SHAPE:
        return f"{name} has the shape {first.actual_shape}, in Keras {first.shape}."
    array = expected[first.output]
    if not is_float(array.dtype):
        count = round(first.fraction_out_of_tolerance * first.count)
        return f"{name} differs from Keras' in {count} of {first.count} values."
    assert first.worst_index is not None, "an empty array is not wrong"
    off = abs(actual[first.output][first.worst_index].astype(np.float64) - (first.truth or 0.0))
    text = f"{name} differs from Keras' by {off:.2g}, where the largest value is "
    text += f"{policy.largest_beside(array, first.worst_index):.2g}."
    if all(map(is_drowned, faults)):
        text += " The rounding errors of Keras' own output are as large, so the comparison is inconclusive."
    return text


def _find_failures(compared: Sequence[Comparison]) -> list[Comparison]:
    return [each for each in compared if not each.passed]
