"""What is wrong with what an artifact returns beside Keras, said in a sentence: faults of conversion, no rounding."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifact import TensorInfo
from keras_pe.export.model.precision import half_dtypes
from keras_pe.export.model.signature import Signature
from keras_pe.export.runtimes.runtime import Array

# Of an output's largest value, or of _SMALL where that is less. What is converted wrongly is off by more, rounding by
# less, even through a hundred layers. A rounding to float16 or int8 on the way weighs 2**-11 or 2**-8 each time.
_TOLERANCE = 1e-3
_LOW_PRECISION_TOLERANCE = 5e-2
_SMALL = 1e-2
_FILL = 1e6  # A larger value, such as a mask's -1e9, is no measure for those beside it.


def find_fault(
    results: Mapping[str, Array], truths: Mapping[str, Array], layers: Sequence[Any], signature: Signature
) -> str | None:
    """Returns what is wrong with results, in a sentence, None where nothing is.

    Args:
        results: By the name of the output.
        truths: What Keras returns.
        layers: The model, then every layer in it, whose precision decides the tolerance.
        signature: The model's.
    """
    if set(results) != set(truths):
        return f"it returns {sorted(results)}, the model {sorted(truths)}."
    is_low_precision = half_dtypes(layers) or any(getattr(layer, "quantization_mode", None) for layer in layers)
    tolerance = _LOW_PRECISION_TOLERANCE if is_low_precision else _TOLERANCE
    is_exact = all(spec.dtype == "string" for spec in signature.inputs)
    faults = (_fault(spec, results[spec.name], truths[spec.name], tolerance, is_exact) for spec in signature.outputs)
    return next((fault for fault in faults if fault), None)


def _fault(spec: TensorInfo, result: Array, truth: Array, tolerance: float, is_exact: bool) -> str | None:
    """Returns what is wrong with an output; `is_exact` where no rounding of an input can have moved an integer."""
    if result.shape != truth.shape:
        return f"output {spec.name!r} has the shape {result.shape}, in Keras {truth.shape}."
    if "float" not in spec.dtype:  # an index may change where two values are all but equal
        is_compared = is_exact and spec.dtype != "string"
        count = int((result != truth).sum()) if is_compared else 0
        return f"output {spec.name!r} differs from Keras' in {count} of {truth.size} numbers." if count else None
    result, truth = result.astype(np.float64), truth.astype(np.float64)
    size = np.abs(truth)
    finite = np.isfinite(truth)
    largest = np.max(size, where=finite & (size < _FILL), initial=_SMALL)
    with np.errstate(invalid="ignore"):  # infinity less infinity, which is not finite in Keras
        error = np.abs(result - truth)
    wrong = finite & ~(error <= tolerance * np.maximum(size, largest))  # NaN too
    if not wrong.any():
        return None
    worst = np.max(error, where=wrong, initial=0.0)
    return f"output {spec.name!r} differs from Keras' by {worst:.2g}, where the largest value is {largest:.2g}."
