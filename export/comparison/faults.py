"""What is wrong with an answer under the coarse law, told from rounding, and said in a sentence."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.law import MAX_FACTOR, Law, is_float
from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.results import Array, Comparison, Problem


def find_faults(
    reference: Reference, law: Law, case: Case, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> list[Comparison]:
    """Returns the outputs that are wrong; where that may be rounding, the error that Keras itself makes tells.

    A sound artifact and Keras add the same terms, each in its own order: their distances from the true answer are two
    draws of one size, which is the unit of rounding times the model's condition. A fault of conversion knows nothing of
    that size: where the model is well-conditioned the allowance is some 1e-6, and where it is not, a fault beyond the
    noise stands out as much.
    """
    faults = _failed(compare_outputs(expected, actual, law=law))
    if any(each.problem or not each.tolerance for each in faults) or not faults:
        return faults
    try:
        truth = reference.truth(case.inputs)
    except RuntimeRefusedError:  # of these values, or because a layer insists on its own precision
        truth = {}
    (noise,) = reference.noise([case])
    return _failed(compare_outputs(expected, actual, truth, noise=noise, law=law))


def is_drowned(comparison: Comparison) -> bool:
    """Whether Keras' own rounding is larger than anything that the law calls rounding, so that nothing can be told."""
    return comparison.noise_floor is not None and MAX_FACTOR * comparison.noise_floor > comparison.tolerance


def describe_faults(
    faults: Sequence[Comparison], law: Law, expected: Mapping[str, Array], actual: Mapping[str, Array]
) -> str:
    """Returns what is wrong with the first output that is, as a sentence."""
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
    said = f"{name} differs from Keras' by {off:.2g}, where the largest value is "
    said += f"{law.largest_beside(array, first.worst_index):.2g}."
    if all(map(is_drowned, faults)):
        said += " Rounding moves Keras' own answer as far, so that no comparison tells anything."
    return said


def _failed(compared: Sequence[Comparison]) -> list[Comparison]:
    return [each for each in compared if not each.passed]
