"""Configurations as public models have them give the rates of their code, and those that say another thing are refused.

Expected rates come from formulas below, written from the description of each source, in float64.
"""

import math
from typing import Any

import numpy as np
import pytest

from keras_pe import rope_timescales
from keras_pe.signal.rope_parameters import rope_arguments

Rates = np.ndarray


def plain(width: int, base: float = 1e4) -> Rates:
    """Su et al., arXiv 2104.09864: `base ** (-2 i / width)`."""
    return base ** (-2.0 * np.arange(width // 2) / width)


def ntk(width: int, base: float, alpha: float) -> Rates:
    """Static NTK: a base of `base * alpha ** (width / (width - 2))`."""
    return plain(width, base * alpha ** (width / (width - 2)))


def llama3(width: int, base: float, factor: float, low: float, high: float, original: float) -> Rates:
    """Meta, llama-models, `apply_scaling`: wavelengths beyond `original / low` are stretched, a blend up to `high`."""
    found = []
    for rate in plain(width, base):
        wavelength = 2 * math.pi / rate
        blend = (original / wavelength - low) / (high - low)
        if wavelength < original / high:
            found.append(rate)
        elif wavelength > original / low:
            found.append(rate / factor)
        else:
            found.append((1 - blend) * rate / factor + blend * rate)
    return np.array(found)


def yarn(width: int, base: float, factor: float, original: float, fast: float = 32.0, slow: float = 1.0) -> Rates:
    """Peng et al., arXiv 2309.00071: a ramp over the pairs that make between `slow` and `fast` turns, whole ones."""

    def pair(turns: float) -> float:
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), width - 1)
    ramp = np.clip((np.arange(width // 2) - low) / (high - low), 0, 1)
    return plain(width, base) * ((1 - ramp) + ramp / factor)


LLAMA31 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
HEADS = {"hidden_size": 512, "num_attention_heads": 4}
TEXT = {"rope_theta": 1e6, **HEADS}

GEMMA3 = {"rope_theta": 1e6, "rope_scaling": {"full_attention": {"rope_type": "linear", "factor": 8.0},
          "sliding_attention": {"rope_type": "default"}}}  # fmt: skip

# Name, configuration, further arguments, width of a head, rates of its first channels, arguments beside them.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], int, Rates, dict[str, Any]]] = [
    ("llama-1", {"model_type": "llama", **HEADS}, {}, 128, plain(128), {}),
    ("llama-2", {"model_type": "llama", "rope_scaling": None, **HEADS}, {}, 128, plain(128), {}),
    ("llama-3.1", {"rope_theta": 5e5, "rope_scaling": LLAMA31}, {}, 128, llama3(128, 5e5, 8, 1, 4, 8192), {}),
    ("llama-3.2", {"rope_parameters": {**LLAMA31, "factor": 32.0, "rope_theta": 5e5}}, {}, 64,
     llama3(64, 5e5, 32, 1, 4, 8192), {}),
    ("codellama", {"model_type": "llama", "rope_theta": 1000000}, {}, 128, plain(128, 1e6), {}),
    ("vicuna-16k", {"rope_scaling": {"factor": 8.0, "type": "linear"}}, {}, 128, plain(128) / 8, {}),
    ("mistral", {"model_type": "mistral", "rope_theta": 1e6, "sliding_window": None}, {}, 128, plain(128, 1e6), {}),
    ("chatglm3-128k", {"model_type": "chatglm", "kv_channels": 128, "rope_ratio": 500, "original_rope": True}, {}, 128,
     plain(64, 5e6), {"rotary_dim": 64, "layout": "interleaved"}),
    ("glm-4-9b-chat", {"model_type": "chatglm", "kv_channels": 128, "rope_ratio": 500, "hidden_size": 4096}, {}, 128,
     plain(64, 5e6), {"rotary_dim": 64, "layout": "interleaved"}),
    ("glm-4-hf", {"model_type": "glm4", "head_dim": 128, "rope_theta": 1e4, "partial_rotary_factor": 0.5}, {}, 128,
     plain(64), {"rotary_dim": 64, "layout": "interleaved"}),
    ("glm-4-hf-silent", {"model_type": "glm4", "head_dim": 128, "rope_theta": 1e4}, {}, 128, plain(64),
     {"rotary_dim": 64, "layout": "interleaved"}),
    ("dbrx", {"d_model": 6144, "n_heads": 48, "attn_config": {"kv_n_heads": 8, "rope_theta": 500000}}, {}, 128,
     plain(128, 5e5), {}),
    ("mpt-rope", {"model_type": "mpt", "attn_config": {
        "alibi": False, "rope": True, "rope_theta": 20000, "rope_impl": "hf",
        "rope_hf_config": {"type": "linear", "factor": 2.0}}}, {}, 128, plain(128, 2e4) / 2, {}),
    ("mpt-dail", {"attn_config": {"rope": True, "rope_theta": 10000, "rope_impl": "dail", "rope_hf_config":
        {"type": "no_scaling", "factor": 1.0}}}, {}, 128, plain(128), {}),
    ("phi-3-small", {"model_type": "phi3small", "rope_embedding_base": 1000000, "rope_position_scale": 1.0}, {}, 128,
     plain(128, 1e6), {}),
    ("openelm", {"model_type": "openelm", "head_dim": 64, "rope_freq_constant": 10000, "rope_max_length": 4096}, {}, 64,
     plain(64), {}),
    ("openelm-other", {"head_dim": 64, "rope_freq_constant": 500000}, {}, 64, plain(64, 5e5), {}),
    ("internlm", {"model_type": "internlm", "rotary": {"base": 50000, "type": "origin"}}, {}, 128, plain(128, 5e4), {}),
    ("internlm-dynamic", {"max_position_embeddings": 2048, "rotary": {"base": 10000, "type": "dynamic",
     "scaling_factor": 2.0}}, {"length": 4096}, 128, ntk(128, 1e4, 2.0 * 4096 / 2048 - 1.0), {}),
    ("internlm2", {"rope_theta": 1e6, "rope_scaling": {"factor": 2.0, "type": "dynamic"},
     "max_position_embeddings": 32768}, {"length": 1000}, 128, plain(128, 1e6), {}),
    ("nomic-bert", {"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "rotary_emb_base": 1000,
     "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
     "rotary_scaling_factor": None}, {}, 64, plain(64, 1e3), {}),
    ("nomic-bert-long", {"model_type": "nomic_bert", "rotary_emb_base": 1000, "rotary_scaling_factor": 2,
     "max_trained_positions": 2048}, {"length": 8192}, 64, ntk(64, 1e3, 2 * 8192 / 2048 - 1), {}),
    ("flash-attn-gptj", {"rotary_emb_base": 10000, "rotary_emb_fraction": 0.5, "rotary_emb_interleaved": True,
     "n_embd": 512, "n_head": 4}, {}, 128, plain(64), {"rotary_dim": 64, "layout": "interleaved"}),
    ("qwen-7b", {"model_type": "qwen", "rotary_emb_base": 10000, "rotary_pct": 1.0, "kv_channels": 128,
     "use_dynamic_ntk": False, "use_logn_attn": False, "seq_length": 2048}, {}, 128, plain(128), {}),
    ("qwen-7b-ntk", {"rotary_emb_base": 10000, "kv_channels": 128, "use_dynamic_ntk": True, "use_logn_attn": True,
     "seq_length": 2048}, {"length": 5000}, 128, ntk(128, 1e4, 2.0 ** 3 - 1),
     {"query_scaling": {"scale": 1 / math.log(2048), "length": 2048, "first_position": 1, "stepwise": False}}),
    ("qwen-7b-short", {"rotary_emb_base": 10000, "kv_channels": 128, "use_dynamic_ntk": True, "seq_length": 2048},
     {"length": 2048}, 128, plain(128), {}),
    ("qwen2.5-yarn", {"rope_theta": 1e6, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768,
     "type": "yarn"}}, {}, 128, yarn(128, 1e6, 4, 32768), {}),
    ("gpt-oss", {"model_type": "gpt_oss", "head_dim": 64, "rope_theta": 150000, "rope_scaling": {"beta_fast": 32.0,
     "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn",
     "truncate": True}}, {}, 64, yarn(64, 1.5e5, 32, 4096), {}),
    ("deepseek-v3", {"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "rope_theta": 10000,
     "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
     "original_max_position_embeddings": 4096, "type": "yarn"}}, {}, 64, yarn(64, 1e4, 40, 4096),
     {"layout": "interleaved_to_halves"}),
    ("deepseek-halves", {"qk_rope_head_dim": 64, "rope_interleave": False, "rope_theta": 1e4}, {}, 64, plain(64), {}),
    ("deepseek-v4-main", {"head_dim": 512, "partial_rotary_factor": 0.125, "rope_theta": 1e4,
     "compress_rope_theta": 160000.0, "rope_scaling": {"type": "yarn", "factor": 16,
     "original_max_position_embeddings": 65536}}, {"layer_type": "main"}, 512, plain(64),
     {"rotary_dim": 64, "layout": "interleaved"}),
    ("deepseek-v4-compress", {"head_dim": 512, "partial_rotary_factor": 0.125, "rope_theta": 1e4,
     "compress_rope_theta": 160000.0, "rope_scaling": {"type": "yarn", "factor": 16,
     "original_max_position_embeddings": 65536}}, {"layer_type": "compress"}, 512, yarn(64, 1.6e5, 16, 65536),
     {"rotary_dim": 64, "layout": "interleaved"}),
    ("gpt-neox", {"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 10000, **HEADS}, {}, 128, plain(32),
     {"rotary_dim": 32}),
    ("gpt-neox-silent", {"model_type": "gpt_neox", **HEADS}, {}, 128, plain(32), {"rotary_dim": 32}),
    ("gpt-j", {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "rotary_dim": 64}, {}, 256, plain(64),
     {"rotary_dim": 64, "layout": "interleaved"}),
    ("falcon-7b", {"model_type": "RefinedWebModel", "alibi": False, "hidden_size": 4544, "n_head": 71}, {}, 64,
     plain(64), {}),
    ("falcon", {"model_type": "falcon", "alibi": False, "rope_theta": 10000.0, "rope_scaling": None}, {}, 64,
     plain(64), {}),
    ("esm-2", {"model_type": "esm", "position_embedding_type": "rotary", "hidden_size": 320, "num_attention_heads": 20},
     {}, 16, plain(16), {}),
    ("persimmon", {"model_type": "persimmon", "rope_theta": 25000.0, **HEADS}, {}, 128, plain(64, 2.5e4),
     {"rotary_dim": 64}),
    ("stablelm", {"hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.25}, {}, 80, plain(20),
     {"rotary_dim": 20}),
    ("cohere", {"model_type": "cohere", "rope_theta": 8e6}, {}, 128, plain(128, 8e6), {"layout": "interleaved"}),
    ("granite-swa", {"rope_theta": 1e4, "layer_rope_theta": [5e5, 0, 5e5]}, {}, 64, plain(64, 5e5), {}),
    ("minicpm-longrope", {"rope_scaling": {"rope_type": "longrope", "short_factor": [1.5] * 32,
     "long_factor": [2.5] * 32, "original_max_position_embeddings": 32768}, "max_position_embeddings": 32768},
     {"length": 40000}, 64, plain(64) / 2.5, {}),
    ("modernbert", {"position_embedding_type": "absolute", "global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
     {"layer_type": "full_attention"}, 64, plain(64, 1.6e5), {}),
    ("gemma-3-local", {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear",
     "factor": 8.0}}, {"layer_type": "sliding_attention"}, 256, plain(256), {}),
    ("mimo-v2", {"head_dim": 192, "partial_rotary_factor": 0.334, "rope_theta": 5000000, "swa_rope_theta": 10000},
     {"layer_type": "sliding_attention"}, 192, plain(64), {"rotary_dim": 64}),
    ("one-type-null", {"rope_parameters": {"full_attention": None, "sliding_attention": {"rope_type": "default",
     "rope_theta": 5e5}}}, {}, 64, plain(64, 5e5), {}),
    ("one-type-null-named", {"rope_parameters": {"full_attention": None, "sliding_attention": {"rope_type": "linear",
     "rope_theta": 5e5, "factor": 2.0}}}, {"layer_type": "sliding_attention"}, 64, plain(64, 5e5) / 2, {}),
    ("types-alone", {"full_attention": {"rope_theta": 7e5, "rope_type": "default"}, "sliding_attention": None}, {}, 64,
     plain(64, 7e5), {}),
    ("shared-by-types", {"rope_parameters": {"rope_theta": 4e5, "full_attention": {"rope_type": "linear",
     "factor": 2.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
     {"layer_type": "full_attention"}, 64, plain(64, 4e5) / 2, {}),
    ("shared-by-types-alone", {"rope_theta": 4e5, "full_attention": {"rope_type": "linear", "factor": 2.0},
     "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}, {"layer_type": "full_attention"}, 64,
     plain(64, 4e5) / 2, {}),
    ("words-that-only-look-rotary", {"rope_theta": 1e6, "property_dim": 4, "exposure": 2.0, "lognormal_mean": 1.0}, {},
     64, plain(64, 1e6), {}),
    ("internvl", {"llm_config": TEXT, "vision_config": {"hidden_size": 1024}}, {}, 128, plain(128, 1e6), {}),
    ("deepseek-vl2", {"language_config": {**TEXT, "rope_theta": 2e6}}, {}, 128, plain(128, 2e6), {}),
    ("qwen2.5-omni", {"thinker_config": {"audio_config": {}, "text_config": TEXT}, "talker_config": {"rope_theta": 9}},
     {}, 128, plain(128, 1e6), {}),
    ("llava", {"text_config": {"model_type": "llama", "rope_theta": 3e5}}, {}, 128, plain(128, 3e5), {}),
    ("bagel", {"model_type": "bagel", "qwen_config": TEXT, "vit_config": {"rope_theta": 7.0}}, {}, 128,
     plain(128, 1e6), {}),
    ("ministral-3", {"rope_parameters": {"type": "yarn", "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
     "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
     "mscale_all_dim": 1.0, "max_position_embeddings": 16384, "llama_4_scaling_beta": 0.1}}, {}, 128,
     yarn(128, 1e6, 16, 16384), {"query_scaling": {"scale": 0.1, "length": 16384}}),
    ("llama-4", {"model_type": "llama4_text", "rope_theta": 5e5, "no_rope_layers": [1, 1, 1, 0], "attn_scale": 0.1,
     "rope_scaling": {**LLAMA31, "factor": 16.0, "high_freq_factor": 1.0001}}, {}, 128,
     llama3(128, 5e5, 16, 1, 1.0001, 8192), {"layout": "interleaved"}),
    ("hunyuan", {"head_dim": 128, "rope_theta": 1e4, "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1,
     "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"}}, {}, 128, ntk(128, 1e4, 1000.0), {}),
    ("stripedhyena", {"rotary_emb_base": 1000000, "use_interpolated_rotary_pos_emb": True,
     "rotary_emb_scaling_factor": 16}, {}, 128, plain(128, 1e6) / 16, {}),
    ("mamba-attention", {"attn_cfg": {"rotary_emb_dim": 32, "num_heads": 8}}, {}, 64, plain(32), {"rotary_dim": 32}),
    ("top-level-type", {"hidden_size": 512, "num_attention_heads": 8, "rope_type": "linear", "factor": 4.0}, {}, 64,
     plain(64) / 4, {}),
    ("moonshine", {"model_type": "moonshine", "hidden_size": 288, "encoder_num_attention_heads": 8,
     "partial_rotary_factor": 0.9, "rope_theta": 1e4}, {}, 36, plain(32), {"rotary_dim": 32, "layout": "interleaved"}),
    ("moonshine-streaming", {"model_type": "moonshine_streaming", "hidden_size": 320, "num_attention_heads": 8,
     "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.8}}, {}, 40, plain(32),
     {"rotary_dim": 32, "layout": "interleaved"}),
    ("pe-audio", {"model_type": "pe_audio_encoder", "rope_parameters": {"rope_type": "default"}}, {}, 128,
     plain(128, 2e4), {"layout": "interleaved"}),
    ("blt-patcher", {"model_type": "blt_patcher", "rope_theta": 1e4}, {}, 64, plain(64),
     {"layout": "interleaved"}),
    ("bailing-base-of-the-family", {"model_type": "bailing_hybrid", "qk_rope_head_dim": 64}, {}, 64, plain(64, 6e6),
     {"layout": "interleaved_to_halves"}),
    ("llama.cpp", {"rope_freq_base": 1e6, "rope_freq_scale": 1.0}, {}, 128, plain(128, 1e6), {}),
    ("megatron", {"rotary_base": 500000, "rotary_percent": 0.5, "rotary_interleaved": False, **HEADS}, {}, 128,
     plain(64, 5e5), {"rotary_dim": 64}),
    ("base-of-the-family", {"model_type": "mixtral", "rope_parameters": {"rope_type": "default"}}, {}, 64,
     plain(64, 1e6), {}),
    # Published without a base, or with one: transformers scales the layers without a window alone.
    ("gemma-3-4b", {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
     "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}}, {"layer_type": "full_attention"},
     256, plain(256, 1e6) / 8, {}),
    ("gemma-3-4b-window", {"text_config": {"model_type": "gemma3_text", "rope_scaling": {"factor": 8.0, "rope_type":
     "linear"}}}, {"layer_type": "sliding_attention"}, 256, plain(256), {}),
    ("modernbert-silent", {"model_type": "modernbert", "global_rope_theta": 160000.0}, {"layer_type":
     "sliding_attention"}, 64, plain(64), {}),
    ("olmo-3", {"model_type": "olmo3", "rope_theta": 500000, "rope_scaling": {"rope_type": "yarn", "factor": 8.0,
     "original_max_position_embeddings": 8192}}, {"layer_type": "full_attention"}, 128, yarn(128, 5e5, 8, 8192), {}),
    ("olmo-3-window", {"model_type": "olmo3", "rope_theta": 500000, "rope_scaling": {"rope_type": "yarn", "factor": 8.0,
     "original_max_position_embeddings": 8192}}, {"layer_type": "sliding_attention"}, 128, plain(128, 5e5), {}),
    ("olmo-3-window-of-another-base", {"model_type": "olmo3", "rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn",
     "factor": 8.0, "original_max_position_embeddings": 8192}}, {"layer_type": "sliding_attention"}, 128,
     plain(128, 1e6), {}),
    ("olmo-3-window-of-a-base-inside", {"model_type": "olmo3", "rope_parameters": {"rope_type": "linear",
     "factor": 8.0, "rope_theta": 1e6}}, {"layer_type": "sliding_attention"}, 128, plain(128, 1e6), {}),
    ("olmo-3-base-of-the-family", {"model_type": "olmo3", "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
     {"layer_type": "sliding_attention"}, 128, plain(128, 5e5), {}),
    ("gemma-3-window-nested", {**GEMMA3, "model_type": "gemma3_text"}, {"layer_type": "sliding_attention"}, 256,
     plain(256), {}),
    ("gemma-3-full-nested", {**GEMMA3, "model_type": "gemma3_text"}, {"layer_type": "full_attention"}, 256,
     plain(256, 1e6) / 8, {}),
    ("window-base-beside-nested", {**GEMMA3, "rope_local_base_freq": 2e4}, {"layer_type": "sliding_attention"}, 256,
     plain(256, 2e4), {}),
    ("window-base-inside-nested", {"model_type": "gemma3_text", "rope_local_base_freq": 2e4, "rope_parameters": {
     "full_attention": {}, "sliding_attention": {"rope_theta": 3e4}}}, {"layer_type": "sliding_attention"}, 256,
     plain(256, 3e4), {}),
    ("modernbert-nested", {"model_type": "modernbert", "global_rope_theta": 8e4, "rope_parameters": {"full_attention":
     {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}}, {"layer_type": "full_attention"}, 64,
     plain(64, 8e4), {}),
    ("kind-in-capitals", {"position_embedding_type": "RoPE", "rope_theta": 5e5}, {}, 64, plain(64, 5e5), {}),
    ("kind-in-capitals-alone", {"pos_emb": "ROTARY", "hidden_size": 64}, {}, 64, plain(64), {}),
    ("exaone-4-window", {"model_type": "exaone4", "rope_theta": 1000000, "sliding_window": 4096}, {}, 128,
     plain(128, 1e6), {}),
    ("exaone-4-1.2b", {"model_type": "exaone4", "rope_theta": 1000000, "sliding_window": None}, {"layer_type":
     "full_attention"}, 64, plain(64, 1e6), {}),
    ("kimi-k2", {"model_type": "kimi_k2", "qk_rope_head_dim": 64, "rope_theta": 50000.0, "rope_scaling": {
     "type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "beta_fast": 1.0, "beta_slow": 1.0,
     "mscale": 1.0, "mscale_all_dim": 1.0}}, {}, 64, yarn(64, 5e4, 32, 4096, 1.0, 1.0),
     {"layout": "interleaved_to_halves"}),
    ("glm-5", {"model_type": "glm_moe_dsa", "qk_rope_head_dim": 64, "rope_interleave": True, "indexer_rope_interleave":
     True, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}}, {}, 64, plain(64, 1e6),
     {"layout": "interleaved_to_halves"}),
    ("deepseek-ocr", {"language_config": {"model_type": "deepseek_v2", "use_mla": False, "rope_theta": 1e4}}, {}, 128,
     plain(128), {}),
    ("hunyuan-a13b", {"head_dim": 128, "use_rotary_pos_emb": True, "position_embedding_xdrope": False, "rope_theta":
     1e4, "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"}}, {}, 128, ntk(128, 1e4, 1000.0), {}),
    ("llama-params.json", {"dim": 4096, "n_heads": 32, "norm_eps": 1e-5, "rope_theta": 500000.0}, {}, 128,
     plain(128, 5e5), {"layout": "interleaved"}),
    ("neobert", {"model_type": "neobert", "rope": True}, {}, 64, plain(64), {"layout": "interleaved"}),
    ("wav2vec2-conformer", {"position_embeddings_type": "rotary", "rotary_embedding_base": 5000}, {}, 64,
     plain(64, 5e3), {}),
    ("original-length-of-the-longest", {"max_position_embeddings": 4096, "rope_scaling": {"type": "yarn",
     "factor": 4.0}}, {}, 64, yarn(64, 1e4, 4, 4096), {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "further", "width", "rates", "beside"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_public_configuration_gives_the_rates_of_its_code(
    config: dict[str, Any], further: dict[str, Any], width: int, rates: Rates, beside: dict[str, Any]
) -> None:
    arguments = rope_arguments(config, **further)
    scaling = {"rope_type": "default", **arguments.pop("scaling", {})}
    channels = arguments.get("rotary_dim", width)
    if scaling["rope_type"] == "longrope":
        scaling.setdefault("length", further["length"])
    got = rope_timescales(channels=channels, rope_theta=arguments.pop("base"), **scaling)
    np.testing.assert_allclose(1.0 / got.timescales, rates, rtol=1e-12)
    assert arguments == beside


VISION = {"hidden_size": 1280, "num_attention_heads": 16}
AXIAL = {**VISION, "rope_parameters": {"rope_type": "axial", "rope_theta": 1e4}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # Qwen2-VL, Qwen2.5-VL: sections of time, rows and columns, side by side.
        ({"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
         {"base": 1e6, "sections": (16, 24, 24), "shared_rates": True}),
        ({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text", "rope_parameters": {
            "rope_theta": 5e6, "rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}}},
         {"base": 5e6, "sections": (24, 20, 20), "shared_rates": True, "interleave_sections": True}),
        # The code uses these without a word in the configuration.
        ({"model_type": "cosmos3_edge_text", "rope_parameters": {"mrope_section": [24, 20, 20]}},
         {"base": 1e8, "sections": (24, 20, 20), "shared_rates": True, "interleave_sections": True}),
        ({"model_type": "hy_v4_vl", "rope_theta": 1e4, "rope_parameters": {"mrope_section": [12, 10, 10]}},
         {"base": 1e4, "layout": "interleaved", "sections": (12, 10, 10), "shared_rates": True,
          "interleave_sections": True}),
        ({"rope_theta": 1e6, "mrope_section": [16, 24, 24]},
         {"base": 1e6, "sections": (16, 24, 24), "shared_rates": True}),
        ({"rope_theta": 1e6, "rope_scaling": {"mrope_section": [24, 20, 20], "interleaved": True}},
         {"base": 1e6, "sections": (24, 20, 20), "shared_rates": True, "interleave_sections": True}),
        # Ernie 4.5 VL: rows and columns alternate, then time; positions are those of time, rows and columns.
        ({"model_type": "ernie4_5_moe_vl", "rope_theta": 5e5, "rope_scaling": {"type": "default",
          "mrope_section": [2, 2, 1]}, "freq_allocation": 1, "rope_3d": True},
         {"base": 5e5, "layout": "interleaved", "axis_of_pair": (1, 2, 1, 2, 0), "shared_rates": True}),
        ({"model_type": "glm4v_text", "head_dim": 128, "rope_parameters": {"rope_theta": 1e4,
          "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}},
         {"base": 1e4, "rotary_dim": 64, "layout": "interleaved", "sections": (8, 12, 12), "shared_rates": True}),
        # The sections that the code has where the configuration is silent.
        ({"model_type": "qwen3_5_text", "head_dim": 256, "rope_parameters": {"rope_theta": 1e7}},
         {"base": 1e7, "rotary_dim": 64, "sections": (11, 11, 10), "shared_rates": True, "interleave_sections": True}),
        ({"model_type": "qwen2_5_vl_text", "rope_theta": 1e6},
         {"base": 1e6, "sections": (16, 24, 24), "shared_rates": True}),
        # Vision encoders: the positions are those of rows and columns.
        (AXIAL, {"base": 1e4, "sections": (20, 20)}),
        ({"rope_type": "axial", "rope_theta": 100.0, "head_dim": 64}, {"base": 100.0, "sections": (16, 16)}),
        ({**AXIAL, "model_type": "qwen2_5_vl_vision"}, {"base": 1e4, "sections": (20, 20)}),
        # The hidden size is that of the language model behind it.
        ({"model_type": "qwen2_vl_vision", "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16,
          "rope_parameters": {"rope_type": "axial"}}, {"base": 1e4, "sections": (20, 20)}),
        # transformers makes "axial" of their "default".
        ({"model_type": "qwen3_vl_vision", **VISION, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
         {"base": 1e4, "sections": (20, 20)}),
        ({**AXIAL, "model_type": "sam2_video"}, {"base": 1e4, "sections": (20, 20), "layout": "interleaved"}),
        ({"model_type": "sam3_tracker_video", "memory_attention_hidden_size": 256,
          "memory_attention_downsample_rate": 1, "memory_attention_num_attention_heads": 1,
          "memory_attention_rope_feat_sizes": [72, 72], "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
         {"base": 1e4, "sections": (64, 64), "layout": "interleaved"}),
        ({**AXIAL, "model_type": "gemma4_vision", "head_dim": 64},
         {"base": 1e4, "sections": (16, 16), "split_sections": True}),
        ({**AXIAL, "model_type": "step3p5_vision", "head_dim": 8}, {"base": 1e4, "axis_of_pair": (1, 1, 0, 0)}),
        ({**AXIAL, "model_type": "inkling2_vision", "head_dim": 8},
         {"base": 1e4, "axis_of_pair": (1, 1, 0, 0), "layout": "interleaved"}),
        ({**AXIAL, "model_type": "kimi_k25_vision", "head_dim": 8}, {"base": 1e4, "axis_of_pair": (1, 0, 1, 0)}),
        ({**AXIAL, "model_type": "kimi_k25_vision", "head_dim": 8, "pos_emb_type": "divided_fixed"},
         {"base": 1e4, "axis_of_pair": (1, 0, 1, 0)}),
        ({**AXIAL, "model_type": "minimax_m3_vl_vision", "head_dim": 80},
         {"base": 1e4, "sections": (13, 13, 13), "rotary_dim": 78}),
        ({"model_type": "pixtral", "rope_theta": 1e4, "head_dim": 8},
         {"timescales": [1.0, 100.0, 10.0, 1000.0], "sections": (2, 2)}),
        # Flux, HunyuanVideo, Lumina 2, Z-Image: channels of each axis, whose rates begin anew.
        ({"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "axes_dims_rope": [16, 56, 56]},
         {"base": 1e4, "layout": "interleaved", "sections": (8, 28, 28)}),
        ({"_class_name": "HunyuanVideoTransformer3DModel", "rope_axes_dim": [16, 56, 56], "rope_theta": 256.0},
         {"base": 256.0, "layout": "interleaved", "sections": (8, 28, 28)}),
        ({"axes_dims_rope": [16, 56, 56], "rotary_emb_interleaved": False}, {"base": 1e4, "sections": (8, 28, 28)}),
        ({"axes_dim_rope": [32, 32, 32]}, {"base": 1e4, "layout": "interleaved", "sections": (16, 16, 16)}),
        ({"axes_dims": [32, 48, 48], "axes_lens": [1536, 512, 512], "rope_theta": 256.0, "dim": 3840, "n_heads": 30},
         {"base": 256.0, "layout": "interleaved", "sections": (16, 24, 24)}),
        # Llama 4's layers without a rotation.
        ({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "rope_theta": 5e5, "floor_scale": 4096,
          "attn_scale": 0.2, "attn_temperature_tuning": True}},
         {"rotary_dim": 0, "query_scaling": {"scale": 0.2, "length": 4096, "first_position": 1}}),
    ],
)  # fmt: skip
def test_positions_of_several_axes_turn_the_pairs_that_the_code_deals_to_them(
    config: dict[str, Any], expected: dict[str, Any]
) -> None:
    layer_type = "full_attention" if "rotary_dim" in expected and expected["rotary_dim"] == 0 else None
    got = rope_arguments(config, layer_type=layer_type)
    if "timescales" in expected:
        np.testing.assert_allclose(got.pop("timescales"), expected.pop("timescales"), rtol=1e-12)
    assert got == expected


REFUSED: list[tuple[dict[str, Any], str]] = [
    # Nothing rotary.
    ({}, "an empty dictionary"),
    ({"hidden_size": 64}, "none of its entries"),
    ({"model_type": "bert", "position_embedding_type": "absolute", **HEADS}, "none of its entries"),
    ({"model_type": "gpt2", "n_embd": 768, "n_head": 12}, "none of its entries"),
    ({"rope_scaling": None, "rope_parameters": None}, "none of its entries"),
    ({"factor": 8.0}, "none of its entries"),
    ({"model_type": "opt", "text_config": {"hidden_size": 4}}, "none of its entries"),
    ({"model_type": "qwen2_vl", "depth": 32, "embed_dim": 1280, "num_heads": 16}, "none of its entries"),
    ({"model_type": "clip", "property_dim": 4, "exposure": 2.0, "lognormal_mean": 1.0}, "none of its entries"),
    ({"alibi": False, "alibi_bias_max": 8, "hidden_size": 64}, "none of its entries"),
    # Another encoding.
    ({"alibi": True, "hidden_size": 64}, "alibi=True"),
    ({"model_type": "falcon", "alibi": True, "rope_theta": 1e4}, "alibi=True"),
    ({"alibi": 1, "rope_theta": 1e4}, "alibi=1"),
    ({"alibi": 0, "hidden_size": 64}, "none of its entries"),
    ({"use_rope": 0, "rope_theta": 1e4}, "use_rope=0"),
    ({"mla_use_nope": 1, "rope_theta": 1e4}, "mla_use_nope=1"),
    ({"position_embedding_type": "ALiBi", "rope_theta": 1e4}, "position_embedding_type='ALiBi'"),
    ({"model_type": "mpt", "attn_config": {"alibi": True, "rope": False, "rope_theta": 10000}}, "alibi=True"),
    ({"attn_config": {"rope": False, "rope_theta": 10000}}, "rope=False"),
    ({"use_rope": False, "rope_theta": 1e4}, "use_rope=False"),
    ({"position_embedding_type": "nope", "rope_theta": 1e4}, "position_embedding_type='nope'"),
    ({"position_embedding_type": "alibi"}, "position_embedding_type='alibi'"),
    ({"position_embeddings_type": "relative_key", "rotary_embedding_base": 10000}, "'relative_key'"),
    ({"position_embedding_type": "learned_absolute", "rope_theta": 1e4}, "'learned_absolute'"),
    ({"pos_emb": "sinusoidal", "rope_theta": 1e4}, "pos_emb='sinusoidal'"),
    ({"position_embedding_type": "alibi", "rope_theta": 1e4}, "position_embedding_type='alibi'"),
    ({"mla_use_nope": True, "rope_theta": 1e4}, "mla_use_nope=True"),
    ({"model_type": "nemotron_h", "rope_theta": 1e4}, "no positions"),
    # Unknown names that look rotary.
    ({"model_args": {"use_rot_pos_emb": True, "ref_feat_shape": [16, 16], "rope_theta": 100.0}}, "use_rot_pos_emb"),
    ({"_class_name": "LTX", "rope_type": "interleaved", "positional_embedding_theta": 1e4}, "positional_embedding_the"),
    ({"position_embedding_xdrope": True, "rope_theta": 1e4}, "position_embedding_xdrope=True"),
    ({"rope_theta": 1e4, "rope_warp": 3}, "rope_warp=3"),
    ({"rope_thetas": [1e4, 1e5]}, "rope_thetas="),
    ({"model_type": "llama", "rotary_emb_trick": "a"}, "rotary_emb_trick='a'"),
    ({"text_config": {"rope_theta": 1e4, "yarn_factor": 4.0}}, "yarn_factor=4.0"),
    ({"rope_theta": 1e4, "ntk_alpha": 8}, "ntk_alpha=8"),
    ({"rope_embedding_base": 1e6, "rope_position_scale": 2.0}, "rope_position_scale=2.0"),
    ({"rope_theta": 1e4, "rotary_scaling_factor": 40}, "rotary_scaling_factor=40"),
    ({"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0, "slope": 1}}, "slope=1"),
    ({"rope_type": "default", "rope_thetta": 5e5}, "rope_thetta="),
    ({"rope_parameters": {"rope_type": "yarm", "rope_theta": 1e4}}, "Did you mean 'yarn'"),
    ({"layer_rope_theta": [1e4, 5e5]}, "the same for all layers"),
    # Types of layers.
    ({"rope_parameters": {"a": {"rope_theta": 1e4}, "b": {"rope_theta": 1e5}, "c": None}}, "one of 'a', 'b'"),
    # Several encoders.
    ({"encoder": {"rope_theta": 1e4}, "decoder_stack": {"rope_theta": 1e5}, "neck": {"rope_theta": 1e5}}, "'encoder'"),
    # A rotation whose rates depend on the length.
    ({"use_dynamic_ntk": True, "rotary_emb_base": 10000, "seq_length": 2048}, "`length` must be given"),
    # No rotation at all, or one of other positions.
    ({"model_type": "hunyuan_vl", "rope_theta": 1e4, "rope_scaling": {"alpha": 1000.0, "type": "dynamic",
      "factor": 1.0, "mrope_section": [16, 16, 16, 16]}, "head_dim": 128}, "HunYuan-VL"),
    ({"rope_scaling": {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [16, 16, 16, 16]}, "head_dim": 128},
     "HunYuan-VL"),
    ({"model_type": "dinov3_vit", "rope_theta": 100.0, **HEADS}, "coordinates of the image"),
    ({"model_type": "sapiens2", "rope_theta": 100.0, **HEADS}, "coordinates of the image"),
    ({"model_type": "deepseek_v4", "rope_theta": 1e4, "compress_rope_theta": 1.6e5}, "the last channels"),
    ({"model_type": "musicflamingo", "rope_parameters": {"rope_theta": 1200.0}}, "products of a time"),
    ({"model_type": "clvp_encoder", "use_rotary_embedding": True, **HEADS}, "rotate the values"),
    ({"model_type": "qwen2_5_omni_dit", "head_dim": 64, "rope_parameters": {"rope_theta": 1e4}}, "the first head"),
    ({"model_type": "llama4_vision_model", "rope_theta": 1e4}, "rows and columns"),
    ({"model_type": "ernie4_5_vl_moe_text", "rope_parameters": {"mrope_section": [2, 3, 2]}}, "as many pairs for rows"),
    ({"axes_dims_rope": [16, 56, 56], "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, "unscaled.*scaling="),
    ({"axes_dims_rope": [16, 56, 56], "attention_head_dim": 128, "partial_rotary_factor": 0.5}, "rotary_dim=64"),
    ({**VISION, "model_type": "qwen2_5_vl_vision", "rope_scaling": {"type": "linear", "factor": 4.0}}, "unscaled"),
    # Values of a known name.
    ({"rope_theta": 0, "hidden_size": 64}, "`rope_theta` must be positive"),
    ({"rope_theta": 1e6, "mrope_section": "16,24,24"}, "`mrope_section` must be a list"),
    ({"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": 16}}, "`mrope_section` must be a list"),
    ({"rope_theta": 1e6, "rope_scaling": {"mrope_section": [16.5, 24, 23.5]}}, "`mrope_section` must be a list"),
    ({"axes_dims_rope": [16, 55, 56]}, "`axes_dims_rope` must have an even number"),
    ({"rope_type": "axial", "rope_theta": 1e4}, "`head_dim` must be given"),
    ({"rope_type": "axial", "rope_theta": 1e4, "head_dim": 6}, "multiple of 4"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), REFUSED)
def test_an_unknown_parameter_is_refused_by_its_name(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rope_arguments(config)


def test_a_type_of_layers_without_parameters_is_refused() -> None:
    config = {"rope_parameters": {"full_attention": None, "sliding_attention": {"rope_theta": 5e5}}}
    with pytest.raises(ValueError, match=r"'sliding_attention'.*'full_attention'"):
        rope_arguments(config, layer_type="full_attention")
    with pytest.raises(ValueError, match=r"'sliding_attention'.*'full_attention'"):
        rope_arguments(
            {"model_type": "cohere2", "rope_theta": 5e4, "sliding_window": 4096}, layer_type="full_attention"
        )
