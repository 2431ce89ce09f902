"""Sound models of many kinds: what a check must never raise an alarm about."""

from collections.abc import Callable

import keras
from keras import layers, ops

import keras_pe

L = layers


def _sequence(*body: layers.Layer) -> keras.Model:
    return keras.Sequential([keras.Input((None, 8), name="x"), *body])


def _tokens(head: Callable, **embedding) -> keras.Model:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras_pe.SinusoidalPositionEncoding()(L.Embedding(40, 16, **embedding)(tokens))
    return keras.Model(tokens, head(x))


def dense() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), L.Dense(32, activation="relu"), L.Dense(3, activation="softmax")])


def encoding_alone() -> keras.Model:
    return _sequence(keras_pe.SinusoidalPositionEncoding(combine="replace"))


def encoding_interleaved() -> keras.Model:
    return _sequence(keras_pe.SinusoidalPositionEncoding(layout="interleaved", endpoint=False, start_index=-5))


def encoding_concatenated() -> keras.Model:
    return _sequence(keras_pe.SinusoidalPositionEncoding(combine="concatenate"))


def encoding_table() -> keras.Model:
    return _sequence(keras_pe.SinusoidalPositionEncoding(max_length=300))


def encoding_short_table() -> keras.Model:
    return _sequence(keras_pe.SinusoidalPositionEncoding(max_length=50))


def positions_given() -> keras.Model:
    x, p = keras.Input((None, 8), name="x"), keras.Input((None,), dtype="int32", name="positions")
    return keras.Model([x, p], keras_pe.SinusoidalPositionEncoding()(x, positions=p))


def start_given() -> keras.Model:
    x, s = keras.Input((None, 8), name="x"), keras.Input((), dtype="int32", name="start")
    return keras.Model({"x": x, "start": s}, keras_pe.SinusoidalPositionEncoding()(x, start_index=s))


def attention() -> keras.Model:
    return _tokens(lambda x: L.LayerNormalization()(x + L.MultiHeadAttention(2, 8)(x, x)), mask_zero=True)


def causal_attention() -> keras.Model:
    return _tokens(lambda x: L.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True))


def grouped_attention() -> keras.Model:
    return _tokens(lambda x: L.GroupQueryAttention(8, 4, 2)(x, x))


def masked_attention() -> keras.Model:
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None,), dtype="bool", name="mask")
    y = L.MultiHeadAttention(2, 4)(x, x, attention_mask=ops.expand_dims(mask, 1))
    return keras.Model({"x": x, "mask": mask}, {"y": y, "pooled": L.GlobalAveragePooling1D()(y)})


def encoder_decoder() -> keras.Model:
    source, target = keras.Input((None, 8), name="source"), keras.Input((None, 8), name="target")
    return keras.Model([source, target], L.Dense(4)(L.MultiHeadAttention(2, 4)(target, source)))


def lstm() -> keras.Model:
    return _sequence(L.LSTM(6, return_sequences=True), L.Dense(2))


def gru() -> keras.Model:
    return _sequence(L.GRU(6))


def bidirectional() -> keras.Model:
    return _sequence(L.Bidirectional(L.LSTM(4)), L.Dense(2))


def convolution() -> keras.Model:
    return _sequence(L.Conv1D(8, 3, padding="causal", activation="relu"), L.Conv1D(4, 3, padding="same"))


def valid_convolution() -> keras.Model:
    return _sequence(L.Conv1D(8, 3), L.GlobalMaxPooling1D())


def image() -> keras.Model:
    x = keras.Input((16, 16, 3), name="image")
    y = L.MaxPooling2D()(L.BatchNormalization()(L.Conv2D(8, 3, padding="same")(x)))
    return keras.Model(x, L.Dense(4)(L.GlobalAveragePooling2D()(L.SeparableConv2D(8, 3)(y))))


def normalizations() -> keras.Model:
    return _sequence(L.BatchNormalization(), L.LayerNormalization(), L.UnitNormalization(), L.GroupNormalization(2))


def ill_conditioned() -> keras.Model:
    x = keras.Input((6,), name="x")
    return keras.Model(x, L.Dense(1)(ops.exp(x) * 1e4 - ops.exp(x) * 9999.9))


def large_outputs() -> keras.Model:
    x = keras.Input((6,), name="x")
    return keras.Model(x, {"wide": L.Dense(4)(x) * 1e6, "narrow": L.Dense(4)(x) * 1e-6})


def integers() -> keras.Model:
    x = keras.Input((None,), dtype="int32", name="x")
    return keras.Model(x, {"next": x + 1, "positive": x > 0, "absolute": ops.abs(x)})


def dropout() -> keras.Model:
    return _sequence(L.Dropout(0.5), L.GaussianNoise(0.3), L.Dense(3))


def nested_model() -> keras.Model:
    inner = keras.Sequential([keras.Input((None, 8)), L.Dense(8, activation="tanh"), L.Dense(8)], name="inner")
    x = keras.Input((None, 8), name="x")
    return keras.Model(x, L.Dense(2)(inner(inner(x))))


def half_precision() -> keras.Model:
    half = "mixed_float16"
    return _sequence(keras_pe.SinusoidalPositionEncoding(dtype=half), L.Dense(4, dtype=half))


def nothing_but_nan() -> keras.Model:
    x = keras.Input((6,), name="x")
    return keras.Model(x, {"nan": ops.sqrt(-ops.square(x) - 1.0), "number": L.Dense(2)(x)})


ALL = (
    dense, encoding_alone, encoding_interleaved, encoding_concatenated, encoding_table, encoding_short_table,
    positions_given, start_given, attention, causal_attention, grouped_attention, masked_attention, encoder_decoder,
    lstm, gru, bidirectional, convolution, valid_convolution, image, normalizations, ill_conditioned, large_outputs,
    integers, dropout, nested_model, half_precision, nothing_but_nan,
)  # fmt: skip
