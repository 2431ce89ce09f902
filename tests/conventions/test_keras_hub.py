"""The rotary layers of keras-hub's models, and the layer made of each: the same outputs where keras-hub is right."""

from collections.abc import Iterator
from typing import Any

import keras
import keras_hub
import numpy as np
import pytest
from keras import ops
from keras_hub.layers import RotaryEmbedding

from keras_pe.conventions import rotary_from_keras_hub

SIZES = {"vocabulary_size": 20, "num_layers": 1, "hidden_dim": 32, "intermediate_dim": 16, "num_key_value_heads": 1}
BACKBONES = {
    "Llama": lambda models: models.LlamaBackbone(num_query_heads=2, **SIZES),
    "Llama 3.1": lambda models: models.Llama3Backbone(
        num_query_heads=2, rope_frequency_adjustment_factor=8.0, rope_low_freq_factor=1.0, rope_high_freq_factor=4.0,
        rope_pretraining_sequence_length=64, **SIZES,
    ),
    "Mistral": lambda models: models.MistralBackbone(num_query_heads=2, **SIZES),
    "Gemma": lambda models: models.GemmaBackbone(num_query_heads=2, head_dim=16, **SIZES),
    "Qwen": lambda models: models.QwenBackbone(num_query_heads=2, **SIZES),
    "Phi-3": lambda models: models.Phi3Backbone(num_query_heads=2, **SIZES),
    "Phi-3 of long texts": lambda models: models.Phi3Backbone(
        num_query_heads=2, max_sequence_length=64, pretraining_sequence_length=8, rope_scaling_type="su",
        rope_scaling_short_factor=[1.0 + i / 8 for i in range(8)],
        rope_scaling_long_factor=[1.0 + i for i in range(8)], **SIZES,
    ),
    "GPT-NeoX": lambda models: models.GPTNeoXBackbone(
        vocabulary_size=20, num_layers=1, num_heads=2, hidden_dim=32, intermediate_dim=16
    ),
}  # fmt: skip


def rotary_layers(owner: Any, seen: set[int]) -> Iterator[Any]:
    """Returns the rotary layers that a layer holds, its inner layers' too."""
    for each in vars(owner).values():
        if isinstance(each, keras.layers.Layer) and id(each) not in seen:
            seen.add(id(each))
            if isinstance(each, RotaryEmbedding):
                yield each
            else:
                yield from rotary_layers(each, seen)


@pytest.mark.parametrize("name", BACKBONES)
def test_the_layer_made_of_a_models_own_turns_as_it_does(name: str) -> None:
    model, seen = BACKBONES[name](keras_hub.models), set()
    found = [each for layer in model.layers for each in rotary_layers(layer, seen)]
    assert found
    x = np.random.default_rng(0).uniform(-1, 1, size=(2, 12, 3, 16)).astype("float32")
    for theirs in found:
        ours = rotary_from_keras_hub(theirs)
        for part, start in ((x[:, :5], 0), (x, 0), (x[:, :1], 40)):
            expected = ops.convert_to_numpy(theirs(part, start_index=start))
            # Angles below 41 of float32 rates: two roundings, a factor of up to 1.3, and ours.
            np.testing.assert_allclose(ops.convert_to_numpy(ours(part, start_index=start)), expected, atol=2e-5)


def test_yarn_and_linear_are_read_and_what_is_wrong_there_is_refused() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, size=(1, 12, 16)).astype("float32")
    for arguments in (
        {"rope_type": "yarn", "scaling_factor": 4.0, "original_max_position_embeddings": 64},
        {"rope_type": "linear", "scaling_factor": 4.0, "max_wavelength": 500},
    ):
        theirs = RotaryEmbedding(**arguments)
        expected = ops.convert_to_numpy(theirs(x))
        np.testing.assert_allclose(ops.convert_to_numpy(rotary_from_keras_hub(theirs)(x)), expected, atol=1e-5)
    with pytest.raises(ValueError, match="'dynamic' divides all rates"):
        rotary_from_keras_hub(RotaryEmbedding(rope_type="dynamic", scaling_factor=2.0))
    with pytest.raises(TypeError, match="must be a RotaryEmbedding"):
        rotary_from_keras_hub(keras.layers.Dense(2))
