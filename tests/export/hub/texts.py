"""keras-hub's backbones of texts, at a fraction of their size."""

import functools
from typing import Any

import keras
import keras_hub

from tests.export.hub.recipe import VOCABULARY, Recipe

_PLAIN = {"vocabulary_size": VOCABULARY, "num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
_HEADS = _PLAIN | {"num_heads": 2}
_GROUPED = _PLAIN | {"num_query_heads": 4, "num_key_value_heads": 2}
_EXPERTS = _GROUPED | {"num_experts": 4, "top_k": 2}
_ELECTRA = {"vocab_size": VOCABULARY, "num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}
_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 4,
    "linear_value_head_dim": 4,
    "layer_types": ["linear_attention", "full_attention"],
    "partial_rotary_factor": 0.5,
}
_T5GEMMA = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "num_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 4,
        "layer_types": ["sliding_attention", "full_attention"],
    }.items()
}

CONFIGS: dict[str, dict[str, Any]] = {
    "Albert": _HEADS | {"embedding_dim": 8},
    "Bart": _HEADS,
    "Bert": _HEADS,
    "Bloom": _HEADS,
    "DebertaV3": _HEADS | {"bucket_size": 8},
    "DistilBert": _HEADS,
    "ESM2": _HEADS,
    "EdRec": {
        "vocab_size": VOCABULARY,
        "num_layers_enc": 2,
        "num_layers_dec": 2,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "num_heads": 2,
    },
    "Electra": _ELECTRA | {"embedding_dim": 8},
    "FNet": _PLAIN,
    "Falcon": _PLAIN | {"num_attention_heads": 2},
    "GPT2": _HEADS,
    "GPTNeoX": _HEADS | {"rotary_percentage": 0.5},
    "Gemma": _GROUPED | {"head_dim": 4},
    "GptOss": _EXPERTS | {"head_dim": 4, "sliding_window": 5},
    "Llama": _GROUPED,
    "Llama3": _GROUPED,
    "Mistral": _GROUPED | {"sliding_window": 5},
    "Mixtral": _EXPERTS | {"sliding_window": 5},
    "OPT": _HEADS,
    "Phi3": _GROUPED,
    "Qwen2": _GROUPED,
    "Qwen3": _GROUPED | {"head_dim": 4},
    "Qwen3Moe": _EXPERTS | {"moe_intermediate_dim": 8, "head_dim": 4},
    "Qwen3_5": _GROUPED | _LINEAR | {"head_dim": 8},
    "Qwen3_5Moe": {key: value for key, value in _EXPERTS.items() if key != "intermediate_dim"}
    | _LINEAR
    | {"head_dim": 8, "moe_intermediate_dim": 8, "shared_expert_intermediate_size": 16},
    "QwenMoe": _EXPERTS | {"moe_intermediate_dim": 8, "shared_expert_intermediate_dim": 16},
    "RWKV7": {
        "vocabulary_size": VOCABULARY,
        "num_layers": 2,
        "hidden_size": 16,
        "head_size": 8,
        "intermediate_dim": 32,
        "gate_lora": 4,
        "mv_lora": 4,
        "aaa_lora": 4,
        "decay_lora": 4,
    },
    "Roberta": _HEADS,
    "RoformerV2": _HEADS | {"head_size": 8},
    "SmolLM3": {
        **_PLAIN,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "rope_layer_enabled_list": [True, False],
        "layer_types": ["full_attention"] * 2,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "max_position_embeddings": 512,
        "rope_theta": 1e4,
        "partial_rotary_factor": 1.0,
    },
    "T5": _HEADS,
    "T5Gemma": {"vocabulary_size": VOCABULARY, "sliding_window": 5, **_T5GEMMA},
    "T5Gemma2": {"vocabulary_size": VOCABULARY, "sliding_window": 5, **_T5GEMMA},
    "XLMRoberta": _HEADS,
    "XLNet": _HEADS,
}
CLIP_TEXT = _HEADS | {"embedding_dim": 16, "max_sequence_length": 64}
ENCODERS = {"CLIPTextEncoder": CLIP_TEXT, "MetaCLIP2TextEncoder": CLIP_TEXT, "SigLIPTextEncoder": CLIP_TEXT}

_CLASSES = {f"{name}Backbone": config for name, config in CONFIGS.items()} | ENCODERS
_PADDED = {name: keras.InputSpec(shape=(None, 11)) for name in ("token_ids", "padding_mask")}
# The length that these models pad to, or that their loops in Python have.
_OF_ONE_LENGTH = {"Qwen3_5Backbone": _PADDED, "Qwen3_5MoeBackbone": _PADDED}
_OF_ONE_LENGTH["SigLIPTextEncoder"] = {"token_ids": keras.InputSpec(shape=(None, 64))}
BACKBONES = {
    name: Recipe(functools.partial(getattr(keras_hub.models, name), **config), signature=_OF_ONE_LENGTH.get(name))
    for name, config in _CLASSES.items()
}
BACKBONES["GPTNeoXBackbone that turns nothing"] = Recipe(
    functools.partial(keras_hub.models.GPTNeoXBackbone, **_HEADS | {"rotary_percentage": 0.0})
)
BACKBONES["Qwen3_5Backbone of any length"] = Recipe(
    BACKBONES["Qwen3_5Backbone"].make,
    refused="cannot trace it: .* input_signature=",  # it keeps the chunks of a text in a list
    in_keras="Using a symbolic `tf.Tensor` as a Python `bool` is not allowed",
)
