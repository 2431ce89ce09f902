"""What a model looks up, as values for its inputs: words, alone and in sentences, and whole numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Texts = npt.NDArray[np.object_]
Numbers = npt.NDArray[np.integer]

_STRANGE = ("", "a", "The cat sat.", "\u00fc")  # most vocabularies know none of them
_BETWEEN = (" ", ", ", "  ", "\t", "-", "! ")
_LENGTHS = range(4, 13)  # words of a sentence


@dataclass(frozen=True)
class Vocabulary:
    """What the layers that look an input up have entries for.

    Attributes:
        entries: Words or whole numbers, those that all of these layers have if any of them refuses others.
        is_closed: Whether one does.
    """

    entries: tuple[str | int, ...] = ()
    is_closed: bool = False

    @property
    def words(self) -> list[str]:
        """The entries that are words."""
        return [entry for entry in self.entries if isinstance(entry, str)]

    @property
    def numbers(self) -> list[int]:
        """The entries that are whole numbers."""
        return [entry for entry in self.entries if isinstance(entry, int)]


def draw_texts(vocabulary: Vocabulary, shape: tuple[int, ...], rng: np.random.Generator) -> Texts:
    """Returns texts: words of a closed vocabulary; of others some words, some unknown ones, sentences of both."""
    kinds = (_strange, _word, _sentence, _sentence) if not vocabulary.is_closed else (_word,)
    return _filled(shape, lambda: kinds[rng.integers(len(kinds))](vocabulary.words, rng))


def draw_words(vocabulary: Vocabulary, shape: tuple[int, ...], rng: np.random.Generator) -> Texts:
    """Returns words that are known, for a model that takes no others."""
    return _filled(shape, lambda: _word(vocabulary.words, rng))


def draw_numbers(vocabulary: Vocabulary, others: Numbers, rng: np.random.Generator) -> Numbers:
    """Returns entries in place of all numbers if the vocabulary is closed, and else of every second."""
    if not vocabulary.numbers:
        return others
    entries = rng.choice(vocabulary.numbers, others.shape)
    return entries if vocabulary.is_closed else np.where(rng.random(others.shape) < 0.5, entries, others)


def _filled(shape: tuple[int, ...], draw: Callable[[], str]) -> Texts:
    texts = np.empty(shape, object)
    for place in np.ndindex(shape):
        texts[place] = draw()
    return texts


def _strange(words: Sequence[str], rng: np.random.Generator) -> str:
    return _STRANGE[rng.integers(len(_STRANGE))]


def _word(words: Sequence[str], rng: np.random.Generator) -> str:
    return words[int(rng.integers(len(words)))] if words else _strange(words, rng)


def _sentence(words: Sequence[str], rng: np.random.Generator) -> str:
    drawn = (_word([*words, *_STRANGE], rng) for _ in range(rng.choice(_LENGTHS)))
    sentence = "".join(word + str(rng.choice(_BETWEEN)) for word in drawn)
    return sentence.title() if rng.integers(2) else sentence
