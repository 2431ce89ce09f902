"""A decoder with positions as inputs returns the logits of whole calls, in calls of its lengths."""

import numpy as np
import pytest

from keras_pe.export.model.border import Border, decoder_lengths
from keras_pe.export.model.decoder import LENGTH
from tests.export.decoders.small_decoders import VOCABULARY, own_decoder
from tests.raised import about


def test_calls_from_a_position_on_have_the_logits_of_whole_calls() -> None:
    model = own_decoder()
    decoder = Border(state="shared_cache", lengths=(16, 4, 1)).around(model)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (1, 9))
    stale = 7.0  # no call attends to the stale rows
    past = [np.full_like(state.start(1), stale) for state in decoder.exchanged]
    assert [each.shape for each in past] == [(1, 2, 16, 4)] * 2
    for start, end in ((0, 4), (4, 8), (8, 9)):
        positions = np.arange(start, end, dtype="int32")
        logits, past = decoder(tokens[:, start:end], positions, past)
        np.testing.assert_allclose(logits, np.asarray(model(tokens[:, :end]))[:, start:], atol=1e-5)
    for array in map(np.asarray, past):
        assert (array[:, :, 9:] == stale).all()
    again = type(decoder).from_config(decoder.get_config())
    assert (again.cache_length, again.counts) == (16, [1, 4])


def test_each_length_has_a_signature_with_the_names_of_litert_lm() -> None:
    decoder = Border(state="shared_cache", lengths=(16, 4)).around(own_decoder())
    assert [*decoder.signatures] == ["decode", "prefill_4"]
    names = ["tokens", "input_pos", "kv_cache_k_0", "kv_cache_v_0"]
    for signature, count in zip(decoder.signatures.values(), (1, 4), strict=True):
        assert [spec.name for spec in signature.inputs] == names
        assert [spec.shape for spec in signature.inputs] == [(1, count), (count,), (1, 2, 16, 4), (1, 2, 16, 4)]
    assert decoder.artifact_signature.dimensions[LENGTH].sizes.given == (1, 4)
    assert [(state.input, state.output) for state in decoder.exchanged] == [(name, name) for name in names[2:]]


def test_lengths_of_a_decoder_are_checked() -> None:
    assert decoder_lengths({"max_sequence_length": 64, "sequence_length": (8, 16)}) == (64, 8, 16)
    assert decoder_lengths({"max_sequence_length": (64,)}) == (64, 1)
    for sizes in (
        None,
        {"sequence_length": (8,)},
        {"max_sequence_length": 8, "sequence_length": (9,)},
        {"max_sequence_length": (8, 9)},
        {"max_sequence_length": 8, "length": 3},
    ):
        with pytest.raises(ValueError, check=about("sizes")):
            decoder_lengths(sizes)
    with pytest.raises(ValueError, check=about("lengths")):
        Border(state="cache", lengths=(8,))
