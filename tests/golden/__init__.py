"""Values that tensor2tensor 1.15.7 returned, and the bound of their float32 rounding error.

`tensor2tensor-1.15.7.cases.json` holds the calls, and the `.npz` what tensor2tensor/layers/common_attention.py of the
PyPI wheel returned, run unchanged under tf.compat.v1 on TensorFlow 2.21 (CPU). `generate.py` does it again.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RETURNED = Path(__file__).parent / "tensor2tensor-1.15.7.npz"
CASES = RETURNED.with_suffix(".cases.json")


class Case(NamedTuple):
    """One call of a function of tensor2tensor."""

    name: str
    function: str
    arguments: dict[str, Any]
    returned: np.ndarray


@cache
def cases() -> tuple[Case, ...]:
    """Returns all cases, tensors as arrays."""
    with np.load(RETURNED) as file:
        return tuple(
            Case(name, call["fn"], {key: _array(value) for key, value in call["args"].items()}, file[name])
            for name, call in sorted(json.loads(CASES.read_text()).items())
        )


def tolerance(positions: np.ndarray, timescales: np.ndarray) -> np.ndarray:
    """Returns the error that tensor2tensor's float32 formula may have, `(*positions.shape, timescales)`.

    The rate goes through exp and a product (2 roundings of the exponent's result, relative to it), and the angle
    through a product. Each float32 rounding is 2**-24 relative at most, so the angle is off by 4 * 2**-24 of its value.
    The sine adds an ulp of 1, 2**-24, and our own signal 2.5e-7: together 3e-7, independent of the angle.
    """
    return 3e-7 + 4 * 2.0**-24 * np.abs(np.asarray(positions, np.float64)[..., np.newaxis] / timescales)


def largest_tolerance(case: Case) -> float:
    """Returns `tolerance` at the largest angle of a case: its last position at its fastest rate."""
    arguments = case.arguments
    given = [*arguments.get("positions", []), arguments.get("position", 0.0)]
    lengths = [arguments.get("length", 0), arguments.get("num_layers", 0), *np.shape(arguments.get("x"))[1:-1]]
    last = max(np.abs(each).max() for each in [*given, max(lengths) + abs(arguments.get("start_index", 0))])
    # The code multiplies by `min_timescale`, so that it is the fastest rate.
    return float(tolerance(last, np.array([1 / arguments.get("min_timescale", 1.0)])).max())


def _array(value: Any) -> Any:
    if isinstance(value, list):
        return [_array(each) for each in value]
    if isinstance(value, dict):
        return np.zeros(value["zeros"], np.float32) if "zeros" in value else np.asarray(value["values"])
    return value
