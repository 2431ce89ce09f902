"""The adapter around a language model: its decoder or its encoder, after a comparison of calls with whole calls."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.errors import ExportError, first_line
from keras_pe.export.model.decoder import Decoder
from keras_pe.export.model.encoder import Encoder
from keras_pe.export.model.language_model import (
    Source,
    cache_shapes,
    call_whole,
    check_language_model,
    encode,
    has_encoder,
    has_step,
    longest_text,
)
from keras_pe.export.model.positioned_decoder import PositionedDecoder
from keras_pe.export.model.rebuild import half_dtypes
from keras_pe.export.model.watch.keras_internals import all_layers


def around_language_model(model: Any, state: str, lengths: Sequence[int]) -> Decoder | Encoder:
    """Returns the adapter for a state, see `Border`.

    Args:
        model: The model.
        state: "cache", "shared_cache" or "encoder".
        lengths: The length of the cache and the lengths of calls, if they are fixed.

    Raises:
        ValueError: If the model is another one, or if calls with a cache differ from whole calls. Also if the cache is
            longer than a table of positions.
    """
    if (state == "encoder" or lengths) and has_encoder(model) != (state == "encoder"):
        rule = "with an encoder" if state == "encoder" else "without an encoder for fixed lengths"
        raise ArgValueError("model", f"must be a language model {rule}. Received: {model.name!r} for state={state!r}.")
    longest = longest_text(model)
    if lengths and longest is not None and lengths[0] > longest:
        rule = f"must have a max_sequence_length up to {longest}, the rows of the table of positions"
        raise ArgValueError("sizes", f"{rule}. Received: {lengths[0]}.")
    decoder = with_cache_as_arguments(model, is_shared=state == "shared_cache")
    if state == "encoder":
        return Encoder(model, decoder.cache_shapes, name=model.name)
    if lengths:
        return PositionedDecoder(model, decoder.cache_shapes, decoder.vocabulary_size, lengths, name=model.name)
    return decoder


def with_cache_as_arguments(model: Any, *, is_shared: bool = False) -> Decoder:
    """Returns a decoder after a comparison of its calls with whole calls of the model, on a few tokens.

    Args:
        model: A built causal language model of keras-hub; or a model whose `call` takes tokens, `[batch, length]`, with
            a method `step` and an attribute `cache_shapes`, see `CachedModel`.
        is_shared: See `Decoder`.

    Raises:
        ValueError: If the model is another one, or if calls with a cache differ from whole calls.
    """
    check_language_model(model)
    with _refused_calls(model):
        shapes = cache_shapes(model)
        if not shapes:
            raise ArgValueError("model", f"must have attention layers of keras-hub. Received: {model.name!r}.")
        decoder = Decoder(model, shapes, is_shared=is_shared, name=model.name)
        error, largest = _difference(decoder)
    tolerance = 0.1 if half_dtypes(all_layers(decoder)) else 1e-3
    if not error <= tolerance * largest:
        way_out = (
            "Compare its `step` with its `call`: positions, mask, padding, and the order of the cache."
            if has_step(model)
            else "A layer depends on positions in an unknown way. Write a model with `step` and `cache_shapes`."
        )
        raise ArgValueError(
            "model",
            "must return the same logits with a cache as without. Received: "
            f"{model.name!r}, whose logits differ by {error:.2g}; the largest logit is {largest:.2g}. {way_out}",
        )
    return decoder


@contextlib.contextmanager
def _refused_calls(model: Any) -> Iterator[None]:
    """Raises ValueError if a call of a model with a cache fails."""
    try:
        yield
    except Exception as error:  # a layer may raise any error
        if isinstance(error, ArgValueError | ExportError):
            raise
        rule = (
            "must have a `step(tokens, cache, positions, mask)` that takes the arrays of its `cache_shapes`"
            if has_step(model)
            else "must be a model of keras-hub that can be called with a cache, or have `step` and `cache_shapes`"
        )
        raise ArgValueError("model", f"{rule}. Received: {model.name!r}: {first_line(error)}") from error


def _check_cache(decoder: Decoder, past: Sequence[Any], rows: int) -> None:
    """Raises ValueError unless the arrays of a cache have the shapes of the decoder."""
    found = [tuple(each.shape[1:]) for each in past]
    expected = [(heads, rows, channels) for heads, channels in decoder.cache_shapes]
    if found != expected:
        rule = "must have a `step` that returns the cache with the rows of the call at its end"
        received = f"arrays of {found} for each text instead of {expected}"
        raise ArgValueError("model", f"{rule}. Received: {decoder.model.name!r}, with {received}.")


_TRIED = (5, 1, 1, 3, 2)  # the lengths of calls


def _difference(decoder: Decoder) -> tuple[float, float]:
    """Returns the largest difference between calls with a cache and whole calls, and the largest logit.

    The second row of the batch has padding behind its first tokens.
    """
    from keras_pe.export.model.watch.recording import state_left_alone

    length, padding = sum(_TRIED), 2
    tokens = np.random.default_rng(0).integers(0, decoder.vocabulary_size, (2, length))
    mask = np.ones((2, length), "int64")
    mask[1, _TRIED[0] - padding : _TRIED[0]] = 0
    past = [state.start(2, length + padding) for state in decoder.exchanged]
    text, text_mask = tokens[:, ::-1], np.arange(length) < [[length], [length - padding]]
    has_text = has_encoder(decoder.model)
    sources = [Source(text[row : row + 1], text_mask[row : row + 1]) if has_text else None for row in range(2)]
    with state_left_alone():
        whole = [
            call_whole(decoder.model, row[kept > 0][None], np.ones((1, kept.sum())), source)
            for row, kept, source in zip(tokens, mask, sources, strict=True)
        ]
        context = (text_mask, encode(decoder.model, text, text_mask)) if has_text else ()
        parts, end = [], 0
        for count in _TRIED:
            start, end = end, end + count
            logits, past = decoder(tokens[:, start:end], mask[:, :end], past, *context)
            rows = end if not decoder.is_shared else length + padding
            _check_cache(decoder, past, rows)
            parts.append(keras.ops.convert_to_numpy(logits).astype("float64"))
    found = np.concatenate(parts, axis=1)
    expected = [keras.ops.convert_to_numpy(each)[0].astype("float64") for each in whole]
    errors = [abs(row[kept > 0] - right).max() for row, kept, right in zip(found, mask, expected, strict=True)]
    return float(max(errors)), float(max(abs(each).max() for each in expected))
