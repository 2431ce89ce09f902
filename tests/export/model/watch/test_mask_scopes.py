"""The operators of a mask have the layer that computes the mask, also in a Functional model."""

from typing import Any

import keras
import pytest
from keras import layers, ops

from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.model.watch.symbolic_trace import as_traceable


class Called(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.pool = layers.Embedding(9, 4, mask_zero=True, name="words"), layers.GlobalAveragePooling1D()

    def call(self, tokens: Any) -> Any:
        return self.pool(self.words(tokens))


def functional() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32")
    words = layers.Embedding(9, 4, mask_zero=True, name="words")(tokens)
    return keras.Model(tokens, layers.GlobalAveragePooling1D()(words))


def nested_sequence() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32")
    cover = keras.Sequential([layers.Masking(name="words"), layers.GlobalAveragePooling1D()])
    return keras.Model(tokens, cover(ops.cast(tokens[..., None], "float32")))


def passed_by_the_caller() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32")
    words = layers.Embedding(9, 4, name="words")(tokens)
    return keras.Model(tokens, layers.LSTM(2, return_sequences=True)(words, mask=ops.not_equal(tokens, 0)))


@pytest.mark.parametrize(
    ("make", "owner"),
    [(functional, "words"), (nested_sequence, "words"), (Called, "words"), (passed_by_the_caller, None)],
)
def test_an_operator_of_a_mask_has_the_layer_that_computes_the_mask(make: Any, owner: str | None) -> None:
    import tensorflow as tf

    model = make()
    traced = tf.function(model, input_signature=[tf.TensorSpec((1, 5), "int32")], autograph=False)
    every = [model, *model._flatten_layers(include_self=False)]
    view = GraphView(as_traceable(every, traced.get_concrete_function).graph, every)
    found = {view.layer(path) for path, kind in view.operators() if kind == "NotEqual" and path in view.needed}
    assert found == {owner}
