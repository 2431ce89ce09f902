"""tensor2tensor's functions under their own names return what they returned there, where that was a number."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import tensor2tensor, timing_signal
from tests import golden
from tests.layers.configurations import none_in_lists


@pytest.mark.parametrize("case", golden.cases(), ids=lambda case: case.name)
def test_every_golden_case_is_reproduced_by_the_same_call(case: golden.Case) -> None:
    result = ops.convert_to_numpy(getattr(tensor2tensor, case.function)(**case.arguments))
    assert result.shape == case.returned.shape
    assert np.abs(result - case.returned).max() <= golden.largest_tolerance(case)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        ("get_timing_signal_1d", "length, channels, min_timescale=1.0, max_timescale=10000.0, start_index=0"),
        ("add_timing_signal_1d", "x, min_timescale=1.0, max_timescale=10000.0, start_index=0"),
        ("add_timing_signal_1d_given_position", "x, position, min_timescale=1.0, max_timescale=10000.0"),
        ("add_timing_signals_given_positions", "x, positions, min_timescale=1.0, max_timescale=10000.0"),
        (
            "add_timing_signals_from_features",
            "x, features, position_features, min_timescale=1.0, max_timescale=10000.0",
        ),
        ("add_timing_signal_nd", "x, min_timescale=1.0, max_timescale=10000.0"),
        ("get_layer_timing_signal_sinusoid_1d", "channels, layer, num_layers"),
        ("add_layer_timing_signal_sinusoid_1d", "x, layer, num_layers"),
        ("add_layer_timing_signal_learned_1d", "x, layer, num_layers"),
        ("add_positional_embedding", "x, max_length, name=None, positions=None"),
        ("add_positional_embedding_nd", "x, max_length, name=None"),
    ],
)
def test_names_order_and_defaults_are_tensor2tensors(function: str, signature: str) -> None:
    parameters = inspect.signature(getattr(tensor2tensor, function)).parameters.values()
    ours = [each.name if each.default is each.empty else f"{each.name}={each.default}" for each in parameters]
    assert ", ".join(ours) == signature


@none_in_lists
def test_features_are_looked_up_by_name_and_missing_ones_are_the_range() -> None:
    x, row = np.zeros((1, 3, 8), "float32"), np.array([[4, 5, 6]])
    result = ops.convert_to_numpy(tensor2tensor.add_timing_signals_from_features(x, {"row": row}, "row,"))
    assert np.abs(result[0, :, :4] - timing_signal(row[0], 4)).max() <= 2.5e-7
    assert np.abs(result[0, :, 4:] - timing_signal(np.arange(3), 4)).max() <= 2.5e-7


def test_one_timescale_left_is_finite_where_tensor2tensor_returned_nan() -> None:
    result = ops.convert_to_numpy(tensor2tensor.add_timing_signal_nd(np.zeros((1, 2, 3, 4), "float32")))
    assert np.isfinite(result).all()
    assert np.abs(result[0, :, 0, :2] - timing_signal(np.arange(2), 2)).max() <= 2.5e-7


def test_the_layer_signal_is_added_to_every_position() -> None:
    x = np.zeros((2, 3, 8), "float32")
    result = ops.convert_to_numpy(tensor2tensor.add_layer_timing_signal_sinusoid_1d(x, 2, 4))
    np.testing.assert_allclose(result, np.broadcast_to(timing_signal(2, 8), x.shape), atol=2.0**-24)
    with pytest.raises(ValueError, match=r"`layer` must be from 0 to num_layers - 1\. Received: layer=4"):
        tensor2tensor.add_layer_timing_signal_sinusoid_1d(x, 4, 4)


def test_learned_functions_add_trained_values_to_a_functional_model() -> None:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3, 8))
    x = tensor2tensor.add_positional_embedding(inputs, 10, name="positions")
    x = tensor2tensor.add_positional_embedding_nd(x, 10, name="grid")
    outputs = tensor2tensor.add_layer_timing_signal_learned_1d(x, 1, 4)
    model = keras.Model(inputs, outputs)
    assert [tuple(weight.shape) for weight in model.trainable_weights] == [(10, 8), (10, 8), (4, 8)]
    table, grid, layer = (ops.convert_to_numpy(weight) for weight in model.weights)
    expected = table[:3] + np.sqrt(8) * grid[:3] + np.sqrt(8) * layer[1]
    # Six roundings of numbers below 16.
    np.testing.assert_allclose(model.predict(np.zeros((2, 3, 8)), verbose=0)[0], expected, atol=6 * 2.0**-21)


def test_a_negative_length_and_integers_to_add_to_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`length` must be at least 0\. Received: length=-5"):
        tensor2tensor.get_timing_signal_1d(-5, 8)
    with pytest.raises(TypeError, match=r"`x` must be of a floating-point dtype.*int32"):
        tensor2tensor.add_timing_signal_1d(np.zeros((1, 3, 8), "int32"))
