"""Detects casts: of floats to integers that cannot represent them, and of inputs to types that change their values."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.keras_internals import all_layers, parts_of
from keras_pe.export.model.watch.known_values import is_integer
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.parity.diagnosis.causes.behavior import answering
from keras_pe.export.parity.diagnosis.causes.dimension_tests import is_close
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.recorded_cases import content_key
from keras_pe.export.results import Array, Cause, Finding, OtherValue
from keras_pe.export.runtimes.runtime import as_dtype

_FROM_INTEGERS = ("int32", "uint32", "int16", "uint16", "int8", "uint8", "float32", "float16")
_FROM_FLOATS = ("int32", "int64")
_COMPUTED = ("int32", "int16", "int8", "float32", "float16")  # types that integers may be computed in


def cast_out_of_range(probe: Probe) -> Iterator[Finding]:
    """Detects a cast of floats to integers that cannot represent them. Runtimes return different values for these."""
    decisions, rows = probe.reference.decisions, answering(probe)
    if decisions is None or not decisions.casts or not rows:
        return
    beyond = [decisions.overflowing(expectation.case.inputs) for _, expectation, _ in rows]
    ranges = {name: each for name in rows[0][1].case.inputs if (each := _valid_range(probe, name))}
    if not all(beyond) or not ranges:
        return
    for _, expectation, _ in rows:
        fair = {name: _fold(array, ranges.get(name)) for name, array in expectation.case.inputs.items()}
        actual, expected = probe.ask(fair), probe.expect(fair)
        if actual is None or expected is None or not all(map(is_close, compare_outputs(expected, actual))):
            return
    names = " and ".join(dict.fromkeys(dtype for each in beyond for dtype in each))
    written = ", ".join(f"{name!r}: ({low:.6g}, {high:.6g})" for name, (low, high) in ranges.items())
    text = (
        f"The model casts floats beyond the range of {names}, and runtimes return different values for these. The "
        f"artifact agrees for values in the range. Pass it to the export and to the check: ranges={{{written}}}."
    )
    yield Finding(Cause.CAST_OUT_OF_RANGE, text)


def _valid_range(probe: Probe, name: str) -> tuple[float, float] | None:
    """Returns the range of an input that the model's casts can represent; None if it is not limited.

    The ends are rounded inwards to six digits.
    """
    role = probe.roles.get(name)
    if role is None or role.borders.low is None or role.borders.high is None:
        return None
    return -_cut(-role.borders.low), _cut(role.borders.high)


def _cut(number: float) -> float:
    """Returns the largest number of six digits that does not exceed another."""
    rounded = float(f"{number:.6g}")
    return rounded if rounded <= number else float(f"{number - abs(number) * 5e-6:.6g}")


def _fold(array: Array, ends: tuple[float, float] | None) -> Array:
    """Returns values folded into a range, so that different values stay different."""
    if ends is None:
        return array
    low, high = ends
    folded: Array = low + np.mod(array.astype(np.float64) - low, (high - low) * (1 - 2.0**-10))
    return folded.astype(array.dtype)


def cast_input(probe: Probe) -> Iterator[Finding]:
    """Detects an input that the artifact casts to a type that changes its values, such as ids beyond 2**31 to int32."""
    reference = probe.reference
    if not isinstance(reference, KerasReference) or not answering(probe):
        return
    own = {spec.name: spec.dtype for spec in reference.inputs if spec.dtype not in ("bool", "string")}
    for name, dtype in own.items():
        tried = set[tuple[bytes, ...]]()
        for other in (each for each in (_FROM_INTEGERS if is_integer(dtype) else _FROM_FLOATS) if each != dtype):
            values = tuple(content_key(_cast(each.case.inputs[name], other)) for each in probe.run.expectations)
            if values not in tried and _agrees_after_cast(probe, reference, [name], other):
                yield _finding({name: dtype}, other, " and back")
                return
            tried.add(values)
    for other in _COMPUTED:
        wider = {name: each for name, each in own.items() if is_integer(each) and _digits(each) > _digits(other)}
        if wider and _agrees_after_cast(probe, reference, wider, other, is_computed=True):
            yield _finding(wider, other, ", and integers are computed in this type")
            return


def _finding(own: Mapping[str, str], other: str, description: str) -> Finding:
    casts = " and ".join(f"input {name!r} is cast from {dtype}" for name, dtype in own.items())
    values = tuple(OtherValue(f"dtype of {name!r}", dtype, other) for name, dtype in own.items())
    return Finding(Cause.CAST_INPUT, f"The model agrees if {casts} to {other}{description}.", parameters=values)


def _digits(dtype: str) -> int:
    """Returns the number of binary digits of the integers that a type represents."""
    return 8 * as_dtype(dtype).itemsize if is_integer(dtype) else int(np.finfo(as_dtype(dtype)).nmant) + 1


def _agrees_after_cast(
    probe: Probe, reference: KerasReference, names: Iterable[str], dtype: str, *, is_computed: bool = False
) -> bool:
    """Whether the model gives the artifact's outputs after a cast of inputs.

    Args:
        probe: The runtime.
        reference: The model.
        names: The inputs.
        dtype: The type of the cast. The values are cast back to the type of the model.
        is_computed: Whether the model computes integers in this type. Otherwise the cast alone must change an input in
            each failing case.
    """
    failing = {id(expectation) for _, expectation, _ in probe.failing()}
    if is_computed and not is_integer(dtype):
        names = ()  # a float beyond the largest integer has no integer to be cast back to
    rows = [
        (expectation, answer)
        for _, expectation, answer in probe.rows
        if expectation.outputs is not None and answer is not None
    ]
    for expectation, answer in sorted(rows, key=lambda row: id(row[0]) not in failing):
        inputs = expectation.case.inputs
        cast = {name: _cast(inputs[name], dtype) for name in names}
        is_failing = id(expectation) in failing
        if is_failing and not is_computed and all(np.array_equal(cast[name], inputs[name]) for name in cast):
            return False
        if is_failing and all(map(is_close, compare_outputs(expectation.outputs or {}, answer))):
            return False  # the model agrees as well without the cast
        probe.budget.check()
        try:
            with _integers_in(reference.model, dtype) if is_computed else nullcontext():
                expected = reference.expect_eager({**inputs, **cast})
        except RuntimeFailedError:
            if is_failing:
                return False
            continue
        if not all(map(is_close, compare_outputs(expected, answer))):
            return False
    return True


def _cast(array: Array, dtype: str) -> Array:
    """Returns an array after a cast to a type and back."""
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(as_dtype(dtype)).astype(array.dtype)


def _integers_in(model: Any, dtype: str) -> AbstractContextManager[None]:
    """Lets the layers and operations of a model compute wider integers in a type."""
    parts = {id(part): part for layer in all_layers(model) for part in parts_of(layer)}.values()
    call = partial(_call_in_type, dtype, [])
    return replaced_functions((part, "call", call) for part in parts)


def _call_in_type(
    dtype: str, usual_calls: list[Any], usual: Callable[..., Any], *arguments: Any, **keywords: Any
) -> Any:
    """Returns the results of a call, with integers that wrap around in a narrower type, or are rounded as floats.

    Args:
        dtype: The narrower type.
        usual_calls: The calls in which integers keep their types now; the calls of inner parts keep them too.
        usual: The call of the part.
        *arguments: The arguments of the call.
        **keywords: The arguments of the call by name.
    """
    import keras

    def is_wider(leaf: Any) -> bool:
        own = keras.backend.standardize_dtype(leaf.dtype) if keras.ops.is_tensor(leaf) else ""
        return "int" in own and _digits(own) > _digits(dtype)

    def narrow(leaf: Any) -> Any:
        return keras.ops.cast(leaf, dtype) if is_wider(leaf) else leaf

    def restore(own: Any, result: Any) -> Any:
        return keras.ops.cast(keras.ops.cast(result, dtype), own.dtype) if is_wider(own) else result

    is_narrowed = not is_integer(dtype) and any(map(is_wider, keras.tree.flatten((arguments, keywords))))
    if usual_calls or not is_narrowed:
        own = results = usual(*arguments, **keywords)
    else:  # floats do not wrap around: the operands must be floats
        usual_calls.append(usual)
        try:
            own = usual(*arguments, **keywords)
        finally:
            usual_calls.pop()
        given, named = keras.tree.map_structure(narrow, (arguments, keywords))
        results = usual(*given, **named)
    return results if usual_calls else keras.tree.map_structure(restore, own, results)
