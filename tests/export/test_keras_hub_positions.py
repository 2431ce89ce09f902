"""keras-hub's models with this package's rotations and biases in the place of their own, in Keras and as ONNX files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import onnxruntime as ort
import pytest
from keras import ops

from keras_pe import RelativePositionBias, RotaryPositionEncoding
from keras_pe.conventions import convert_keras_hub
from keras_pe.conventions.keras_hub_models import is_converted
from keras_pe.export import export_onnx
from keras_pe.export.model.rebuild import with_dtype
from tests.samples import sample_cases

HUB = keras_hub.models
VOCABULARY, CHUNK, FAR = 20, 8, 131_072
PLAIN = {"vocabulary_size": VOCABULARY, "num_layers": 1, "hidden_dim": 32, "intermediate_dim": 16}
GROUPED = PLAIN | {"num_query_heads": 2, "num_key_value_heads": 1}
LONGROPE = {
    "rope_scaling_type": "su",
    "pretraining_sequence_length": 64,
    "max_sequence_length": 2 * FAR,
    "rope_scaling_short_factor": [1.0 + i / 8 for i in range(8)],
    "rope_scaling_long_factor": [1.0 + i for i in range(8)],
}
LLAMA_3 = {
    "rope_frequency_adjustment_factor": 8.0,
    "rope_low_freq_factor": 1.0,
    "rope_high_freq_factor": 4.0,
    "rope_pretraining_sequence_length": 64,
}
MODELS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Gemma": (HUB.GemmaBackbone, GROUPED | {"head_dim": 16}),
    "Gemma 3": (
        HUB.Gemma3Backbone,
        GROUPED | {"head_dim": 16, "image_size": 16, "vision_encoder": None, "global_rope_scaling_factor": 8.0},
    ),
    "GPT-NeoX": (HUB.GPTNeoXBackbone, PLAIN | {"num_heads": 2, "rotary_percentage": 0.5}),
    "GPT-OSS": (
        HUB.GptOssBackbone,
        GROUPED | {"head_dim": 16, "num_experts": 2, "top_k": 1, "sliding_window": 2 * FAR},
    ),
    "Llama": (HUB.LlamaBackbone, GROUPED),
    "Llama 3.1": (HUB.Llama3Backbone, GROUPED | LLAMA_3),
    "Mistral": (HUB.MistralBackbone, GROUPED | {"sliding_window": 2 * FAR}),
    "Phi-3": (HUB.Phi3Backbone, GROUPED),
    "Phi-3 of long texts": (HUB.Phi3Backbone, GROUPED | LONGROPE),
    "Mixtral": (HUB.MixtralBackbone, GROUPED | {"num_experts": 2, "top_k": 1, "sliding_window": 2 * FAR}),
    "Qwen": (HUB.QwenBackbone, GROUPED),
    "Qwen 3": (HUB.Qwen3Backbone, GROUPED | {"head_dim": 16, "sliding_window_size": None}),
    "T5": (HUB.T5Backbone, PLAIN | {"num_heads": 2}),
}
CAUSAL = {
    HUB.GemmaBackbone: HUB.GemmaCausalLM,
    HUB.Gemma3Backbone: HUB.Gemma3CausalLM,
    HUB.GptOssBackbone: HUB.GptOssCausalLM,
    HUB.GPTNeoXBackbone: HUB.GPTNeoXCausalLM,
    HUB.LlamaBackbone: HUB.LlamaCausalLM,
    HUB.Llama3Backbone: HUB.Llama3CausalLM,
    HUB.MistralBackbone: HUB.MistralCausalLM,
    HUB.Phi3Backbone: HUB.Phi3CausalLM,
    HUB.MixtralBackbone: HUB.MixtralCausalLM,
    HUB.Qwen3Backbone: HUB.Qwen3CausalLM,
    HUB.QwenBackbone: HUB.QwenCausalLM,
}


def small_model(name: str) -> Any:
    make, arguments = MODELS[name]
    keras.utils.set_random_seed(0)
    return make(**arguments)


def inputs_of(model: Any, length: int) -> dict[str, np.ndarray]:
    tokens = np.random.default_rng(0).integers(VOCABULARY, size=(1, length), dtype="int32")
    return {x.name: np.ones_like(tokens) if "mask" in x.name else tokens for x in model.inputs}


def answer(model: Any, length: int) -> dict[str, np.ndarray]:
    answers = model.predict(inputs_of(model, length), verbose=0)
    return answers if isinstance(answers, dict) else {"": answers}


def run_onnx(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})


class Step(keras.Model):
    """The output of a decoder for the next tokens, from a cache of all positions before them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.decoder = CAUSAL[type(model)](backbone=model, preprocessor=None)

    def call(self, inputs: dict[str, Any]) -> Any:
        return self.decoder.call_with_cache(inputs["tokens"], inputs["cache"], inputs["start"])[0]


class StepOfGemma3(Step):
    """Its cache is a pair of arrays for each layer."""

    def call(self, inputs: dict[str, Any]) -> Any:
        keys, values = ops.unstack(inputs["cache"][:, 0], 2, axis=1)
        return self.decoder.call_with_cache(inputs["tokens"], ((keys, values),), inputs["start"])[0]


class StepOfT5(Step):
    """The attention of its decoder, from states in the place of tokens."""

    def __init__(self, model: Any) -> None:
        keras.Model.__init__(self)
        self.attention = model.decoder_transformer_layers[0].self_attention

    def call(self, inputs: dict[str, Any]) -> Any:
        cache, start = inputs["cache"][:, 0], inputs["start"]
        return self.attention(inputs["tokens"], cache=cache, cache_update_index=start)[0]


def far_step(model: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Returns a model of a step at the last positions below `FAR`, and its inputs.

    Attention of every position to every other would be 64 GiB of scores for one head; a step's is that of a few.
    """
    heads = model.get_config().get("num_key_value_heads", 2)
    is_t5 = isinstance(model, HUB.T5Backbone)
    rng = np.random.default_rng(1)
    arrays = {
        "tokens": rng.normal(size=(1, CHUNK, 32)).astype("float32")
        if is_t5
        else rng.integers(VOCABULARY, size=(1, CHUNK), dtype="int32"),
        # Keys so long that a query looks at few of them, and every angle counts.
        "cache": (rng.normal(size=(1, 1, 2, FAR, heads, 16)) * [[[[[[30.0]]], [[[1.0]]]]]]).astype("float32"),
        "start": np.array(FAR - CHUNK, "int32"),
    }
    steps = {HUB.T5Backbone: StepOfT5, HUB.Gemma3Backbone: StepOfGemma3}
    return steps.get(type(model), Step)(model), arrays


def call_model(model: Any, arrays: dict[str, np.ndarray]) -> np.ndarray:
    tensors = {name: ops.convert_to_tensor(array) for name, array in arrays.items()}
    return ops.convert_to_numpy(model(tensors))


@pytest.mark.filterwarnings("ignore::UserWarning")  # keras-hub's own layers do not pass on masks
@pytest.mark.parametrize("name", sample_cases(MODELS, ("Llama", "T5")))
def test_a_converted_model_answers_as_before_and_so_does_its_file_at_any_distance(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    theirs = answer(model, 40)  # by now it is built and compiled
    step, arrays = far_step(model)
    theirs_far = call_model(step, arrays)
    converted = convert_keras_hub(model)
    kind = RelativePositionBias if name == "T5" else RotaryPositionEncoding
    assert converted
    assert all(isinstance(each, kind) for each in converted)
    # Angles below 40, each rounded twice to float32 there: 2**-19, in scores and what they weigh.
    _compare(answer(model, 40), theirs, 8 * 2.0**-19)
    assert all(each.built for each in converted), "each of them was called"
    artifact = export_onnx(model, tmp_path / "model.onnx")
    found = run_onnx(artifact.path, inputs_of(model, 4096))
    _compare(answer(model, 4096), dict(zip(theirs, found, strict=True)), rounding_error(4096))
    specs = {
        key: keras.InputSpec(shape=(None, *x.shape[1:]) if x.shape else (), dtype=x.dtype) for key, x in arrays.items()
    }
    artifact = export_onnx(step, tmp_path / "step.onnx", input_signature=specs)
    ours_far, allowed = call_model(step, arrays), rounding_error(FAR)
    _compare({"": ours_far}, {"": run_onnx(artifact.path, arrays)[0]}, allowed)
    if name != "T5":
        seen = np.abs(ours_far - theirs_far).max() / np.abs(ours_far).max()
        assert seen > allowed, "angles of float32, as keras-hub has them, would be seen"


@pytest.mark.slow_rows(1)  # every sixth layer with windows is one without
@pytest.mark.slow
@pytest.mark.parametrize("is_sliding", [True, False])
def test_a_converted_gemma_3_computes_with_its_cache_what_it_does_at_once(is_sliding: bool) -> None:
    """Its layers have two bases, one of them scaled."""
    keras.utils.set_random_seed(0)
    arguments = MODELS["Gemma 3"][1] | {"num_layers": 6, "use_sliding_window_attention": is_sliding}
    decoder = HUB.Gemma3CausalLM(None, HUB.Gemma3Backbone(**arguments, sliding_window_size=8))
    tokens = np.random.default_rng(0).integers(1, VOCABULARY, size=(2, 12), dtype="int32")
    begun = {"token_ids": tokens, "padding_mask": np.arange(12) < np.array([[5], [7]])}
    prompt = {name: ops.convert_to_tensor(array) for name, array in begun.items()}

    def logits() -> tuple[np.ndarray, np.ndarray]:
        cache: Any = tuple((ops.zeros((2, 12, 1, 16)),) * 2 for _ in range(6))
        steps = []
        for start, end in ((0, 7), *((each, each + 1) for each in range(7, 12))):
            each, _, cache = decoder.call_with_cache(ops.convert_to_tensor(tokens[:, start:end]), cache, start)
            steps.append(ops.convert_to_numpy(each))
        at_once = decoder.predict({"token_ids": tokens, "padding_mask": np.ones_like(tokens)}, verbose=0)
        return np.concatenate(steps, axis=1), at_once

    theirs, _ = logits()
    generated = decoder.generate_step(prompt, stop_token_ids=None)["token_ids"]
    assert len(convert_keras_hub(decoder)) == 6
    steps, at_once = logits()
    # Angles below 12, each rounded twice to float32 there: 2**-21, in the scores of six layers and what they weigh.
    _compare({"": theirs}, {"": steps}, 6 * 8 * 2.0**-21)
    _compare({"": at_once}, {"": steps}, 6 * rounding_error(64))
    np.testing.assert_array_equal(decoder.generate_step(prompt, stop_token_ids=None)["token_ids"], generated)


@pytest.mark.slow
def test_a_rebuild_in_float64_keeps_what_was_converted() -> None:
    model = small_model("Llama")
    again = with_dtype(model, "float64")
    assert not is_converted(again)
    convert_keras_hub(model)
    again = with_dtype(model, "float64")
    assert is_converted(again)
    np.testing.assert_allclose(answer(again, 40)[""], answer(model, 40)[""], atol=1e-5)


def rounding_error(count: int) -> float:
    """Returns what two sums of so many terms differ by, of their largest: each rounding goes its own way."""
    return 8 * count**0.5 * 2.0**-25


def _compare(expected: dict[str, np.ndarray], found: dict[str, np.ndarray], share: float) -> None:
    for output, array in expected.items():
        np.testing.assert_allclose(found[output], array, rtol=0, atol=share * np.abs(array).max(), err_msg=output)
