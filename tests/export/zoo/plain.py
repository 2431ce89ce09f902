"""Sequential, Functional and subclassed models, and every way to take and return tensors."""

import keras
from keras import layers, ops

import keras_pe
from tests.export.zoo.entry import Entry


def _apply(*stack, length=None, channels=8):
    x = y = keras.Input((length, channels), name="x")
    for layer in stack:
        y = layer(y)
    return keras.Model(x, y)


def _sequential():
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(16, "gelu"), layers.Dropout(0.5), layers.Dense(3, "softmax")]
    )


def _images():
    stack = [layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(2)]
    return keras.Sequential([keras.Input((8, 8, 3)), *stack, layers.GlobalAveragePooling2D(), layers.Dense(2)])


def _list_in_list_out():
    a, b = keras.Input((None, 4), name="a"), keras.Input((None, 4), name="b")
    return keras.Model([a, b], [layers.Dense(3, name="sum")(a + b), layers.Dense(2, name="product")(a * b)])


def _dict_in_dict_out():
    ids, weights = keras.Input((None,), dtype="int32", name="ids"), keras.Input((None, 1), name="weights")
    y = layers.Embedding(10, 8)(ids) * weights
    return keras.Model({"weights": weights, "ids": ids}, {"mean": ops.mean(y, axis=1), "all": y})


def _nested_model():
    x, y = keras.Input((None, 4), name="x"), keras.Input((4,), name="y")
    return keras.Model({"pair": [x, {"inner": y}]}, [{"sum": x + ops.expand_dims(y, 1)}, ops.sum(y, -1)])


def _masked_embedding():
    ids = keras.Input((None,), dtype="int32", name="ids")
    y = layers.Embedding(10, 8, mask_zero=True)(ids)
    return keras.Model(ids, layers.GlobalAveragePooling1D()(layers.LSTM(6, return_sequences=True)(y)))


class Encoder(keras.Model):
    """A subclassed model: an embedding, a position encoding, a residual block."""

    def __init__(self):
        super().__init__(name="subclassed")
        self.embed = layers.Embedding(10, 8)
        self.encode = keras_pe.SinusoidalPositionEncoding()
        self.project = layers.Dense(8, "silu")

    def call(self, ids):
        y = self.encode(self.embed(ids))
        return y + self.project(y)


class Pair(keras.Model):
    """A subclassed model of two inputs and a dict of outputs."""

    def __init__(self):
        super().__init__(name="pair")
        self.project = layers.Dense(4)

    def call(self, inputs):
        y = self.project(inputs["left"])
        return {"score": ops.matmul(y, ops.swapaxes(inputs["right"], 1, 2)), "left": y}


def _build(model, inputs):
    model(inputs)
    return model


def _encoding(**kwargs):
    return lambda: _apply(keras_pe.SinusoidalPositionEncoding(**kwargs), layers.Dense(3))


def _positions():
    x, p = keras.Input((None, 8), name="x"), keras.Input((None,), dtype="int32", name="positions")
    return keras.Model([x, p], keras_pe.SinusoidalPositionEncoding()(x, positions=p))


def _fixed_batch():
    x = keras.Input(batch_shape=(4, None, 3), name="x")
    return keras.Model(x, layers.Dense(2)(x))


_PAIR = {
    "left": keras.InputSpec(shape=(None, None, 6), dtype="float32"),
    "right": keras.InputSpec(shape=(None, None, 4), dtype="float32"),
}

ENTRIES = {
    "sequential": Entry(_sequential),
    "sequential of images": Entry(_images),
    "lists": Entry(_list_in_list_out),
    "dicts": Entry(_dict_in_dict_out),
    "nested": Entry(_nested_model),
    "mask_zero": Entry(_masked_embedding, integers=3),
    "fixed batch": Entry(_fixed_batch, sizes=((4, 2), (4, 7), (4, 19))),
    "subclassed": Entry(
        lambda: _build(Encoder(), ops.zeros((2, 3), "int32")),
        [keras.InputSpec(shape=(None, None), dtype="int32")],
    ),
    "subclassed with dicts": Entry(
        lambda: _build(Pair(), {"left": ops.zeros((2, 3, 6)), "right": ops.zeros((2, 5, 4))}), _PAIR
    ),
    "encoding": Entry(_encoding()),
    "encoding interleaved": Entry(_encoding(layout="interleaved", endpoint=False, start_index=3)),
    "encoding concatenated": Entry(_encoding(combine="concatenate")),
    "encoding of a table": Entry(_encoding(max_length=32)),
    "encoding of positions": Entry(_positions, integers=100_000),
    "singular values": Entry(
        lambda: _apply(layers.Lambda(lambda x: ops.svd(x, compute_uv=False), name="rank")),
        refused="'Svd' of layer 'rank'",
    ),
    "noise": Entry(
        lambda: _apply(layers.Lambda(lambda x: x + keras.random.normal(ops.shape(x)), name="noise")),
        refused="layer 'noise' .* draws random numbers",
    ),
    "fourier": Entry(lambda: _apply(layers.Lambda(lambda x: ops.fft2((x, x))[0], name="mix"))),
    "dynamic time": Entry(lambda: _apply(layers.TimeDistributed(layers.Dense(3)))),
}
