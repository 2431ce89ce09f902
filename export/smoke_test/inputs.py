"""What the smoke test feeds a model and its artifact: drawn values, known words, pixels, zeros."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.model.vocabulary import draw_texts, draw_words
from keras_pe.export.runtimes.runtime import Array, Arrays

# Takes zeros of the shapes wanted, a seed and known words; returns inputs to try in this order.
Draw = Callable[[Mapping[str, Any], int, Sequence[str]], list[Arrays]]


def draws(zeros: Mapping[str, Any], seed: int, words: Sequence[str]) -> list[Arrays]:
    """Returns inputs of drawn values, then, for a model that takes no others, of known words, and of zeros."""
    rng = np.random.default_rng(seed)
    plain = {name: np.asarray(array) for name, array in zeros.items()}
    values = {name: _values(array, rng, words) for name, array in plain.items()}
    texts = {name: draw_words(words, array.shape, rng) for name, array in plain.items() if array.dtype.kind in "OSU"}
    return [values, *([values | texts] if texts and words else []), plain]


def images(zeros: Mapping[str, Any], seed: int, words: Sequence[str]) -> list[Arrays]:
    """Returns the same with numbers as pixels have them, and nothing for a model that does not take these."""
    rng = np.random.default_rng(seed)
    drawn, *_ = draws(zeros, seed, words)
    return [
        {
            name: rng.uniform(0, 255, array.shape).astype(array.dtype) if array.dtype.kind == "f" else array
            for name, array in drawn.items()
        }
    ]


def _values(zeros: Array, rng: np.random.Generator, words: Sequence[str]) -> Array:
    """Returns values of the same shape and type; of integers 0 and 1, which every vocabulary has; texts of words."""
    if zeros.dtype.kind in "biu":
        return rng.integers(0, 2, zeros.shape).astype(zeros.dtype)
    if zeros.dtype.kind in "OSU":
        return draw_texts(words, zeros.shape, rng)
    return rng.normal(size=zeros.shape).astype(zeros.dtype)
