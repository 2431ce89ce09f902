"""Recurrent and convolutional models, attention, and every normalization."""

import keras
from keras import layers, ops

import keras_pe
from tests.export.zoo.entry import Entry


def _apply(*stack, shape=(None, 8)):
    def make():
        x = y = keras.Input(shape, name="x")
        for layer in stack:
            y = layer() if isinstance(layer, type) else layer(y)
        return keras.Model(x, y)

    return make


def _attention(**call):
    def make():
        x = keras.Input((None, 8), name="x")
        return keras.Model(x, layers.MultiHeadAttention(2, 4)(x, x, **call))

    return make


def _encoder():
    ids = keras.Input((None,), dtype="int32", name="ids")
    y = keras_pe.SinusoidalPositionEncoding()(layers.Embedding(10, 8)(ids))
    y = layers.LayerNormalization()(y + layers.MultiHeadAttention(2, 4)(y, y))
    y = layers.LayerNormalization()(y + layers.Dense(8)(layers.Dense(16, "gelu")(y)))
    return keras.Model(ids, layers.Dense(10, name="logits")(y))


def _encoder_decoder():
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in ("source", "target"))
    embed = layers.Embedding(10, 8, mask_zero=True)
    encode = keras_pe.SinusoidalPositionEncoding()
    memory, y = encode(embed(source)), encode(embed(target))
    y = y + layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True)
    y = y + layers.MultiHeadAttention(2, 4)(y, memory)
    return keras.Model({"source": source, "target": target}, layers.Dense(10, name="logits")(y))


def _explicit_mask():
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None,), dtype="bool", name="mask")
    y = layers.MultiHeadAttention(2, 4)(x, x, attention_mask=ops.expand_dims(mask, 1))
    return keras.Model([x, mask], y)


def _dot_attention(layer):
    def make():
        query, value = keras.Input((None, 8), name="query"), keras.Input((None, 8), name="value")
        return keras.Model([query, value], layer()([query, value]))

    return make


def _spectral():
    return layers.SpectralNormalization(layers.Dense(4))


def _states():
    x = keras.Input((None, 8), name="x")
    y, h, c = layers.LSTM(5, return_state=True, return_sequences=True)(x)
    return keras.Model(x, [y, h, c])


def _speech():
    sound = keras.Input((None,), name="sound")
    y = layers.MelSpectrogram(fft_length=512, sequence_stride=160, sequence_length=400, sampling_rate=16000)(sound)
    y = layers.LayerNormalization()(layers.Permute((2, 1))(y))  # time before frequency
    y = layers.Conv1D(8, 3, padding="same", activation="relu")(y)
    return keras.Model(sound, layers.Dense(10, "softmax", name="words")(layers.GRU(6)(y)))


def _residual_images():
    x = keras.Input((None, None, 3), name="x")
    y = layers.SeparableConv2D(4, 3, padding="same")(x)
    y = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(layers.DepthwiseConv2D(3, 2, padding="same")(y))
    return keras.Model(x, layers.GlobalMaxPooling2D()(y))


LONG = ((1, 9), (3, 13), (5, 30))  # long enough for the kernels
SOUND = ((1, 700), (3, 1601), (5, 4000))  # samples: longer than a frame
EVEN = ((1, 8), (3, 12), (5, 30))

ENTRIES = {
    "dense": Entry(_apply(layers.Dense(4, "selu"))),
    "attention": Entry(_attention()),
    "causal attention": Entry(_attention(use_causal_mask=True)),
    "explicit mask": Entry(_explicit_mask),
    "grouped-query attention": Entry(
        lambda: (lambda x: keras.Model(x, layers.GroupQueryAttention(4, 4, 2)(x, x)))(keras.Input((None, 8), name="x"))
    ),
    "dot attention": Entry(_dot_attention(layers.Attention)),
    "additive attention": Entry(_dot_attention(layers.AdditiveAttention)),
    "encoder": Entry(_encoder),
    "encoder-decoder": Entry(_encoder_decoder, integers=4),
    "lstm": Entry(_apply(layers.LSTM(5))),
    "lstm states": Entry(_states),
    "gru": Entry(_apply(layers.GRU(5, return_sequences=True))),
    "gru reset before": Entry(_apply(layers.GRU(5, reset_after=False))),
    "simple rnn": Entry(_apply(layers.SimpleRNN(5))),
    "bidirectional": Entry(_apply(layers.Bidirectional(layers.LSTM(5, return_sequences=True)))),
    "stacked recurrent": Entry(_apply(layers.GRU(6, return_sequences=True), layers.LSTM(5))),
    "conv1d": Entry(_apply(layers.Conv1D(6, 3, padding="causal", dilation_rate=2), layers.Conv1D(4, 3)), sizes=LONG),
    "conv1d pooled": Entry(
        _apply(layers.Conv1D(6, 5, strides=2, padding="same"), layers.AveragePooling1D(2), layers.GlobalMaxPooling1D()),
        sizes=LONG,
    ),
    "speech": Entry(_speech, sizes=SOUND),
    "conv1d transpose": Entry(_apply(layers.Conv1DTranspose(4, 3, strides=2))),
    "conv2d": Entry(_residual_images, sizes=EVEN),
    "batch normalization": Entry(_apply(layers.BatchNormalization())),
    "layer normalization": Entry(_apply(layers.LayerNormalization())),
    "group normalization": Entry(_apply(layers.GroupNormalization(4))),
    "rms normalization": Entry(_apply(layers.RMSNormalization())),
    "unit normalization": Entry(_apply(layers.UnitNormalization())),
    "spectral normalization": Entry(lambda: _apply(_spectral())()),
    "embedding": Entry(
        lambda: (lambda x: keras.Model(x, layers.Embedding(10, 8)(x)))(keras.Input((None,), dtype="int32", name="ids"))
    ),
}
