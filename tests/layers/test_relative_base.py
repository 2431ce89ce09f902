"""The biases that depend on distance: ALiBi's, T5's and Shaw's, with a cache, padding and any head count."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import AlibiBias, RelativePositionBias, RelativePositionEmbedding, positions_from_mask
from keras_pe.signal.distances import alibi_slopes, relative_buckets
from tests.layers.configurations import run

RNG = np.random.default_rng(3)
LAYERS = {
    "alibi": lambda: AlibiBias(4),
    "t5": lambda: RelativePositionBias(4, num_buckets=8, max_distance=20),
    "deberta": lambda: RelativePositionBias(4, num_buckets=8, max_distance=20, rule="deberta"),
    "shaw": lambda: RelativePositionEmbedding(4, 3),
    "shaw by head": lambda: RelativePositionEmbedding(4, 3, share_heads=False),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def heads(length: int, batch: int = 2) -> np.ndarray:
    return RNG.uniform(-1, 1, size=(batch, length, 4, 6)).astype("float32")


def test_alibi_is_a_slope_times_the_distance() -> None:
    for count in (4, 6):
        expected = -alibi_slopes(count)[:, np.newaxis, np.newaxis] * np.abs(
            np.subtract.outer(np.arange(7), np.arange(7))
        )
        # A slope rounds once, the product once more.
        np.testing.assert_allclose(run(AlibiBias(count), heads(7))[0], expected, rtol=2 * 2.0**-24)


def test_distances_that_bfloat16_has_no_number_for_are_rounded_with_their_bias_and_not_before() -> None:
    bias = run(AlibiBias(8), np.zeros((1, 700, 8)))
    narrow = ops.convert_to_numpy(ops.cast(AlibiBias(8, dtype="bfloat16")(np.zeros((1, 700, 8))), "float32"))
    assert (np.abs(narrow - bias) <= 2.0**-8 * np.abs(bias)).all()  # half a unit of 8 digits


def test_t5_looks_its_buckets_up() -> None:
    for rule, bidirectional in (("t5", True), ("t5", False), ("deberta", True), ("clipped", True)):
        layer = RelativePositionBias(4, num_buckets=8, max_distance=20, bidirectional=bidirectional, rule=rule)
        bias = run(layer, heads(30))
        buckets = relative_buckets(rule, 8, 20, bidirectional=bidirectional)
        distance = np.subtract.outer(np.arange(30), np.arange(30)).T  # the key's position minus the query's
        expected = ops.convert_to_numpy(layer.weights[0])[buckets[np.clip(distance, -20, 20) + 20]]
        np.testing.assert_array_equal(bias[0], np.moveaxis(expected, -1, 0))


@pytest.mark.parametrize("share_heads", [True, False])
def test_shaws_vectors_are_multiplied_with_the_queries(share_heads: bool) -> None:
    layer, queries = RelativePositionEmbedding(4, 3, share_heads=share_heads), heads(9)
    bias = run(layer, queries)
    table = np.broadcast_to(ops.convert_to_numpy(layer.weights[0]).astype("float64"), (4, 7, 6))
    rows = np.clip(np.subtract.outer(np.arange(9), np.arange(9)).T, -3, 3) + 3
    expected = np.einsum("bqhc,hqkc->bhqk", queries, table[:, rows]) * 6**-0.5
    # Six products of numbers below 1 and their sum, and the scale: 8 roundings of a float32 below 6.
    np.testing.assert_allclose(bias, expected, rtol=0, atol=8 * 6 * 2.0**-24)


@every_layer
def test_a_decoders_step_is_a_row_of_the_whole(name: str) -> None:
    layer, queries = LAYERS[name](), heads(9)
    whole = run(layer, queries)
    step = run(layer, queries[:, 6:7], queries, start_index=6)
    np.testing.assert_allclose(step, whole[:, :, 6:7], atol=1e-6)  # sums of six products below 1, in another order
    starts = run(layer, queries[:, :1], queries, start_index=np.array([0, 5], "int32"))
    assert starts.shape == (2, 4, 1, 9)
    if not name.startswith("shaw"):
        np.testing.assert_array_equal(starts[1], whole[0][:, 5:6])


@every_layer
def test_padding_on_the_left_moves_nothing(name: str) -> None:
    layer, queries = LAYERS[name](), heads(5)
    padded = np.concatenate([np.zeros((2, 3, 4, 6), "float32"), queries], axis=1)
    mask = np.repeat([[False] * 3 + [True] * 5], 2, axis=0)
    bias = run(layer, padded, positions=positions_from_mask(mask))
    np.testing.assert_allclose(bias[:, :, 3:, 3:], np.broadcast_to(run(layer, queries), (2, 4, 5, 5)), atol=1e-6)


@every_layer
def test_arguments_may_be_given_by_their_place(name: str) -> None:
    layer, queries, keys = LAYERS[name](), heads(5), heads(7)
    named = run(layer, queries, keys, positions=np.arange(5) + 2, key_positions=np.arange(7))
    np.testing.assert_array_equal(run(layer, queries, keys, np.arange(5) + 2, None, np.arange(7)), named)
    np.testing.assert_array_equal(run(layer, queries, keys, None, 2), named)


@every_layer
def test_its_shape_is_known_before_it_runs(name: str) -> None:
    layer, of_examples = LAYERS[name](), name.startswith("shaw")
    spec = keras.KerasTensor
    queries, keys = spec((2, 5, 4, 6)), spec((2, 7, 4, 6))
    given: list[tuple[dict[str, Any], int]] = [
        ({}, 1),
        ({"positions": spec((5,), "int32")}, 1),
        ({"positions": spec((1, 5), "int32")}, 1),
        ({"positions": spec((2, 5), "int32")}, 2),
        ({"start_index": spec((), "int32")}, 1),
        ({"start_index": spec((2,), "int32")}, 2),
        ({"key_positions": spec((2, 7), "int32")}, 2),
    ]
    for arguments, batch in given:
        expected = (2 if of_examples else batch, 4, 5, 7)
        assert layer(queries, keys, **arguments).shape == expected
        zeros = {each: np.zeros(value.shape, "int32") for each, value in arguments.items()}
        assert run(layer, heads(5), heads(7), **zeros).shape == expected
    assert layer.compute_output_shape((2, 5, 4, 6)) == (2 if of_examples else 1, 4, 5, 5)


@every_layer
@pytest.mark.parametrize(("batch", "length"), [(2, 0), (0, 5), (0, 0), (2, 1)])
def test_there_may_be_no_examples_or_no_queries(name: str, batch: int, length: int) -> None:
    layer = LAYERS[name]()
    size = batch if name.startswith("shaw") else 1
    assert run(layer, heads(length, batch)).shape == (size, 4, length, length)
    keys = heads(3, batch)
    assert run(layer, heads(length, batch), keys, start_index=np.zeros(batch, "int32")).shape == (batch, 4, length, 3)


@pytest.mark.slow
@pytest.mark.parametrize("share_heads", [True, False])
def test_it_takes_what_time_distributed_hands_over(share_heads: bool) -> None:
    layer = RelativePositionEmbedding(4, 3, share_heads=share_heads)
    frames = keras.Input((3, 5, 4, 6))
    model = keras.Model(frames, keras.layers.TimeDistributed(layer)(frames))
    given = np.stack([heads(5) for _ in range(3)], axis=1)
    expected = np.stack([run(layer, given[:, frame]) for frame in range(3)], axis=1)
    # Sums of six products below 1, in another order.
    np.testing.assert_allclose(model.predict(given, verbose=0), expected, atol=1e-6)


@pytest.mark.slow
@every_layer
def test_it_goes_into_keras_attention_and_comes_back_from_a_file(tmp_path: Path, name: str) -> None:
    queries = keras.Input((None, 4, 6), name="queries")
    layer = LAYERS[name]()
    bias = layer(queries)
    outputs = keras.layers.Lambda(lambda x: ops.dot_product_attention(x[0], x[0], x[0], bias=x[1]))([queries, bias])
    inputs = heads(5)
    attended = keras.Model(queries, outputs).predict(inputs, verbose=0)
    scores = np.einsum("bqhc,bkhc->bhqk", inputs, inputs) * 6**-0.5 + run(layer, inputs)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhqk,bkhc->bqhc", weights / weights.sum(-1, keepdims=True), inputs)
    np.testing.assert_allclose(attended, expected, atol=1e-5)  # a softmax of five, in float32
    model = keras.Model(queries, bias)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AlibiBias(0), "`num_heads` must be"),
        (lambda: AlibiBias(4)(np.zeros(3)), "`queries` must have shape"),
        (lambda: AlibiBias(4)(heads(3), positions=np.arange(4)), "`positions` must have shape"),
        (lambda: RelativePositionEmbedding(3, 2)(heads(3)), r"\(batch, length, 3, channels\)"),
        (lambda: RelativePositionBias(4, num_buckets=7), "`num_buckets` must be even"),
        (lambda: _after(RelativePositionEmbedding(4, 2), heads(3))(heads(3)[..., :4]), "to have value 6"),
        (lambda: RelativePositionEmbedding(4, 2)(heads(3).astype("complex64")), "`queries` must be real numbers"),
        (lambda: AlibiBias(4)(heads(3), "a"), "`keys` must be an array or a tensor. Received: a str"),
        (lambda: RelativePositionBias(2, num_buckets="a"), "`num_buckets` must be a number"),
    ],
)
def test_an_invalid_argument_is_refused(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def _after(layer: keras.layers.Layer, inputs: np.ndarray) -> keras.layers.Layer:
    """Returns the layer once it was called."""
    layer(inputs)
    return layer
