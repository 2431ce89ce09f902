"""Values are drawn from the vocabulary of a model, and from outside unless the model refuses these."""

import numpy as np

from keras_pe.export.model.watch.known_values import Vocabulary, draw_numbers, draw_texts

WORDS = ("cat", "dog", "sat")
KNOWN, CLOSED = Vocabulary(WORDS), Vocabulary(WORDS, is_closed=True)


def test_drawn_texts_are_words_sentences_and_unknown_ones() -> None:
    texts = draw_texts(KNOWN, (10, 10), np.random.default_rng(0))
    drawn = set(texts.flat)
    assert texts.shape == (10, 10)
    assert set(WORDS) < drawn
    assert {"", "\u00fc"} < drawn
    assert any("\t" in text and "cat" in text for text in drawn)
    assert any("Cat" in text for text in drawn)


def test_without_a_vocabulary_texts_are_drawn_all_the_same() -> None:
    assert draw_texts(Vocabulary(), (5, 5), np.random.default_rng(0)).shape == (5, 5)


def test_nothing_but_its_entries_is_drawn_of_a_closed_vocabulary() -> None:
    rng = np.random.default_rng(0)
    assert set(draw_texts(CLOSED, (10, 10), rng).flat) == set(WORDS)
    numbers = Vocabulary((12, 36), is_closed=True)
    assert set(draw_numbers(numbers, np.zeros((10, 10), int), rng).flat) == {12, 36}


def test_an_open_vocabulary_also_gets_other_numbers() -> None:
    rng = np.random.default_rng(0)
    assert set(draw_numbers(Vocabulary((12, 36)), np.zeros((10, 10), int), rng).flat) == {0, 12, 36}
    assert set(draw_numbers(Vocabulary(), np.ones((10, 10), int), rng).flat) == {1}
