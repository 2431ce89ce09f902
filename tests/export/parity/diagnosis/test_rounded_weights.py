"""Stored weights are held to what rounding to their own format does: a damaged one is named in every format."""

import keras
import ml_dtypes
import numpy as np
import pytest

from keras_pe.export import Cause
from keras_pe.export.parity.diagnosis.rounded_weights import integer_weights, rounded_weights
from keras_pe.export.runtimes.runtime import LazyArrays

KERNEL, BIAS, TABLE = "hidden/kernel", "hidden/bias", "table/embeddings"


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(60, 32, name="table")(ids)
    query, key = (keras.layers.Dense(32, name=name)(x) for name in ("query", "key"))
    made = keras.Model(ids, keras.layers.Dense(24, name="hidden")(query * key))
    rng = np.random.default_rng(0)
    for variable in made.weights:
        if "bias" in variable.path:
            variable.assign(0.1 * rng.standard_normal(variable.shape))
    return made


def _on_grid(array, levels, axis=None, block=None):
    """Returns an array on a grid of integers, and the step of each value."""
    wide = array.astype(np.float64)
    axes = None if axis is None else tuple(i for i in range(wide.ndim) if i != axis % wide.ndim)
    largest = np.abs(wide).max(axis=axes, keepdims=True)
    if block is not None and wide.ndim > 1:
        parts = np.abs(wide).reshape(-1, block, wide.shape[1]).max(axis=1)
        largest = np.repeat(parts, block, axis=0)
    step = np.broadcast_to(largest / levels, wide.shape)
    return np.rint(wide / step) * step, step


def _as_float(dtype):
    return lambda array: (array.astype(dtype), None)


FORMATS = {
    "float32": _as_float(np.float32),
    "float16": _as_float(np.float16),
    "bfloat16": _as_float(ml_dtypes.bfloat16),
    "truncated to bfloat16": lambda a: ((a.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32), None),
    "float16 kept as float32": lambda a: (a.astype(np.float16).astype(np.float32), None),
    "int8": lambda a: _on_grid(a, 127),
    "int8 by channel": lambda a: _on_grid(a, 127, axis=-1),
    "int8 of seven bits": lambda a: _on_grid(a, 63),
    "int4 in blocks": lambda a: _on_grid(a, 7, block=4) if a.ndim > 1 else (a, None),
}


def _file(model, form, damage=None, named=True):
    """Returns the constants of a file in a format, and what its integers stand for with their steps."""
    constants, numbers, steps = {}, {}, {}
    for number, variable in enumerate(model.weights):
        array, step = FORMATS[form](variable.numpy())
        if damage is not None:
            array = damage(variable.path, array)
        name = variable.path if named else f"constant {number}"
        if step is None:
            constants[name] = array
        else:
            numbers[f"{name}_quantized"], steps[f"{name}_quantized"] = array, step
    return constants, tuple(LazyArrays(each, each.__getitem__) for each in (numbers, steps))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("form", FORMATS)
def test_a_sound_weight_of_any_format_is_found_and_no_fault(model, form, named):
    held, faults = rounded_weights(model, *_file(model, form, named=named))
    assert (held.compared, faults) == (held.count, [])


@pytest.mark.parametrize("form", [form for form in FORMATS if form.startswith("int")])
def test_a_kernel_of_integers_is_quantized_and_a_damaged_one_has_its_damage(model, form):
    for damage, cause in ((None, "quantized"), (_plus(0.3, KERNEL), "offset values")):
        found = {each.weight: each.change.cause for each in integer_weights(model, _file(model, form, damage)[1])}
        causes = {path: each.partition(" (")[0] for path, each in found.items()}
        assert causes == {each.path: "quantized" for each in model.weights if len(each.shape) > 1} | {KERNEL: cause}


def _times(row, factor, of):
    def damage(path, array):
        changed = array.copy()
        if path == of:
            changed[row] = (changed[row].astype(np.float64) * factor).astype(changed.dtype)
        return changed

    return damage


def _plus(by, of):
    return lambda path, array: (array.astype(np.float64) + by).astype(array.dtype) if path == of else array


DAMAGES = {
    "a bias off by 0.01": (_plus(0.01, BIAS), BIAS),
    "a bias without a sign": (lambda path, array: abs(array) if path == BIAS else array, BIAS),
    "a row of a kernel off by 5 %": (_times(3, 1.05, KERNEL), KERNEL),
    "a column of a kernel off by 10 %": (_times((slice(None), 5), 1.1, KERNEL), KERNEL),
    "a row of a table off by 20 %": (_times(7, 1.2, TABLE), TABLE),
    "a negated row": (_times(7, -1, TABLE), TABLE),
    "rows exchanged": (lambda path, array: array[[1, 0, *range(2, len(array))]] if path == KERNEL else array, KERNEL),
    "NaN in a row": (_times(4, np.nan, TABLE), TABLE),
}


@pytest.mark.quick_rows(12)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_weight_of_any_format_is_named(model, form, damage):
    change, path = DAMAGES[damage]
    _, faults = rounded_weights(model, *_file(model, form, change))
    if form == "int4 in blocks" and damage == "a row of a kernel off by 5 %":
        return  # that is a third of a step, and a row of 24 values does not tell it from rounding
    assert [fault.weight for fault in faults] == [path]
    assert not faults[0].change.cause.is_rounding


@pytest.mark.parametrize("damage", ["a row of a table off by 20 %", "a negated row", "NaN in a row"])
@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_part_is_named_though_the_constant_has_another_name(model, form, damage):
    change, path = DAMAGES[damage]
    _, faults = rounded_weights(model, *_file(model, form, change, named=False))
    assert [fault.weight for fault in faults] == [path]


@pytest.mark.parametrize("form", FORMATS)
def test_exchanged_weights_are_each_named_as_the_other(model, form):
    weights = {variable.path: variable.numpy() for variable in model.weights}
    other = {"query/kernel": "key/kernel", "key/kernel": "query/kernel"}
    constants, dequantized = _file(model, form)
    if "query/kernel" in constants:
        constants |= {one: constants[two] for one, two in other.items()}
    else:
        dequantized = tuple(
            LazyArrays(each, lambda name, of=each: of[f"{other.get(name[:-10], name[:-10])}_quantized"])
            for each in dequantized
        )
    _, faults = rounded_weights(model, constants, dequantized)
    assert {fault.weight: fault.change.cause for fault in faults} == dict.fromkeys(other, Cause.ANOTHER_WEIGHT)
    assert weights.keys() >= other.keys()
