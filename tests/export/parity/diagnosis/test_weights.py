"""The artifact's weights beside the model's."""

import tracemalloc

import keras
import numpy as np
import pytest

from keras_pe.export.model.stored_weights import packed_cell
from keras_pe.export.parity.diagnosis.weights import compare_weights, stored_weights


def test_possible_changes_of_weights_are_tried_for_one_weight_at_a_time():
    inputs = keras.Input((256,))
    model = keras.Sequential([inputs, *(keras.layers.Dense(256, name=f"dense_{i}") for i in range(16))])
    nbytes = sum(v.numpy().nbytes for v in model.variables)
    constants = {v.path: -v.numpy() if v.path.endswith("kernel") else v.numpy() for v in model.variables}
    tracemalloc.start()
    try:
        faults = compare_weights(model, constants).faults
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {fault.change.cause for fault in faults} == {"flipped sign"}
    assert len(faults) == 16
    assert peak < 2 * nbytes  # each weight once, and a dozen float32 copies of one of the sixteen kernels


def _dense() -> keras.Model:
    keras.utils.set_random_seed(2)
    return keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, name="one"), keras.layers.Dense(3, name="two")])


@pytest.mark.parametrize(
    ("dtype", "zero", "axis", "said"),
    [("int8", 0, None, "the scale 0.0"), ("uint8", 117, None, "the zero point 117"), ("int8", 0, 1, "of axis 1, 0.00")],
)
def test_a_weight_that_is_stored_in_integers_is_named_with_its_scale(dtype, zero, axis, said):
    model = _dense()
    constants = {f"constant_{i}": v.numpy() for i, v in enumerate(model.variables)}
    kernel = constants.pop("constant_0")
    scale = np.abs(kernel).max(axis=None if axis is None else 0, keepdims=axis is not None) / 100
    constants["quantized"] = (np.rint(kernel / scale) + zero).astype(dtype)
    constants["another"] = np.random.default_rng(0).integers(-90, 90, kernel.shape).astype("int8")
    (fault,) = compare_weights(model, constants).faults
    assert (fault.layer, fault.change.cause, fault.is_certain) == ("one", f"quantized ({dtype})", True)
    assert said in str(fault.change)
    error = float(str(fault.change).rpartition(" ")[2].rstrip("."))
    # The report states two digits of the scale, which is fitted.
    assert error == pytest.approx(np.abs(kernel - scale * np.rint(kernel / scale)).max(), rel=0.1)


@pytest.mark.parametrize(("layer", "shape", "axes", "added"), [
    (keras.layers.Conv1D(64, 5, name="one"), (9, 8), (2, 0, 1), 1),
    (keras.layers.Conv1D(64, 1, name="one"), (9, 8), (2, 0, 1), 1),
    (keras.layers.Conv2DTranspose(64, 3, name="one"), (9, 9, 4), (2, 0, 1, 3), None),
])  # fmt: skip
def test_a_kernel_in_integers_is_known_whatever_axes_of_one_its_operator_has(layer, shape, axes, added):
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input(shape), layer])
    kernel = layer.kernel.numpy()
    # Each filter has its scale
    scale = np.abs(kernel).max(axis=tuple(set(range(kernel.ndim)) - {axes[0]}), keepdims=True) / 127
    stored = np.rint(kernel / scale).astype("int8").transpose(axes)
    stored = stored if added is None else np.expand_dims(stored, added)
    (fault,) = compare_weights(model, {"kernel": stored}).faults
    assert (fault.layer, fault.change.cause, fault.is_certain) == ("one", "quantized (int8)", True)
    assert f"of axis {axes[0]}" in str(fault.change)


@pytest.mark.parametrize("kind", [keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN])
@pytest.mark.parametrize("weight", ["kernel", "recurrent_kernel", "bias"])
def test_a_weight_that_an_operator_has_packed_is_found_in_the_package(kind, weight):
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((None, 5)), kind(4, name="steps"), keras.layers.Dense(2, name="head")])
    layer = model.get_layer("steps")
    layer.cell.bias.assign(np.random.default_rng(1).normal(size=layer.cell.bias.shape))
    constants = {f"packed_{name}": array.copy() for name, array in packed_cell(layer.cell).items()}
    constants |= {f"head_{i}": v.numpy() for i, v in enumerate(model.get_layer("head").variables)}
    compared = compare_weights(model, constants)
    assert compared.faults == []
    zeros = model.get_layer("head").bias.path  # other zeros have equal content
    assert compared.sound == {each.path for each in model.weights} - {zeros}
    assert stored_weights(model, constants)[0].compared == len(model.weights)
    constants[f"packed_{weight}"].flat[2] += 1.0
    (fault,) = compare_weights(model, constants).faults
    assert (fault.layer, fault.weight) == ("steps", getattr(layer.cell, weight).path)
    assert "1 value differs" in str(fault.change)


@pytest.mark.parametrize("weight", ["kernel", "recurrent_kernel", "bias"])
def test_gates_in_the_order_of_keras_are_others_to_the_operator(weight):
    keras.utils.set_random_seed(2)
    model = keras.Sequential([keras.Input((None, 5)), keras.layers.LSTM(4, name="steps")])
    cell = model.get_layer("steps").cell
    cell.bias.assign(np.random.default_rng(1).normal(size=cell.bias.shape))
    packed = packed_cell(cell)[weight]
    gates = packed.reshape(-1, 4, 4) if weight == "bias" else packed.reshape(4, 4, -1)
    as_in_keras = gates[:, [0, 2, 3, 1]] if weight == "bias" else gates[[0, 2, 3, 1]]
    (fault,) = compare_weights(model, {"packed": as_in_keras.reshape(packed.shape)}).faults
    assert (fault.layer, fault.weight) == ("steps", getattr(cell, weight).path)
    assert fault.change.cause == "reordered values"
