"""Faults of the gallery in a model that was rewritten for its export with a mistake."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from fault_examples import Example, Layers, functional, mask_model, mistaken, pad_model, seeded, written_anew
from keras import layers as L  # noqa: N812
from keras import ops

import keras_pe
from keras_pe.export import Cause, check_parity, export_onnx


def _echo(is_wrong: bool) -> keras.Model:
    x = keras.Input((None, 8), name="x")
    layer = L.Activation("linear", name="mix") if is_wrong else L.Dense(8, "tanh", name="mix")
    return keras.Model(x, layer(x), name="model")


def _cool(x: Any, is_wrong: bool) -> Any:
    """Divides by a temperature, an attribute that the layers of Keras do not have."""

    @keras.saving.register_keras_serializable("gallery")
    class Cooled(L.Layer):
        def __init__(self, temperature: float, **options: Any) -> None:
            super().__init__(**options)
            self.temperature = temperature

        def call(self, x: Any) -> Any:
            return ops.tanh(x / self.temperature)

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "temperature": self.temperature}

    return Cooled(3.0 if is_wrong else 2.0, name="cooled")(x)


def _positions(**wrong: Any) -> Layers:
    """Returns an encoding of positions, the wrong one with other arguments."""
    return lambda x, is_wrong: keras_pe.SinusoidalPositionEncoding(**(wrong if is_wrong else {}), name="positions")(x)


def _bytes(x: Any, _: bool) -> Any:
    return L.Rescaling(1 / 255, name="pixels")(ops.cast(x, "uint8"))


def _hash_ids(is_wrong: bool) -> keras.Model:
    """Returns a model that hashes ids by a product, the wrong one after a cast to a narrower type."""
    ids = keras.Input((3,), dtype="int64", name="ids")
    buckets = ops.mod(7919 * (ops.cast(ids, "int32") if is_wrong else ids), 50)
    return keras.Model(ids, L.Embedding(50, 4, name="table")(buckets), name="model")


def _clamp(x: Any, is_wrong: bool) -> Any:
    counted = ops.cumsum(ops.ones_like(x[:, :, 0], dtype="int32"), axis=1) - 1
    given = {"positions": ops.minimum(counted, 39)} if is_wrong else {}
    return keras_pe.SinusoidalPositionEncoding(name="positions")(x, **given)


def _scaled_rotary(x: Any, is_wrong: bool) -> Any:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    return keras_pe.RotaryPositionEncoding(scaling=None if is_wrong else yarn, name="turn")(x)


def _rounded_rates(x: Any, is_wrong: bool) -> Any:
    rates = 1e4 ** (-np.arange(8) / 8)
    rounded = np.asarray(ops.convert_to_numpy(ops.cast(ops.cast(rates, "bfloat16"), "float32")))
    factors = (rates / rounded).tolist()
    scaling = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
    wrong = {"scaling": {**scaling, "original_max_position_embeddings": 1, "length": 1}} if is_wrong else {}
    return keras_pe.RotaryPositionEncoding(**wrong, name="turn")(x)


def _bucket(is_wrong: bool) -> keras.Model:
    x = keras.Input((None, 2, 8), name="x")
    distance = 24 if is_wrong else 16
    bias = keras_pe.RelativePositionBias(2, num_buckets=8, max_distance=distance, name="bias")(x)
    return keras.Model(x, bias, name="model")


def _attention(right: dict[str, Any], wrong: dict[str, Any]) -> Layers:
    """Returns attention with the options of its call, the wrong one with others."""
    return lambda x, is_wrong: L.MultiHeadAttention(2, 4, name="attention")(x, x, **(wrong if is_wrong else right))


class _Halves(L.Layer):
    """A Bidirectional whose backward half was never turned back."""

    def __init__(self) -> None:
        super().__init__(name="halves")
        self.both = _both()

    def build(self, shape: Any) -> None:
        self.both.build(shape)

    def call(self, x: Any) -> Any:
        return ops.concatenate([self.both.forward_layer(x), self.both.backward_layer(x)], -1)


def _both() -> L.Layer:
    return L.Bidirectional(L.SimpleRNN(2, return_sequences=True, name="steps"), name="both")


def _directions(path: Path) -> keras.Model:
    right, wrong = (seeded(functional(lambda x, _, each=each: each(x), 3, 4)(False)) for each in (_both(), _Halves()))
    wrong.set_weights(right.get_weights())
    export_onnx(wrong, path)
    return right


class _OfTheBatch(L.BatchNormalization):
    """As it computes in training."""

    def call(self, inputs: Any) -> Any:
        mean, variance = ops.moments(inputs, axes=0)
        return (inputs - mean) / ops.sqrt(variance + self.epsilon) * self.gamma + self.beta


def _between(change: Callable[[Any], Any]) -> Layers:
    """Returns a layer, in the wrong model with a step after it."""

    def layers(x: Any, is_wrong: bool) -> Any:
        mixed = L.Dense(8, name="mix")(x)
        return change(mixed) if is_wrong else mixed

    return layers


def _number(x: Any, is_wrong: bool) -> Any:
    bins = L.Discretization(bin_boundaries=[-1.0, -0.5, 0.0, 0.5, 1.0], name="bins")(x)
    return L.Embedding(7, 4, name="table")(bins + 1 if is_wrong else bins)


def _shuffle(x: Any, is_wrong: bool) -> Any:
    mixed = L.Conv2D(6, 3, groups=2, name="mix")(x)
    if not is_wrong:
        return mixed
    pairs = ops.reshape(mixed, (-1, *mixed.shape[1:3], 2, 3))
    return ops.reshape(ops.swapaxes(pairs, 3, 4), (-1, *mixed.shape[1:]))


def _first_step(x: Any, is_wrong: bool) -> Any:
    steps = L.GRU(8, return_sequences=True, name="steps")(x)
    return steps[:, 0] if is_wrong else steps[:, -1]


def _first_row(x: Any, is_wrong: bool) -> Any:
    y = L.Dense(6, name="mix")(x)
    return ops.take(y, [0], axis=0) + 0 * y if is_wrong else y


def _join(x: Any, is_wrong: bool) -> Any:
    both = [L.Dense(4, name="one")(x), L.Dense(4, name="other")(x)]
    return L.Concatenate(name="both")(both[::-1] if is_wrong else both)


def _strange(y: Any) -> Any:
    return y * ops.sin(7 * y + ops.roll(y, 3, -1) ** 2)


def _stride(x: Any, is_wrong: bool) -> Any:
    conv = L.Conv2D(6, 3, 2, "valid" if is_wrong else "same", name="edges")
    return L.GlobalAveragePooling2D(name="mean")(conv(L.ZeroPadding2D(1)(x) if is_wrong else x))


def _pool(x: Any, is_wrong: bool) -> Any:
    pooling = L.MaxPooling2D if is_wrong else L.AveragePooling2D
    return L.GlobalAveragePooling2D(name="mean")(pooling(2, name="pool")(x))


def _center(x: Any, is_wrong: bool) -> Any:
    return L.Dense(8, name="mix")(x - ops.mean(x, 0) if is_wrong else x)


def _normalize(x: Any, is_wrong: bool) -> Any:
    return x if is_wrong else L.LayerNormalization(name="norm")(x)


def _by_the_batch(x: Any, is_wrong: bool) -> Any:
    return (_OfTheBatch if is_wrong else L.BatchNormalization)(name="norm")(x)


def _shares(x: Any, is_wrong: bool) -> Any:
    return L.Softmax(axis=1 if is_wrong else -1, name="shares")(x)


def _residual(is_wrong: bool) -> keras.Model:
    """A model whose own call does something between its layers."""

    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="model")
            self.mix, self.score = L.Dense(8, "tanh", name="mix"), L.Dense(3, name="score")

        def call(self, x: Any) -> Any:
            return self.score(self.mix(x) if is_wrong else x + self.mix(x))

    model = Model()
    model(np.zeros((1, 2, 8), np.float32))
    return model


def _exchange(is_wrong: bool) -> keras.Model:
    x, h, c = keras.Input((5, 4), name="x"), keras.Input((3,), name="h"), keras.Input((3,), name="c")
    y = L.LSTM(3, name="steps")(x, initial_state=[c, h] if is_wrong else [h, c])
    return keras.Model([x, h, c], L.Dense(3, name="score")(y), name="model")


def _start(is_wrong: bool) -> keras.Model:
    x, start = keras.Input((None, 8), name="x"), keras.Input((), dtype="int32", name="start")
    given = {} if is_wrong else {"start_index": start}
    y = keras_pe.SinusoidalPositionEncoding(name="positions")(x, **given)
    kept = y + 0 * ops.cast(start, "float32")[:, None, None] if is_wrong else y
    return keras.Model([x, start], L.Dense(3, name="score")(kept), name="model")


MISTAKEN: Mapping[Cause, Example] = {
    Cause.INPUT_RETURNED: Example(
        "What comes before the first layer was exported, and nothing else.", written_anew(_echo)
    ),
    Cause.FROZEN_LENGTH: Example(
        "The file was exported for 13 tokens.",
        written_anew(
            functional(_positions(), None, 8), input_signature=[keras.InputSpec(shape=(None, 13, 8), dtype="float32")]
        ),
    ),
    Cause.LENGTH_LIMIT: Example(
        "The table of positions was made for 64.", mistaken(_positions(max_length=64), None, 8)
    ),
    Cause.CLAMPED_TABLE: Example("Each position beyond 39 is taken for 39.", mistaken(_clamp, None, 8)),
    Cause.DEPENDENCE_ON_BATCH: Example("The mean of the batch is subtracted.", mistaken(_center, None, 8)),
    Cause.CAST_OUT_OF_RANGE: Example(
        "A file of a model that casts its inputs to bytes is asked for negative numbers.",
        written_anew(functional(_bytes, 8, 8, 3), ranges={"x": (0, 256)}),
        partial(check_parity, runtimes="onnxruntime[all]", ranges={"x": (-300, 300)}),
    ),
    Cause.CAST_INPUT: Example("Ids are cast to int32 before a product.", written_anew(_hash_ids)),
    Cause.MISSING_SCALING: Example(
        "The scaling of a rotary encoding was forgotten.", mistaken(_scaled_rotary, None, 2, 16)
    ),
    Cause.ROUNDED_RATES: Example("The rates were kept in bfloat16.", mistaken(_rounded_rates, None, 2, 16)),
    Cause.OTHER_BUCKET: Example("Distances are looked up in other buckets.", written_anew(_bucket)),
    Cause.USERS_ATTRIBUTE: Example("A layer of the user's own has another temperature.", mistaken(_cool, None, 8)),
    Cause.OTHER_AXIS: Example("The softmax goes over the rows.", mistaken(_shares, 5, 6)),
    Cause.OTHER_PADDING: Example(
        "The image is padded as much before as after, as PyTorch does.", mistaken(_stride, 12, 12, 4)
    ),
    Cause.OTHER_DIRECTION: Example("What was read backwards was not turned back.", _directions),
    Cause.OTHER_OPERATION: Example("A maximum stands in the place of a mean.", mistaken(_pool, 12, 12, 4)),
    Cause.OTHER_ORDER: Example("Two layers' outputs are joined the other way round.", mistaken(_join, None, 8)),
    Cause.TRAINING_MODE: Example("A normalization takes the statistics of the batch.", mistaken(_by_the_batch, 8)),
    Cause.LAYER_LEFT_OUT: Example("A normalization was left out.", mistaken(_normalize, None, 8)),
    Cause.OPERATION_LEFT_OUT: Example(
        "A residual in the model's own call was forgotten.",
        written_anew(_residual, input_signature=[keras.InputSpec(shape=(None, None, 8), dtype="float32")]),
    ),
    Cause.DROPPED_MASK: Example("Padding is no longer masked.", written_anew(pad_model)),
    Cause.INVERTED_MASK: Example("The mask says what to leave out.", written_anew(mask_model(ops.logical_not))),
    Cause.SHIFTED_MASK: Example(
        "The mask lets each token see the next one.",
        mistaken(_attention({"use_causal_mask": True}, {"attention_mask": np.tri(6, 6, 1, dtype=bool)[None]}), 6, 8),
    ),
    Cause.ADDED_CAUSAL_MASK: Example(
        "A token no longer sees what comes after it.", mistaken(_attention({}, {"use_causal_mask": True}), 6, 8)
    ),
    Cause.DROPPED_INPUT: Example("The start is an input, and nothing reads it.", written_anew(_start)),
    Cause.OTHER_INPUT: Example("The first step was taken for the last.", mistaken(_first_step, 6, 8)),
    Cause.EXCHANGED_INPUTS: Example("Two states of an LSTM stand in each other's places.", written_anew(_exchange)),
    Cause.REPEATED_ROW: Example("Each row of a batch gets what belongs to the first.", mistaken(_first_row, 8)),
    Cause.SCALED_INPUT: Example("A step multiplies by 2.5.", mistaken(_between(lambda x: x * 2.5), None, 8)),
    Cause.REVERSED_INPUT: Example(
        "A step turns the channels round.", mistaken(_between(lambda x: ops.flip(x, 2)), None, 8)
    ),
    Cause.CLIPPED_INPUT: Example("A step cuts at -1 and 1.", mistaken(_between(lambda x: ops.clip(x, -1, 1)), None, 8)),
    Cause.SHIFTED_INPUT: Example("Indices count from 1.", mistaken(_number, 6)),
    Cause.REORDERED_INPUT: Example("The groups of a convolution are shuffled.", mistaken(_shuffle, 12, 12, 4)),
    Cause.UNKNOWN: Example(
        "Something that nobody has thought of happens to a layer's output.", mistaken(_between(_strange), None, 8)
    ),
}
