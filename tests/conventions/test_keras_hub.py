"""The rotary layers of keras-hub's models, and the layer made of each: the same outputs where keras-hub is right."""

from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import pytest
from keras import ops
from keras_hub.layers import RotaryEmbedding

from keras_pe import RelativePositionBias
from keras_pe.conventions import convert_keras_hub, rotary_from_keras_hub
from tests.raised import about

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


def rotary_layers(model: Any) -> list[Any]:
    return [each for each in model._flatten_layers() if isinstance(each, RotaryEmbedding)]


@pytest.mark.parametrize("name", BACKBONES)
def test_the_layer_made_of_a_models_own_turns_as_it_does(name: str) -> None:
    found = rotary_layers(BACKBONES[name](keras_hub.models))
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


TOKENS = {"token_ids": np.arange(12).reshape(1, 12) % 20, "padding_mask": np.ones((1, 12), "int32")}


@pytest.mark.parametrize("name", ["Llama", pytest.param("Phi-3 of long texts", marks=pytest.mark.slow)])
def test_a_model_that_is_built_and_compiled_turns_by_this_packages_layers(name: str, tmp_path: Path) -> None:
    model = BACKBONES[name](keras_hub.models)
    expected = model.predict(TOKENS, verbose=0)
    model.save_weights(tmp_path / "before.weights.h5")
    (ours,) = convert_keras_hub(model)
    assert convert_keras_hub(model) == []
    np.testing.assert_allclose(model.predict(TOKENS, verbose=0), expected, atol=1e-5)
    assert ours.built
    assert ours in model._flatten_layers()
    model.load_weights(tmp_path / "before.weights.h5")
    # Keras has compiled keras-hub's rotation, so a change needs a new compilation.
    ours.call = lambda inputs, **arguments: 0.0 * inputs
    model.predict_function = None
    assert np.abs(model.predict(TOKENS, verbose=0) - expected).max() > 1e-3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # its attention does not pass on masks
def test_biases_of_t5_stay_the_weights_of_its_attention() -> None:
    model = keras_hub.models.T5Backbone(20, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=16)
    paths = [each.path for each in model.trainable_variables]
    attention = model.decoder_transformer_layers[0].self_attention
    expected = [attention.compute_bias(3, 200, start) for start in (0, 150)]
    of_encoder, ours = convert_keras_hub(model)
    assert isinstance(ours, RelativePositionBias)
    assert (of_encoder.bidirectional, ours.bidirectional) == (True, False)
    for start, theirs in zip((0, 150), expected, strict=True):
        np.testing.assert_array_equal(attention.compute_bias(3, 200, start), theirs)
    attention.relative_attention_bias.assign(np.ones((32, 2)))
    assert ops.convert_to_numpy(attention.compute_bias(3, 4)).min() == 1.0
    assert [each.path for each in model.trainable_variables] == paths


class OtherRotation(RotaryEmbedding):
    pass


class OwnRotaryEmbedding(keras.layers.Identity):
    """A rotation like that of SmolLM3, which is not a layer of keras-hub."""


def test_an_object_that_is_not_a_layer_is_refused() -> None:
    with pytest.raises(TypeError, check=about("model")):
        convert_keras_hub(None)


@pytest.mark.parametrize("kind", [OtherRotation, OwnRotaryEmbedding])
def test_a_model_with_a_rotation_of_another_kind_is_refused_and_left_as_it_is(kind: type) -> None:
    inputs = keras.Input((4, 8))
    right = RotaryEmbedding()
    model = keras.Model(inputs, kind()(right(inputs)))
    with pytest.raises(TypeError, match=rf"or Phi-3's own\. Received: {kind.__name__}"):
        convert_keras_hub(model)
    assert not hasattr(right, "exact")
