"""The layer in TensorFlow: graphs, XLA and input pipelines give the numbers of the eager call."""

from collections import Counter

import keras
import numpy as np
import pytest

from keras_pe import RotaryPositionEncoding, SinusoidalPositionEncoding, timing_signal

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="these are TensorFlow's own ways to run")

SPEC = [None, None, 16]


@pytest.mark.slow_rows(6)
@pytest.mark.slow
@pytest.mark.parametrize("max_length", [None, 2000])
@pytest.mark.parametrize("length", [1, 2, 511, 512, 513, 1500])
def test_graphs_and_xla_take_any_length_at_run_time(max_length: int | None, length: int) -> None:
    layer = SinusoidalPositionEncoding(max_length=max_length)
    x = np.zeros((2, length, 16), "float32")
    eager = np.asarray(layer(x))
    graph = tf.function(layer, input_signature=[tf.TensorSpec(SPEC)])
    np.testing.assert_array_equal(graph(x), eager)
    compiled = tf.function(layer, input_signature=[tf.TensorSpec(SPEC)], jit_compile=True)
    # XLA may fuse a product and a sum into one rounding: still within the promise, if not the same bits.
    assert np.abs(np.asarray(compiled(x)) - timing_signal(np.arange(length), 16)).max() <= 2.5e-7


def test_a_longer_input_than_the_table_fails_in_a_graph_and_in_xla() -> None:
    layer = SinusoidalPositionEncoding(max_length=1)
    layer.build((None, None, 16))
    for jit_compile in (False, True):
        graph = tf.function(layer, input_signature=[tf.TensorSpec(SPEC)], jit_compile=jit_compile)
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph(np.zeros((1, 2, 16), "float32"))


def test_a_ragged_tensor_is_refused_with_the_way_to_a_dense_one() -> None:
    ragged = tf.ragged.constant([[[0.0] * 16] * 2, [[0.0] * 16] * 3], ragged_rank=1)
    layer = SinusoidalPositionEncoding(name="positions")
    with pytest.raises(TypeError, match=r"dense tensor in layer 'positions'. Received: a RaggedTensor") as refused:
        layer(ragged)
    assert "positions_from_mask" in str(refused.value)
    assert layer(ragged.to_tensor()).shape == (2, 3, 16)  # as the message says


def test_it_can_be_mapped_over_a_dataset() -> None:
    layer = SinusoidalPositionEncoding()
    layer.build((None, None, 16))
    data = tf.data.Dataset.from_tensor_slices(np.zeros((4, 9, 16), "float32")).batch(2).map(layer)
    for batch in data:
        np.testing.assert_array_equal(batch, layer(np.zeros((2, 9, 16), "float32")))


def test_a_traced_length_that_is_known_leaves_no_condition_in_the_graph() -> None:
    layer = SinusoidalPositionEncoding()
    known = tf.function(layer).get_concrete_function(tf.TensorSpec([None, 100, 16]))
    unknown = tf.function(layer).get_concrete_function(tf.TensorSpec(SPEC))
    kinds = [{operation.type for operation in function.graph.get_operations()} for function in (known, unknown)]
    assert "StatelessIf" not in kinds[0]
    assert "StatelessIf" in kinds[1]


def test_a_decoders_step_looks_its_angle_up_without_a_condition() -> None:
    layer = RotaryPositionEncoding()
    step = tf.function(lambda x, start: layer(x, start_index=start))
    for shape in ([1, 1, 2, 16], [None, None, 2, 16]):
        specs = tf.TensorSpec(shape), tf.TensorSpec([], tf.int32)
        kinds = Counter(operation.type for operation in step.get_concrete_function(*specs).graph.get_operations())
        assert "StatelessIf" not in kinds
        # Sines and cosines of the middle and the top digit, and both halves of the units.
        assert (kinds["GatherV2"], kinds["FloorMod"]) == (6, 2)
        # Only the turned halves are put together, and no axes are added but that of the heads.
        assert (kinds["ConcatV2"], kinds["ExpandDims"]) == (1, 2)


def test_halves_are_laid_as_each_compiler_is_fastest_with() -> None:
    layer, specs = RotaryPositionEncoding(), [tf.TensorSpec((None, None, 2, 8))]
    for jit_compile in (True, False):
        graph = tf.function(layer, specs, jit_compile=jit_compile).get_concrete_function().graph
        assert ("ConcatV2" in {each.type for each in graph.get_operations()}) is not jit_compile
    x = np.random.default_rng(0).normal(size=(1, 7, 2, 8)).astype("float32")
    turned = [run(x) for run in (layer, tf.function(layer, specs), tf.function(layer, specs, jit_compile=True))]
    np.testing.assert_array_equal(turned[0], turned[1])
    np.testing.assert_allclose(turned[0], turned[2], rtol=0, atol=1e-6)  # XLA may round a product and a sum at once
