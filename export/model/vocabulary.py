"""The texts that a model knows: the words of its lookup layers, alone and in sentences."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Texts = npt.NDArray[np.object_]

_STRANGE = ("", "a", "The cat sat.", "\u00fc")  # most vocabularies know none of them
_BETWEEN = (" ", ", ", "  ", "\t", "-", "! ")
_LENGTHS = range(4, 13)  # words of a sentence
_MOST_WORDS = 1000


def known_words(layers: Iterable[Any]) -> list[str]:
    """Returns words that the layers look up, at most a thousand of each layer."""
    import keras

    looking_up = (keras.layers.StringLookup, keras.layers.TextVectorization)
    words: dict[str, None] = {}
    for layer in layers:
        if isinstance(layer, looking_up):
            words |= dict.fromkeys(map(str, layer.get_vocabulary(include_special_tokens=False)[:_MOST_WORDS]))
    return list(words)


def draw_texts(words: Sequence[str], shape: tuple[int, ...], rng: np.random.Generator) -> Texts:
    """Returns texts of which some are unknown, some are words, and half are sentences of both."""
    kinds = (_strange, _word, _sentence, _sentence)
    return _filled(shape, lambda: kinds[rng.integers(len(kinds))](words, rng))


def draw_words(words: Sequence[str], shape: tuple[int, ...], rng: np.random.Generator) -> Texts:
    """Returns words that are known, for a model that takes no others."""
    return _filled(shape, lambda: _word(words, rng))


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
