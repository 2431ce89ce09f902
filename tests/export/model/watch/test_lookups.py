"""The lookup of each input is found, so that models which refuse other values can be called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
from keras import layers

from keras_pe.export import check_parity, export_onnx, model_signature
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.model.watch.known_values import Vocabulary

MOVIES = ("Alien", "Brazil", "Cube")


def closed_lookup(vocabulary: Any = MOVIES) -> Any:
    kind = layers.StringLookup if isinstance(vocabulary[0], str) else layers.IntegerLookup
    return kind(vocabulary=list(vocabulary), num_oov_indices=0, mask_token=None)


@pytest.mark.slow
def test_each_input_has_the_vocabulary_of_its_own_lookup() -> None:
    movie, user, title = (keras.Input((1,), dtype="string", name=name) for name in ("movie", "user", "title"))
    outputs = [
        closed_lookup()(movie),
        layers.StringLookup(vocabulary=["ann", "bob"])(user),
        layers.TextVectorization(vocabulary=["cat"])(keras.ops.reshape(title, (-1, 1))),
    ]
    assert model_signature(keras.Model([movie, user, title], outputs)).vocabularies == {
        "movie": Vocabulary(MOVIES, is_closed=True),
        "user": Vocabulary(("ann", "bob")),
        "title": Vocabulary(("cat",)),
    }


def test_values_that_two_closed_lookups_accept_are_drawn() -> None:
    movie = keras.Input((1,), dtype="string", name="movie")
    model = keras.Model(movie, [closed_lookup()(movie), closed_lookup(("Cube", "Alien"))(movie)])
    assert model_signature(model).vocabularies == {"movie": Vocabulary(("Cube", "Alien"), is_closed=True)}


def subclassed_model() -> keras.Model:
    class Rating(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.lookup, self.embedding = closed_lookup(), layers.Embedding(3, 2)
            self.input_spec = keras.layers.InputSpec(shape=(None, None), dtype="string")

        def call(self, movies: Any) -> Any:
            return self.embedding(self.lookup(movies))

    model = Rating()
    model(np.array([["Cube"]], object))
    return model


def number_model() -> keras.Model:
    year = keras.Input((None,), dtype="int64", name="year")
    return keras.Model(year, layers.Embedding(2, 3)(closed_lookup((1979, 1985))(year)))


@pytest.mark.slow
@pytest.mark.parametrize(("make", "known"), [(subclassed_model, "Cube"), (number_model, 1985)])
def test_a_model_that_refuses_unknown_values_arrives_and_passes(
    make: Callable[[], keras.Model], known: Any, tmp_path: Path
) -> None:
    model = make()
    artifact = export_onnx(model, tmp_path / "m.onnx")
    assert any("takes the entries of its vocabulary alone" in note for note in artifact.notes)
    values = np.full((2, 3), known, object if isinstance(known, str) else "int64")
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    (actual,) = session.run(None, {artifact.inputs[0].name: values})
    np.testing.assert_array_equal(actual, model(keras.ops.convert_to_tensor(values)))
    assert check_parity(model, [artifact]).passed


def test_a_check_draws_words_that_the_model_knows() -> None:
    text, count = keras.Input((1,), dtype="string", name="text"), keras.Input((None,), dtype="int32", name="count")
    x = layers.Embedding(4, 2)(layers.StringLookup(vocabulary=MOVIES)(text)) + layers.Embedding(9, 2)(count)
    roles = KerasReference(keras.Model([text, count], x)).roles
    assert roles["text"].vocabulary.entries == MOVIES
    assert (roles["count"].role, roles["count"].high) == ("ids", 9)


@pytest.mark.slow
def test_an_input_that_cannot_be_followed_to_its_lookup_is_noted() -> None:
    class OfKnownLength(layers.Layer):
        def call(self, x: Any) -> Any:
            if x.shape[1] is None:
                raise ValueError("it must know its length")
            return x * 1.0

        def compute_output_shape(self, input_shape: Any) -> Any:
            return input_shape

    text, x = keras.Input((1,), dtype="string", name="text"), keras.Input((None, 2), name="x")
    words = layers.Embedding(4, 2)(layers.StringLookup(vocabulary=MOVIES)(text))
    signature = model_signature(keras.Model([text, x], words + OfKnownLength()(x)))
    assert signature.vocabularies == {"text": Vocabulary(MOVIES)}
    assert [note for note in signature.notes() if "it must know its length" in note]
