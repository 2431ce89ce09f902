"""A model with its cache as arguments returns the logits of the uncached model, in calls of any length."""

from typing import Any

import keras
import keras_hub
import numpy as np
import pytest

from keras_pe.export.model.border import Border
from keras_pe.export.model.language_model_adapter import with_cache_as_arguments
from tests.export.decoders.small_decoders import (
    FAMILIES,
    VOCABULARY,
    OwnDecoder,
    empty_cache,
    language_model,
    own_decoder,
    whole_logits,
)
from tests.raised import about

_CHUNKS = (5, 3, 1, 7, 8, 1, 1, 14)
_RNG = np.random.default_rng(0)


@pytest.mark.slow_rows(5)
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_and_padded_rows_have_the_logits_of_whole_calls(family: str) -> None:
    model = language_model(family)
    decoder = with_cache_as_arguments(model)
    tokens = _RNG.integers(0, VOCABULARY, (2, sum(_CHUNKS)))
    expected = whole_logits(model, tokens)
    past, end, found = empty_cache(decoder, 2), 0, []
    for count in _CHUNKS:
        start, end = end, end + count
        logits, past = decoder(tokens[:, start:end], np.ones((2, end), "int64"), past)
        found.append(np.asarray(logits))
    np.testing.assert_allclose(np.concatenate(found, axis=1), expected, atol=2e-5)
    for mask in ([[1] * 6, [1, 1, 1, 0, 0, 0]], [[1] * 6, [0, 0, 0, 1, 1, 1]]):  # padding at the right, at the left
        _check_padded(decoder, tokens, np.array(mask), expected)


def _check_padded(decoder: Any, tokens: Any, mask: Any, expected: Any) -> None:
    """Runs rows of 6 and of 3 tokens, padded to one length, and then more tokens than a window has."""
    prompts = np.zeros((2, 6), "int64")
    prompts[mask == 1] = np.concatenate([tokens[0, :6], tokens[1, :3]])
    logits, past = decoder(prompts, mask, empty_cache(decoder, 2))
    np.testing.assert_allclose(np.asarray(logits)[1][mask[1] == 1], expected[1, :3], atol=2e-5)
    for turn in range(12):
        mask = np.concatenate([mask, [[1], [1]]], axis=1)
        step = np.stack([tokens[0, 6 + turn : 7 + turn], tokens[1, 3 + turn : 4 + turn]])
        logits, past = decoder(step, mask, past)
        right = np.stack([expected[0, 6 + turn], expected[1, 3 + turn]])
        np.testing.assert_allclose(np.asarray(logits)[:, 0], right, atol=2e-5)


def test_a_model_of_the_user_goes_on_from_its_cache() -> None:
    decoder = with_cache_as_arguments(own_decoder())
    assert [state.input for state in decoder.exchanged] == ["past_key_values.0.key", "past_key_values.0.value"]
    assert decoder.exchanged[0].start(3).shape == (3, 2, 0, 4)


def test_a_shared_cache_gets_the_rows_of_a_call_and_keeps_all_others() -> None:
    model = own_decoder()
    decoder = with_cache_as_arguments(model, is_shared=True)
    tokens, stale = _RNG.integers(0, VOCABULARY, (2, 9)), 7.0  # no call attends to the stale rows
    past = [np.full_like(state.start(2, 12), stale) for state in decoder.exchanged]
    for start, end in ((0, 4), (4, 5), (5, 9)):
        logits, present = decoder(tokens[:, start:end], np.ones((2, end), "int64"), past)
        np.testing.assert_allclose(logits, np.asarray(model(tokens[:, :end]))[:, start:], atol=1e-5)
        for old, new in zip(past, map(np.asarray, present), strict=True):
            assert (new[:, :, :start] == old[:, :, :start]).all()
            assert (new[:, :, start:end] != stale).any(axis=-1).all()
            assert (new[:, :, end:] == stale).all()
        past = [*map(np.asarray, present)]


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("fault", ["each call begins at 0", "order"])
def test_a_step_that_differs_from_whole_calls_is_refused(fault: str) -> None:
    for is_shared in (False, True):
        with pytest.raises(ValueError, match="`step`", check=about("model")):
            with_cache_as_arguments(own_decoder(fault), is_shared=is_shared)


@pytest.mark.parametrize("shapes", ["many", ((2,), (2, 4)), ((2, 4),), ((2, 8), (2, 8))])
def test_wrong_shapes_of_a_cache_are_refused(shapes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = own_decoder()
    monkeypatch.setattr(type(model), "cache_shapes", shapes)
    with pytest.raises(ValueError, match="`cache_shapes`", check=about("model")):
        with_cache_as_arguments(model)


@pytest.mark.parametrize("change", [lambda found: found[0], lambda found: (found[0], found[1][:1])])
def test_a_step_without_the_longer_cache_is_refused(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, usual = own_decoder(), OwnDecoder.step
    monkeypatch.setattr(OwnDecoder, "step", lambda *given: change(usual(*given)))
    with pytest.raises(ValueError, match="2 arrays", check=about("model")):
        with_cache_as_arguments(model)


def test_a_step_that_returns_its_own_rows_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, usual = own_decoder(), OwnDecoder.step

    def step(self: Any, tokens: Any, *given: Any) -> Any:
        logits, cache = usual(self, tokens, *given)
        return logits, [each[:, :, -keras.ops.shape(tokens)[1] :] for each in cache]

    monkeypatch.setattr(OwnDecoder, "step", step)
    with pytest.raises(ValueError, match="rows of the call", check=about("model")):
        with_cache_as_arguments(model)


def test_a_model_without_a_cache_is_refused() -> None:
    backbone = keras_hub.models.BertBackbone(20, 1, 2, 8, 16)
    with pytest.raises(ValueError, check=about("model")):
        Border(state="cache").around(backbone)
    with pytest.raises(ValueError, match="only field"):
        Border(state="cache", batch=1)
