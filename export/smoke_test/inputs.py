"""What the smoke test feeds a model and its artifact: drawn values, known words, pixels, zeros."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_pe.export.model.watch.vocabulary import Vocabulary, draw_numbers, draw_texts, draw_words
from keras_pe.export.runtimes.runtime import Array, Arrays

# Takes zeros of the shapes wanted, a seed and what inputs are looked up in; returns inputs to try in this order.
Draw = Callable[[Mapping[str, Any], int, Mapping[str, Vocabulary]], list[Arrays]]


def draws(zeros: Mapping[str, Any], seed: int, vocabularies: Mapping[str, Vocabulary]) -> list[Arrays]:
    """Returns inputs of drawn values, then, for a model that takes no others, of known words, and of zeros."""
    rng = np.random.default_rng(seed)
    plain = {name: np.asarray(array) for name, array in zeros.items()}
    values = {name: _values(array, rng, vocabularies.get(name, Vocabulary())) for name, array in plain.items()}
    known = {name: each for name, each in vocabularies.items() if each.words}
    words = {name: draw_words(each, plain[name].shape, rng) for name, each in known.items()}
    return [values, *([values | words] if words else []), plain]


def images(zeros: Mapping[str, Any], seed: int, vocabularies: Mapping[str, Vocabulary]) -> list[Arrays]:
    """Returns the same with numbers as pixels have them, and nothing for a model that does not take these."""
    rng = np.random.default_rng(seed)
    drawn, *_ = draws(zeros, seed, vocabularies)
    return [
        {
            name: rng.uniform(0, 255, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
            for name, array in drawn.items()
        }
    ]


def _values(zeros: Array, rng: np.random.Generator, vocabulary: Vocabulary) -> Array:
    """Returns values of the same shape and type; of integers 0 and 1, which every embedding has, and entries."""
    if zeros.dtype.kind in "biu":
        return draw_numbers(vocabulary, rng.integers(0, 2, zeros.shape), rng).astype(zeros.dtype)
    if zeros.dtype.kind in "OSU":
        return draw_texts(vocabulary, zeros.shape, rng)
    return rng.normal(size=zeros.shape).astype(zeros.dtype)
