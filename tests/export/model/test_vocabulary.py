"""Texts are drawn from what a model knows, and from what it does not."""

import keras
import numpy as np
from keras import layers

from keras_pe.export.model.keras_internals import all_layers
from keras_pe.export.model.vocabulary import draw_texts, draw_words, known_words

WORDS = ["cat", "dog", "sat"]


def test_the_words_of_all_lookups_are_known() -> None:
    first, second = (keras.Input((1,), dtype="string") for _ in range(2))
    outputs = [
        layers.StringLookup(vocabulary=["cat", "dog"])(first),
        layers.TextVectorization(vocabulary=["sat"])(second),
    ]
    assert known_words(all_layers(keras.Model([first, second], outputs))) == WORDS


def test_drawn_texts_are_words_sentences_and_unknown_ones() -> None:
    texts = draw_texts(WORDS, (10, 10), np.random.default_rng(0))
    drawn = set(texts.flat)
    assert texts.shape == (10, 10)
    assert set(WORDS) < drawn
    assert {"", "\u00fc"} < drawn
    assert any("\t" in text and "cat" in text for text in drawn)
    assert any("Cat" in text for text in drawn)


def test_known_words_alone_can_be_drawn() -> None:
    assert set(draw_words(WORDS, (20,), np.random.default_rng(0)).flat) == set(WORDS)


def test_without_a_vocabulary_texts_are_drawn_all_the_same() -> None:
    assert draw_texts([], (5, 5), np.random.default_rng(0)).shape == (5, 5)
