"""What is wrong with what an artifact returns beside Keras, said in a sentence: faults of conversion, no rounding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.rebuild.precision import half_dtypes
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.runtimes.runtime import Array

# Of an output's largest value, or of _SMALL where that is less. What is converted wrongly is off by more, rounding by
# less, even through a hundred layers; `rounding` has the last word on models that stretch it further. A rounding
# to float16 or int8 on the way weighs 2**-11 or 2**-8 each time.
_TOLERANCE = 1e-3
_LOW_PRECISION_TOLERANCE = 5e-2
_SMALL = 1e-2
_FILL = 1e6  # A larger value, such as a mask's -1e9, is no measure for those beside it.


@dataclass(frozen=True)
class Difference:
    """What is wrong with one output.

    Attributes:
        said: A sentence.
        output: The output's name, empty where the names are wrong.
        is_numeric: Whether it is a difference of finite floating-point numbers, and may be rounding.
    """

    said: str
    output: str = ""
    is_numeric: bool = False


def find_differences(
    results: Mapping[str, Array], truths: Mapping[str, Array], layers: Sequence[Any], signature: Signature
) -> list[Difference]:
    """Returns what is wrong with results, by output.

    Args:
        results: By the name of the output.
        truths: What Keras returns.
        layers: The model, then every layer in it, whose precision decides the tolerance.
        signature: The model's.
    """
    if set(results) != set(truths):
        return [Difference(f"it returns {sorted(results)}, the model {sorted(truths)}.")]
    is_low_precision = half_dtypes(layers) or any(getattr(layer, "quantization_mode", None) for layer in layers)
    tolerance = _LOW_PRECISION_TOLERANCE if is_low_precision else _TOLERANCE
    is_exact = all(spec.dtype == "string" for spec in signature.inputs)
    found = (
        _difference(spec, results[spec.name], truths[spec.name], tolerance, is_exact) for spec in signature.outputs
    )
    return [difference for difference in found if difference]


def magnitudes(truth: Array) -> tuple[Array, Array]:
    """Returns which numbers are measured together: the finite ones below any fill value, and those beyond."""
    size = np.abs(truth)
    return size < _FILL, np.isfinite(size) & (size >= _FILL)


def largest_value(truth: Array, where: Array) -> float:
    """Returns what the differences of some numbers are a share of: the largest magnitude, or a small one."""
    return float(np.max(np.abs(truth), where=where, initial=_SMALL))


def _difference(spec: TensorInfo, result: Array, truth: Array, tolerance: float, is_exact: bool) -> Difference | None:
    """Returns what is wrong with an output; `is_exact` where no rounding of an input can have moved an integer."""
    name = spec.name
    if result.shape != truth.shape:
        return Difference(f"output {name!r} has the shape {result.shape}, in Keras {truth.shape}.", name)
    if "float" not in spec.dtype:  # an index may change where two values are all but equal
        count = int((result != truth).sum()) if is_exact else 0
        said = f"output {name!r} differs from Keras' in {count} of {truth.size} values."
        return Difference(said, name) if count else None
    result, truth = result.astype(np.float64), truth.astype(np.float64)
    plain, beyond = magnitudes(truth)
    with np.errstate(invalid="ignore"):  # infinity less infinity, which is not finite in Keras
        error = np.abs(result - truth)
        allowed = tolerance * np.maximum(np.abs(truth), largest_value(truth, plain))
    wrong = (plain | beyond) & ~(error <= allowed)  # NaN too
    if not wrong.any():
        return None
    worst = np.max(error, where=wrong, initial=0.0)
    largest = largest_value(truth, beyond if wrong[beyond].any() else plain)
    said = f"output {name!r} differs from Keras' by {worst:.2g}, where the largest value is {largest:.2g}."
    return Difference(said, name, is_numeric=bool(np.isfinite(worst)))
