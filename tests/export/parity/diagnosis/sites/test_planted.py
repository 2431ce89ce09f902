"""Possible changes of a call, planted as numbers in the place of its output, are named with the layer."""

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812
from keras import ops

import keras_pe
from keras_pe.signal.distances import relative_buckets
from tests.export.parity.diagnosis.planted import findings, one_layer


def _plant_layer(layer, wrong, *shapes):
    """Returns a model of a layer, and what computes something else with that layer and its weights."""
    model = seeded(one_layer(layer, *shapes))
    return model, lambda inputs: np.asarray(wrong(layer, *inputs.values()))


def _with_weights(layer, x, **values):
    """Returns what a layer gives with other weights, by name."""
    kept = {name: getattr(layer, name).numpy() for name in values}
    for name, value in values.items():
        getattr(layer, name).assign(value)
    y = layer(x)
    for name, value in kept.items():
        getattr(layer, name).assign(value)
    return y


def _both_statistics():
    def wrong(layer, x):
        return _with_weights(layer, x, moving_mean=np.zeros(6), moving_variance=np.ones(6))

    return _plant_layer(L.BatchNormalization(name="y"), wrong, (6,))


def _exchanged_statistics():
    def wrong(layer, x):
        mean, variance = layer.moving_mean.numpy(), layer.moving_variance.numpy()
        return _with_weights(layer, x, moving_mean=variance, moving_variance=np.abs(mean))

    model, compute = _plant_layer(L.BatchNormalization(name="y"), wrong, (6,))
    model.get_layer("y").moving_mean.assign(np.linspace(0.2, 0.9, 6))
    return model, compute


def _deviations():
    config = {"mean": [1.0, 2.0, 3.0, 4.0], "variance": [4.0, 9.0, 0.25, 16.0]}
    wrong = L.Normalization(**{**config, "variance": [2.0, 3.0, 0.5, 4.0]})
    wrong.build((None, 4))
    return _plant_layer(L.Normalization(**config, name="y"), lambda _, x: wrong(x), (4,))


def _bias_of_the_state(factor):
    def wrong(layer, x):
        bias = np.asarray(layer.cell.bias)
        layer.cell.bias.assign(bias * [[1.0], [factor]])
        y = layer(x)
        layer.cell.bias.assign(bias)
        return y

    return lambda: _plant_layer(L.GRU(3, unroll=True, name="y"), wrong, (5, 4))


def _neither_biases_nor_a_late_reset():
    def wrong(layer, x):
        other = L.GRU(3, unroll=True, use_bias=False, reset_after=False)
        other.build(x.shape)
        other.set_weights(layer.get_weights()[:2])
        return other(x)

    return _plant_layer(L.GRU(3, unroll=True, name="y"), wrong, (5, 4))


def _causal_softmax():
    def wrong(_, x):
        return ops.softmax(x - 1e9 * (1 - np.tri(x.shape[-1], dtype=np.float32)))

    return _plant_layer(L.Activation("softmax", name="y"), wrong, (2, 5, 5))


def _exchanged_directions():
    def wrong(layer, x):
        forward, backward = layer.forward_layer.get_weights(), layer.backward_layer.get_weights()
        layer.forward_layer.set_weights(backward)
        layer.backward_layer.set_weights(forward)
        y = layer(x)
        layer.forward_layer.set_weights(forward)
        layer.backward_layer.set_weights(backward)
        return y

    layer = L.Bidirectional(L.GRU(3, return_sequences=True, unroll=True), name="y")
    return _plant_layer(layer, wrong, (5, 4))


def _batch_statistics():
    def wrong(layer, x):
        kept = layer.get_weights()
        y = layer(x, training=True)
        layer.set_weights(kept)
        return y

    return _plant_layer(L.BatchNormalization(name="y"), wrong, (4, 6))


def _twice():
    return _plant_layer(L.Dense(6, "sigmoid", name="y"), lambda layer, x: ops.sigmoid(layer(x)), (4,))


def _not_at_all():
    def wrong(layer, x):
        return ops.matmul(x, layer.kernel) + layer.bias

    return _plant_layer(L.Dense(6, "tanh", name="y"), wrong, (4,))


def _first_row():
    return _plant_layer(L.Dense(6, name="y"), lambda layer, x: ops.broadcast_to(layer(x)[:1], (len(x), 6)), (4,))


def _exchanged_states():
    x, h, c = keras.Input((5, 4), name="x"), keras.Input((3,), name="h"), keras.Input((3,), name="c")
    layer = L.LSTM(3, unroll=True, name="y")
    model = seeded(keras.Model([x, h, c], layer(x, initial_state=[h, c])))
    return model, lambda inputs: np.asarray(layer(inputs["x"], initial_state=[inputs["c"], inputs["h"]]))


def _ignored_start():
    x, start = keras.Input((None, 8), name="x"), keras.Input((), dtype="int32", name="start")
    layer = keras_pe.SinusoidalPositionEncoding(name="y")
    return keras.Model([x, start], layer(x, start_index=start)), lambda inputs: np.asarray(layer(inputs["x"]))


def _frozen_start():
    x, start = keras.Input((None, 8), name="x"), keras.Input((), dtype="int32", name="start")
    layer = keras_pe.SinusoidalPositionEncoding(name="y")
    model = keras.Model([x, start], layer(x, start_index=start))
    return model, lambda inputs: np.asarray(layer(inputs["x"], start_index=7))


def _other_schedule():
    wrong = keras_pe.SinusoidalPositionEncoding(
        max_timescale=200.0, layout="interleaved", endpoint=False, start_index=3
    )
    return _plant_layer(keras_pe.SinusoidalPositionEncoding(name="y"), lambda _, x: wrong(x), (None, 16))


def _rotary(said_of_layer=None, **wrong_arguments):
    """Returns a model of a rotary layer beside one with other arguments, or one whose call is another."""

    def plant():
        right = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
        layer = keras_pe.RotaryPositionEncoding(scaling=right, name="y")
        wrong = keras_pe.RotaryPositionEncoding(**{"scaling": right, **wrong_arguments})
        compute = said_of_layer or (lambda layer, x: layer(x))
        return _plant_layer(layer, lambda _, x: compute(wrong, x), (None, 2, 16))

    return plant


def _clamp_positions(layer, x):
    return layer(x, positions=np.minimum(np.arange(x.shape[1]), 2).astype("int32"))


def _rounded_rates():
    rates = 1e4 ** (-np.arange(8) / 8)
    factors = (rates / np.asarray(ops.convert_to_numpy(ops.cast(ops.cast(rates, "bfloat16"), "float32")))).tolist()
    scaling = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
    wrong = keras_pe.RotaryPositionEncoding(scaling={**scaling, "original_max_position_embeddings": 1, "length": 1})
    return _plant_layer(keras_pe.RotaryPositionEncoding(name="y"), lambda _, x: wrong(x), (None, 2, 16))


def _bucket():
    def wrong(layer, x):
        table, sizes = layer.get_weights()[0], np.arange(x.shape[1])
        distances = np.asarray(sizes[np.newaxis] - sizes[:, np.newaxis])
        buckets = relative_buckets("t5", 8, 16)[np.clip(distances, -16, 16) + 16]
        return np.moveaxis(table[np.where(distances == -2, buckets + 1, buckets)], -1, 0)[np.newaxis]

    layer = keras_pe.RelativePositionBias(4, num_buckets=8, max_distance=16, name="y")
    return _plant_layer(layer, wrong, (None, 4, 8))


def _softmax_of_rows():
    return _plant_layer(L.Softmax(name="y"), lambda _, x: ops.softmax(x, axis=1), (5, 6))


def _run_forwards():
    def wrong(layer, x):
        layer.go_backwards = False
        y = layer(x)
        layer.go_backwards = True
        return y

    return _plant_layer(L.GRU(3, go_backwards=True, unroll=True, name="y"), wrong, (5, 4))


def _turned_in_place():
    def wrong(layer, x):
        return ops.flip(layer(ops.flip(x, 1)), 1)

    return _plant_layer(L.GRU(3, return_sequences=True, unroll=True, name="y"), wrong, (5, 4))


def _turned_back(layer, x):
    return layer(x, positions=-np.arange(x.shape[1]).astype("int32"))


def _learned_from_one():
    def wrong(layer, x):
        table = layer.get_weights()[0]
        return x + table[np.minimum(1 + np.arange(x.shape[1]), 599)]

    return _plant_layer(keras_pe.LearnedPositionEmbedding(600, name="y"), wrong, (None, 6))


def _convolution(change, **options):
    """Returns a convolution of images, and what a function makes of it with other options."""
    layer = L.Conv2D(3, 3, name="y", **options)

    def wrong(layer, x):
        other = L.Conv2D(3, 3, **{**options, **change[0]})
        other.build(x.shape)
        other.set_weights(layer.get_weights())
        return change[1](np.asarray(other(x)))

    return _plant_layer(layer, wrong, (7, 8, 2))


def _padded_afterwards():
    widths = [(0, 0), (1, 1), (1, 1), (0, 0)]
    return _convolution(({"padding": "valid"}, lambda y: np.pad(y, widths)), padding="same")


def _not_dilated():
    return _convolution(({"dilation_rate": 1}, lambda y: y[:, 1:-1, 1:-1]), dilation_rate=2)


def _cropped_elsewhere():
    return _plant_layer(L.Cropping1D(2, name="y"), lambda _, x: x[:, 1:-3], (9, 4))


def _inverted_padding():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    embed, layer = L.Embedding(9, 4, mask_zero=True, name="embed"), L.MultiHeadAttention(2, 3, name="y")
    x = embed(tokens)
    model = seeded(keras.Model(tokens, {"x": x, "y": layer(x, x)}))

    def wrong(inputs):
        x, kept = ops.convert_to_tensor(np.asarray(embed(inputs["tokens"]))), inputs["tokens"] != 0
        return {"x": x, "y": layer(x, x, attention_mask=~(kept[:, :, None] & kept[:, None]))}

    return model, wrong


def _softmax_of_grouped_queries():
    x = keras.Input((5, 4), name="x")
    layer = L.GroupQueryAttention(4, 4, 2, name="y")
    model = seeded(keras.Model(x, layer(x, x)))

    def wrong(inputs):
        x = inputs["x"]
        query, key, value = (np.asarray(part(x)) for part in (layer._query_dense, layer._key_dense, layer._value_dense))
        key, value = np.repeat(key, 2, 2), np.repeat(value, 2, 2)
        shares = np.asarray(ops.softmax(np.einsum("bqhc,bkhc->bhqk", query, key) / np.sqrt(4), axis=2))
        return layer._output_dense(np.einsum("bhqk,bkhc->bqhc", shares, value))

    return model, wrong


def _attention(change):
    """Returns attention with a mask, and the same with what a change makes of its scores, hidden ones, and axis."""
    x, mask = keras.Input((5, 4), name="x"), keras.Input((5, 5), dtype="bool", name="mask")
    layer = L.MultiHeadAttention(2, 3, name="y")
    model = seeded(keras.Model([x, mask], layer(x, x, attention_mask=mask)))

    def compute(inputs):
        x = inputs["x"]
        parts = [layer.query_dense, layer.key_dense, layer.value_dense]
        query, key, value = (np.asarray(part(x)) for part in parts)
        scores = np.einsum("bqhc,bkhc->bhqk", query, key) / np.sqrt(3)
        shares = np.asarray(ops.softmax(*change(scores, inputs["mask"][:, None])))
        return np.asarray(layer.output_dense(np.einsum("bhqk,bkhc->bqhc", shares, value)))

    return model, compute


def _weak_mask():
    return _attention(lambda scores, mask: (scores - ~mask, -1))


def _softmax_of_queries():
    return _attention(lambda scores, mask: (np.where(mask, scores, -1e9), 2))


def _cut_on_the_other_side(kind, *shape):
    def wrong(layer, x):
        config = {**layer.get_config(), "padding": "valid"}
        whole = type(layer).from_config(config)
        whole.build((None, *shape))
        whole.set_weights(layer.get_weights())
        inner = (slice(1, 1 + 2 * size) for size in shape[:-1])
        return np.asarray(whole(x))[:, *inner]

    return _plant_layer(kind(3, 3, strides=2, padding="same", name="y"), wrong, shape)


def _transposed_1d():
    return _cut_on_the_other_side(L.Conv1DTranspose, 4, 2)


def _transposed_2d():
    return _cut_on_the_other_side(L.Conv2DTranspose, 4, 3, 2)


PLANTS = [
    (_both_statistics, "missing values", "moving_mean' at zero and"),
    (_exchanged_statistics, "another weight", "moving_mean' and 'y/moving_variance' exchanged"),
    (_deviations, "other variance", "variance=[2.0, 3.0, 0.5, 4.0]"),
    (_bias_of_the_state(2.0), "added twice", "row 1 of 'y/gru_cell/bias'"),
    (_bias_of_the_state(0.0), "missing values", "row 1 of 'y/gru_cell/bias' at zero"),
    (_neither_biases_nor_a_late_reset, "other use_bias and reset_after", "reset_after=False instead of True"),
    (_causal_softmax, "added causal mask", "causal mask"),
    (_exchanged_directions, "another weight", "weights of both directions exchanged"),
    (_batch_statistics, "training mode", "statistics of the batch"),
    (_twice, "operation added", "its own activation once more"),
    (_not_at_all, "other activation", "'linear' instead of 'tanh'"),
    (_first_row, "repeated row", "the first row of"),
    (_exchanged_states, "exchanged inputs", "inputs 1 and 2"),
    (_ignored_start, "dropped input", "without `start_index`"),
    (_frozen_start, "start index off", "from position 7, for any start"),
    (
        _other_schedule,
        "other convention",
        "as paper or keras-hub or positional-encodings or d2l encodes, from position 3",
    ),
    (_rotary(layout="interleaved"), "wrong layout", "with layout='interleaved' instead of 'halves'"),
    (_rotary(lambda layer, x: layer(x, start_index=300)), "start index off", "with positions offset by 300"),
    (_rotary(scaling=None), "missing scaling", "without its scaling 'yarn', factor 4"),
    (_rotary(_clamp_positions), "clamped table", "positions beyond 2 clipped to 2"),
    (_rounded_rates, "rounded rates", "rates rounded to bfloat16"),
    (_bucket, "other bucket", "distance -2 in bucket 3 instead of 2"),
    (_softmax_of_rows, "other axis", "axis=1"),
    (_weak_mask, "weak mask", "-1 added to a score that a mask hides"),
    (_softmax_of_queries, "other axis", "softmax over axis=2"),
    (_transposed_1d, "other padding", "the larger half before"),
    (_transposed_2d, "other padding", "the larger half before"),
    (_run_forwards, "other go_backwards", "go_backwards=False"),
    (_turned_in_place, "other direction", "from the other end, with each step in its position"),
    (_rotary(_turned_back), "other direction", "direction=-1 instead of 1"),
    (_learned_from_one, "start index off", "with positions offset by 1"),
    (_padded_afterwards, "other padding", "zeros around its output, as much before as after"),
    (_not_dilated, "other dilation_rate", "with dilation_rate=1 and its output cropped to size"),
    (_cropped_elsewhere, "other cropping", "cropping=(1, 3) instead of (2, 2)"),
    (_inverted_padding, "inverted mask", "masks of padding inverted together"),
    (_softmax_of_grouped_queries, "other axis", "softmax over axis=2"),
]


@pytest.mark.slow_rows(7)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "cause", "said"),
    PLANTS,
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_change_of_a_call_is_named_with_the_layer(plant, cause, said):
    (finding,) = findings(*plant())
    assert (finding.cause, finding.layer) == (cause, "y"), finding
    assert said.casefold() in finding.evidence.casefold()


@pytest.mark.slow
def test_the_call_at_fault_of_a_shared_layer_is_named():
    x = keras.Input((4,), name="x")
    shared = L.Dense(4, "tanh", name="shared")
    once = shared(x)
    model = seeded(keras.Model(x, {"once": once, "twice": shared(once)}))

    def wrong(inputs):
        once = shared(inputs["x"])
        return {"once": once, "twice": ops.matmul(once, shared.kernel) + shared.bias}

    (finding,) = findings(model, wrong)
    assert (finding.cause, finding.layer) == ("other activation", "shared")
    assert "call 2 of 2" in finding.evidence


@pytest.mark.slow
def test_an_unexplained_difference_is_reported_with_its_rows():
    layer = L.Dense(6, name="y")
    model = seeded(one_layer(layer, (40, 4)))

    def wrong(inputs):
        y = np.array(layer(inputs["x"]))
        y[:, 7] += np.cos(50 * y[:, 7])
        return y

    (finding,) = findings(model, wrong)
    assert (finding.cause, finding.layer) == ("unknown", "y")
    assert "Index 7 of axis 1 (1 of 40) differs" in finding.evidence


@pytest.mark.slow
def test_a_change_at_a_threshold_has_no_cause_that_the_right_cases_contradict():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, {"y": ops.cast(x >= 18, "float32")})
    (finding,) = findings(model, lambda inputs: np.float32(inputs["x"] > 18))
    assert finding.cause == "unknown", finding
