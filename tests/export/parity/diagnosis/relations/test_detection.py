"""The values of a weight identify its change: thirty changes have each a name, and rounding has none."""

import ml_dtypes
import numpy as np
import pytest

from keras_pe.export.parity.diagnosis.relations import detection
from keras_pe.export.parity.diagnosis.relations.detection import find_change

RNG = np.random.default_rng(3)
KERNEL = RNG.standard_normal((24, 24)).astype(np.float32)
WIDE = RNG.standard_normal((16, 40)).astype(np.float32)
BIAS = RNG.standard_normal(32).astype(np.float32)
HEADS = KERNEL.reshape(24, 4, 6)
CONV = RNG.standard_normal((3, 3, 4, 8)).astype(np.float32)


def _quantize(array, levels, axis=None):
    axes = None if axis is None else tuple(i for i in range(array.ndim) if i != axis)
    step = np.abs(array).max(axis=axes, keepdims=True) / levels
    return (np.rint(array / step) * step).astype(np.float32)


def _with_scales_of_others(array):
    step = np.abs(array).max(axis=1, keepdims=True) / 127
    return (np.rint(array / step) * np.roll(step, 1, 0)).astype(np.float32)


def _with(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


CHANGES = [
    ("rounded values", "float16", KERNEL, KERNEL.astype(np.float16).astype(np.float32)),
    ("rounded values", "bfloat16", KERNEL, KERNEL.astype(ml_dtypes.bfloat16).astype(np.float32)),
    ("quantized (int8)", f"the scale {np.abs(KERNEL).max() / 127:.6g}", KERNEL, _quantize(KERNEL, 127)),
    ("quantized (int8)", "axis 1", WIDE, _quantize(WIDE, 127, axis=1)),
    (
        "rounded values",
        "truncated to bfloat16",
        KERNEL,
        (KERNEL.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32),
    ),
    ("rounded values", "3 decimals", KERNEL, np.round(KERNEL, 3)),
    ("quantized (int8)", "scales are exchanged", WIDE, _with_scales_of_others(WIDE)),
    ("scaled values", "All 16 indices of axis 0", WIDE, WIDE * RNG.uniform(0.5, 2, (16, 1)).astype(np.float32)),
    (
        "scaled values",
        "Indices 3, 5, 9 of axis 0 (3 of 16) are multiplied by different numbers, 0.5 to 2; the others agree.",
        WIDE,
        _with(WIDE, [3, 5, 9], WIDE[[3, 5, 9]] * np.float32([[2], [0.5], [1.5]])),
    ),
    ("scaled values", "Index 1 of axis 0 (1 of 2) is multiplied by 3;", WIDE[:2], _with(WIDE[:2], 1, 3 * WIDE[1])),
    ("quantized (int4)", "the scale", WIDE, _quantize(WIDE, 7)),
    ("scaled values", "0.125", KERNEL, KERNEL * np.float32(0.125)),
    ("scaled values", "1.001", BIAS, BIAS * np.float32(1.001)),
    ("flipped sign", "sign", KERNEL, -KERNEL),
    ("flipped sign", "sign", BIAS, -BIAS),
    ("transposed axes", "[1, 0]", KERNEL, KERNEL.T),
    ("transposed axes", "[1, 0]", WIDE, WIDE.T),
    ("transposed axes", "[1, 0, 2, 3]", CONV, CONV.transpose(1, 0, 2, 3)),
    ("transposed axes", "[3, 2, 0, 1]", CONV, CONV.transpose(3, 2, 0, 1)),
    ("transposed axes", "[1, 2, 0], reshaped to its own shape", HEADS, HEADS.reshape(24, 24).T.reshape(24, 4, 6)),
    ("transposed axes", "[0, 2, 1], reshaped to its own shape", HEADS, HEADS.transpose(0, 2, 1).reshape(24, 4, 6)),
    ("transposed axes", "[1, 0], reshaped to its own shape", HEADS[0], HEADS[0].T.reshape(4, 6)),
    ("reversed values", "axis 0", KERNEL, KERNEL[::-1]),
    ("reversed values", "0, 1", CONV, CONV[::-1, ::-1]),
    ("shifted rows", "i+1", WIDE, np.roll(WIDE, -1, axis=0)),
    ("shifted rows", "i-2", WIDE, np.roll(WIDE, 2, axis=0)),
    ("shifted rows", "axis 1", WIDE, np.concatenate([WIDE[:, 1:], WIDE[:, :1] * 0], axis=1)),
    ("reordered values", "axis 1", WIDE, WIDE.reshape(16, 4, 10)[:, [0, 2, 1, 3]].reshape(16, 40)),
    ("reordered values", "axis 0", WIDE, WIDE[RNG.permutation(16)]),
    ("changed values", "1 value differs at [3, 5]", KERNEL, _with(KERNEL, (3, 5), 9.0)),
    ("changed values", "the first at [7", KERNEL, _with(KERNEL, (7, slice(0, 4)), 9.0)),
    ("changed values", "Index 7 of axis 0", KERNEL, _with(KERNEL, 7, KERNEL[7] + RNG.standard_normal(24))),
    ("changed values", "Indices 4, 17 of axis 1 (2 of 40) differ", WIDE, _with(WIDE, (slice(None), [4, 17]), 9.0)),
    ("changed values", "Index 23 of axis 0 (1 of 24) differs", KERNEL, _with(KERNEL, 23, -KERNEL[23])),
    ("changed values", "There: Its values have the opposite sign", KERNEL, _with(KERNEL, 23, -KERNEL[23])),
    ("NaN or infinity", "Index 15 of axis 0 (1 of 16)", WIDE, _with(WIDE, 15, np.nan)),
    ("changed values", "576 of 576", KERNEL, KERNEL + RNG.standard_normal((24, 24)).astype(np.float32)),
    ("missing values", "values are zero", BIAS, np.zeros_like(BIAS)),
    ("missing values", "values are 1", BIAS, np.ones_like(BIAS)),
    ("offset values", "+0.25", BIAS, BIAS + np.float32(0.25)),
    ("clipped values", "clipped at -0.5 and 0.7", KERNEL, np.clip(KERNEL, -0.5, 0.7)),
    ("clipped values", "clipped at 1", BIAS, np.minimum(BIAS, 1)),
    ("NaN or infinity", "1 of 576", KERNEL, _with(KERNEL, (0, 1), np.nan)),
    ("NaN or infinity", "24 of 576", KERNEL, _with(KERNEL, 2, np.inf)),
    ("other shape", "(24, 20)", KERNEL, KERNEL[:, :20]),
]


@pytest.mark.parametrize(("cause", "said", "expected", "actual"), CHANGES, ids=[f"{c[0]} {c[1]}" for c in CHANGES])
def test_a_change_is_named_with_its_numbers(cause, said, expected, actual):
    found = find_change(expected, np.asarray(actual))
    assert found is not None
    assert found.cause == cause
    assert said in str(found)


def _with_nan_in_both(places, change):
    """Returns a kernel with NaN at some indices, and a changed copy with NaN at these indices."""
    return _with(KERNEL, places, np.nan), _with(np.asarray(change(KERNEL)), places, np.nan)


@pytest.mark.parametrize("places", [(0, 0), 5, (slice(None), 2), (slice(None, None, 3), slice(1, 9))])
@pytest.mark.parametrize(
    ("cause", "said", "change"),
    [
        ("flipped sign", "sign", lambda a: -a),
        ("scaled values", "1.5 times", lambda a: a * np.float32(1.5)),
        ("scaled values", "axis 1", lambda a: a * np.linspace(0.5, 2, 24, dtype=np.float32)),
        ("offset values", "+0.25", lambda a: a + np.float32(0.25)),
        ("clipped values", "clipped at -0.5 and 0.7", lambda a: np.clip(a, -0.5, 0.7)),
        ("rounded values", "float16", lambda a: a.astype(np.float16).astype(np.float32)),
        ("quantized (int8)", "multiples of", lambda a: _quantize(a, 127)),
        ("missing values", "values are zero", np.zeros_like),
        ("missing values", "values are 3", lambda a: np.full_like(a, 3)),
        ("changed values", "1 value differs at [7, 11]", lambda a: _with(a, (7, 11), 9.0)),
        ("changed values", "Index 8 of axis 0", lambda a: _with(a, 8, -a[8])),
    ],
)
def test_a_change_is_named_beside_values_that_are_nan_in_model_and_artifact(cause, said, change, places):
    found = find_change(*_with_nan_in_both(places, change))
    assert found.cause == cause
    assert said in str(found)
    assert "nan" not in str(found)


@pytest.mark.parametrize("change", [np.transpose, lambda a: a[::-1], lambda a: a[:, ::-1]])
def test_values_that_stand_elsewhere_are_recognized_though_nan_moves_with_them(change):
    one = _with(KERNEL, (0, 3), np.nan)
    assert find_change(one, change(one)).cause in ("transposed axes", "reversed values")


def test_infinities_count_as_values_and_equal_ones_as_no_difference():
    one = _with(KERNEL, (0, 0), np.inf)
    assert find_change(one, one.copy()) is None
    assert find_change(one, -one).cause == "flipped sign"
    changed = find_change(one, _with(KERNEL, (0, 0), -np.inf))
    assert (changed.cause, changed.facts["count"], changed.facts["place"]) == ("changed values", 1, [0, 0])


def test_a_small_value_that_differs_beside_large_ones_is_no_factor_of_one():
    expected = np.array([30.0, 30.0, -1e9, 2.0])
    change = find_change(expected, np.array([31.0, 31.0, -1e9, 2.0]), 0.0, detection.OF_OUTPUTS)
    assert change.cause == "changed values"


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_a_constant_is_contradicted_by_a_right_array_of_other_values(value):
    change = find_change(BIAS, np.full_like(BIAS, value))
    assert not detection.contradicts(change, np.full_like(BIAS, value), 1e-6)
    assert detection.contradicts(change, BIAS, 1e-6)


def test_an_array_as_it_was_is_no_change():
    assert find_change(KERNEL, KERNEL.copy()) is None


@pytest.mark.parametrize("relations", [detection.OF_WEIGHTS, detection.OF_OUTPUTS], ids=["weight", "output"])
def test_equal_rows_are_no_rounding_however_many(relations):
    expected, actual = (np.repeat(np.float32([row]), 64, axis=0) for row in ([0.42, 0.314], [0.0735, 0.201]))
    change = find_change(expected, actual, 0.0, relations)
    expected_cause = "scaled values" if relations is detection.OF_WEIGHTS else "changed values"
    assert change.cause == expected_cause


def test_a_few_values_are_on_every_grid_by_chance_and_are_not_called_rounded():
    few = BIAS[:6]
    assert find_change(few, few * np.linspace(1.001, 1.003, 6, dtype=np.float32)).cause == "changed values"


@pytest.mark.parametrize(
    ("change", "cause", "said"),
    [
        (lambda a: a * np.float32(1.5), "scaled values", "1.5 times"),
        (lambda a: a.T, "transposed axes", "[1, 0]"),
        (lambda a: _with(a, 40, a[40] + 1), "changed values", "rows 40 to 41 of 64"),
        (lambda a: _with(a, (slice(32, None), 3), 9.0), "changed values", "16 of 32 parts"),
        (lambda a: a.copy(), None, ""),
    ],
)
def test_an_array_too_large_to_be_widened_is_told_from_its_first_rows_that_differ(change, cause, said, monkeypatch):
    monkeypatch.setattr(detection, "_AT_ONCE", 128)
    array = RNG.standard_normal((64, 64)).astype(np.float32)
    found = find_change(array, change(array))
    assert (found and found.cause) == cause
    assert said in str(found)
