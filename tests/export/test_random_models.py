"""Layers and operations in any order: the export agrees with Keras at sizes never traced, or refuses by name.

A wrong conversion is often a pair of neighbors that are right alone. Hypothesis draws stacks, and makes one that fails
shorter until only those neighbors are left.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from keras import layers, ops

import keras_pe
from keras_pe.export import ExportError, assert_parity, export_onnx

Block = Callable[[Any], Any]
WIDTH = 8


def operation(function: Callable[[Any], Any]) -> Block:
    return lambda x: layers.Lambda(function, output_shape=x.shape[1:])(x)


def of(layer: Callable[[], Any]) -> Block:
    return lambda x: layer()(x)


# Each takes and returns the shape (batch, length, WIDTH), some with another length.
SEQUENCE: dict[str, Block] = {
    "dense": of(lambda: layers.Dense(WIDTH, "gelu")),
    "residual": lambda x: layers.Add()([x, layers.Dense(WIDTH, "silu")(layers.LayerNormalization()(x))]),
    "gate": lambda x: layers.Multiply()([x, layers.Dense(1, "sigmoid")(x)]),
    "encoding": of(lambda: keras_pe.SinusoidalPositionEncoding()),
    "attention": lambda x: layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True),
    "one head": lambda x: layers.MultiHeadAttention(1, 4)(x, x),
    "grouped attention": lambda x: layers.GroupQueryAttention(4, 4, 2)(x, x),
    "lstm": of(lambda: layers.LSTM(WIDTH, return_sequences=True)),
    "gru": of(lambda: layers.GRU(WIDTH, return_sequences=True, dropout=0.1, go_backwards=True)),
    "bidirectional": of(lambda: layers.Bidirectional(layers.SimpleRNN(WIDTH // 2, return_sequences=True))),
    "cells": of(lambda: layers.RNN([layers.LSTMCell(WIDTH), layers.GRUCell(WIDTH)], return_sequences=True)),
    "convolution": of(lambda: layers.Conv1D(WIDTH, 4, padding="same", bias_initializer="ones")),
    "causal": of(lambda: layers.Conv1D(WIDTH, 3, padding="causal", dilation_rate=2)),
    "depthwise": of(lambda: layers.DepthwiseConv1D(3, padding="same", bias_initializer="ones")),
    "strided": of(lambda: layers.Conv1D(WIDTH, 3, strides=2, padding="same")),
    "transposed": of(lambda: layers.Conv1DTranspose(WIDTH, 3, strides=2, padding="same")),
    "pool": of(lambda: layers.MaxPooling1D(3, 1, padding="same")),
    "batch normalization": of(layers.BatchNormalization),
    "group normalization": of(lambda: layers.GroupNormalization(2)),
    "masking": of(layers.Masking),
    "slopes": of(lambda: layers.PReLU(shared_axes=[1])),
    "branch": operation(lambda x: ops.cond(ops.mean(x) > 0, lambda: 2 * x, lambda: -x)),
    "loop": operation(lambda x: ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, ops.tanh(y) + x), (0, x))[1]),
    "swap": operation(lambda x: ops.transpose(ops.sin(ops.transpose(x, (0, 2, 1))), (0, 2, 1))),
    "flat": operation(lambda x: ops.reshape(ops.reshape(x, (-1, WIDTH)), ops.shape(x))),
    "reverse": operation(lambda x: ops.flip(x, 1)),
    "shift": operation(lambda x: ops.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]),
    "double": operation(lambda x: ops.concatenate([x, x], 1)),
    "sums": operation(lambda x: ops.cumsum(x, -1)),
    "scores": operation(lambda x: ops.softmax(ops.einsum("bld,bmd->blm", x, x) / 8, -1) @ x),
    "spectrum": operation(lambda x: ops.concatenate(ops.rfft(x), -1)[..., :WIDTH]),
    "spread": operation(lambda x: x / (1 + ops.std(x, 1, keepdims=True))),
}

# Each takes and returns the shape (batch, height, width, WIDTH), some with another height and width.
IMAGE: dict[str, Block] = {
    "convolution": of(lambda: layers.Conv2D(WIDTH, 3, padding="same", activation="relu", bias_initializer="ones")),
    "strided": of(lambda: layers.Conv2D(WIDTH, 3, strides=2, padding="same")),
    "dilated": of(lambda: layers.Conv2D(WIDTH, 3, padding="same", dilation_rate=2)),
    "grouped": of(lambda: layers.Conv2D(WIDTH, (1, 3), padding="same", groups=2)),
    "separable": of(lambda: layers.SeparableConv2D(WIDTH, 3, padding="same")),
    "transposed": of(lambda: layers.Conv2DTranspose(WIDTH, 3, strides=2, padding="same")),
    "residual": lambda x: layers.Add()([x, layers.Conv2D(WIDTH, 3, padding="same")(layers.BatchNormalization()(x))]),
    "squeeze": lambda x: layers.Multiply()(
        [x, layers.Dense(WIDTH, "sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))]
    ),
    "dense": of(lambda: layers.Dense(WIDTH, "gelu")),
    "layer normalization": of(layers.LayerNormalization),
    "group normalization": of(lambda: layers.GroupNormalization(2)),
    "pool": of(lambda: layers.MaxPooling2D(2, padding="same")),
    "average": of(lambda: layers.AveragePooling2D(3, 1, padding="same")),
    "upsampling": of(lambda: layers.UpSampling2D(2)),
    "larger": lambda x: layers.Lambda(lambda y: ops.image.resize(y, (19, 23), interpolation="bilinear"))(x),
    "padding": of(lambda: layers.ZeroPadding2D(((1, 0), (2, 1)))),
    "preparation": of(lambda: layers.RandomRotation(0.1)),
    "attention": lambda x: layers.MultiHeadAttention(2, 3, attention_axes=(1, 2))(x, x),
    "resize": lambda x: layers.Lambda(lambda y: ops.image.resize(y, (9, 7), interpolation="nearest"))(x),
    "sides": lambda x: layers.Lambda(lambda y: ops.transpose(y, (0, 2, 1, 3)))(x),
    "reflection": lambda x: layers.Lambda(lambda y: ops.pad(y, ((0, 0), (1, 1), (0, 1), (0, 0)), mode="reflect"))(x),
    "every second": lambda x: layers.Lambda(lambda y: y[:, ::2, ::2])(x),
    "branch": operation(lambda x: ops.cond(ops.mean(x) > 0, lambda: 2 * x, lambda: -x)),
    "channels": operation(lambda x: ops.concatenate(ops.split(x, 2, axis=-1)[::-1], -1)),
}


def assert_sound(inputs: Any, blocks: list[Block], is_pooled: bool, seed: int) -> None:
    y = inputs
    for block in blocks:
        y = block(y)
    if is_pooled:
        y = ops.mean(y, axis=list(range(1, len(y.shape) - 1)))
    model = keras.Model(inputs, y)
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:  # as after training: no bias is 0 and no scale is 1
        weight.assign(weight + rng.normal(scale=0.1, size=weight.shape))
    with tempfile.TemporaryDirectory() as folder:
        try:
            artifact = export_onnx(model, Path(folder) / "model.onnx")
        except ExportError as error:
            pytest.fail(str(error))  # nothing here is without an ONNX form
        assert_parity(model, artifact, runtimes=["onnxruntime[all]"], seed=seed)


quiet = pytest.mark.filterwarnings(  # keras warns of a lost mask and of a softmax of one value
    "ignore:Layer .* was passed an input with a mask attached to it",
    "ignore:You are using a softmax over axis",
)
many = settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
of_many_stacks = pytest.mark.parametrize(
    "examples", [pytest.param(4, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.exhaustive)]
)


def draw_names(blocks: dict[str, Block]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(blocks)), min_size=1, max_size=5)


@quiet
@of_many_stacks
def test_a_stack_of_sequence_layers_is_sound(examples: int) -> None:
    @settings(many, max_examples=examples)
    @given(names=draw_names(SEQUENCE), is_pooled=st.booleans(), seed=st.integers(0, 2**16))
    def check(names: list[str], is_pooled: bool, seed: int) -> None:
        keras.utils.set_random_seed(seed)
        assert_sound(keras.Input((None, WIDTH)), [SEQUENCE[name] for name in names], is_pooled, seed)

    check()


@quiet
@of_many_stacks
def test_a_stack_of_image_layers_is_sound(examples: int) -> None:
    @settings(many, max_examples=examples)
    @given(
        names=draw_names(IMAGE),
        size=st.sampled_from([(None, None), (16, 18)]),
        is_pooled=st.booleans(),
        seed=st.integers(0, 2**16),
    )
    def check(names: list[str], size: tuple[int | None, int | None], is_pooled: bool, seed: int) -> None:
        keras.utils.set_random_seed(seed)
        assert_sound(keras.Input((*size, WIDTH)), [IMAGE[name] for name in names], is_pooled, seed)

    check()
