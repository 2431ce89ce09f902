"""A `step` writes its rows into a shared cache, and attends to the rows that it would concatenate."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export.model.decoder import Decoder
from tests.export.decoders.small_decoders import VOCABULARY, own_decoder


def _join(pair: Any) -> Any:
    return keras.ops.concatenate(pair, axis=2)


_JOINS: dict[str, tuple[Callable[[Any], Any], int]] = {  # each with the number of copies of the cache
    "at axis 2": (_join, 0),
    "at axis -2": (lambda pair: keras.ops.concatenate([*pair], axis=-2), 0),
    "and two parts at the default axis": (lambda pair: keras.ops.concatenate(keras.ops.split(_join(pair), 2)), 2),
    "with another operation": (lambda pair: tf.concat(pair, axis=2), 2),
    "with a new array": (lambda pair: _join(pair) + 0.0, 0),
}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("name", _JOINS)
def test_a_step_that_concatenates_its_rows_copies_no_shared_cache(name: str) -> None:
    join, copies = _JOINS[name]
    model = own_decoder()
    decoder = Decoder(model, model.cache_shapes, is_shared=True)
    tokens, mask = np.random.default_rng(0).integers(0, VOCABULARY, (2, 7)), np.ones((2, 7), "int64")
    mask[1, 2:4] = 0
    calls = tokens[:, :4], mask[:, :4]
    empty = [state.start(2, 9) for state in decoder.exchanged]
    expected, kept = decoder(*calls, empty)
    model.join = join
    found, past = decoder(*calls, empty)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for left, right in zip(past, kept, strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)
    expected = own_decoder()(tokens[:1])[:, 4:]
    np.testing.assert_allclose(decoder(tokens[:, 4:], mask, past)[0][:1], expected, atol=1e-5)
    traced = tf.function(decoder.call).get_concrete_function(tokens[:, 4:], mask, past)
    joined = [each.outputs[0] for each in traced.graph.get_operations() if each.type == "ConcatV2"]
    assert sum(each.shape.rank == 4 for each in joined) == copies
