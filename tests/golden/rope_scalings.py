"""Runs the rotary scalings of Hugging Face and keeps what they return: writes rope-scalings.npz beside this file.

Usage (in an environment of its own, with transformers==5.23.0 and torch==2.13.0):
    python tests/golden/rope_scalings.py

A case is a configuration, `config`, and the length of the text, `length`. The file has `inv_freq` and
`attention_factor` of `ROPE_INIT_FUNCTIONS[rope_type](config, device="cpu", seq_len=length)`, or of Llama's own function
for "default".
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

RETURNED = Path(__file__).parent / "rope-scalings.npz"

BASE = {"hidden_size": 512, "num_attention_heads": 8, "max_position_embeddings": 4096}
FACTORS = {"short_factor": [1.0 + i / 40 for i in range(32)], "long_factor": [1.0 + i**1.5 / 4 for i in range(32)]}


def case(rope_type: str, length: int = 100, **parameters: Any) -> dict[str, Any]:
    """Returns a configuration of that type, and a length."""
    outer = {name: parameters.pop(name) for name in ("max_position_embeddings", "head_dim") if name in parameters}
    inner = {"rope_type": rope_type, "rope_theta": 10000.0, **parameters}
    return {"length": length, "config": {**BASE, **outer, "rope_parameters": inner}}


CASES = {
    "default": case("default"),
    "default of theta 500000": case("default", rope_theta=500000.0),
    "linear": case("linear", factor=4.0),
    "dynamic within": case("dynamic", factor=2.0),
    "dynamic beyond": case("dynamic", factor=2.0, length=10000),
    "dynamic, partial": case("dynamic", factor=4.0, length=9000, partial_rotary_factor=0.5),
    "yarn": case("yarn", factor=4.0, original_max_position_embeddings=4096),
    "yarn, not truncated": case("yarn", factor=8.0, original_max_position_embeddings=2048, truncate=False),
    "yarn of DeepSeek": case(
        "yarn", factor=40.0, original_max_position_embeddings=4096, mscale=1.0, mscale_all_dim=0.8, beta_fast=16.0
    ),
    "yarn of other betas": case("yarn", factor=32.0, original_max_position_embeddings=512, beta_slow=2.0),
    "yarn, attention factor": case("yarn", factor=2.0, original_max_position_embeddings=64, attention_factor=1.25),
    "yarn without factor": case(
        "yarn", factor=None, original_max_position_embeddings=1024, max_position_embeddings=16384
    ),
    "longrope, short": case("longrope", original_max_position_embeddings=1024, **FACTORS),
    "longrope, long": case("longrope", original_max_position_embeddings=1024, length=1025, **FACTORS),
    "longrope with factor": case("longrope", factor=32.0, original_max_position_embeddings=2048, **FACTORS),
    "longrope, attention factor": case(
        "longrope", original_max_position_embeddings=1024, attention_factor=1.19, **FACTORS
    ),
    "llama3": case(
        "llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
        rope_theta=500000.0,
    ),
    "llama3 of 3.2": case(
        "llama3",
        factor=32.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
        rope_theta=500000.0,
        head_dim=128,
    ),
    "proportional": case("proportional", partial_rotary_factor=0.25, rope_theta=1000000.0),
    "proportional with factor": case("proportional", partial_rotary_factor=0.5, factor=8.0),
}


def compute_case(call: dict[str, Any]) -> tuple[np.ndarray, float]:
    """Returns the rates and the attention factor of a case."""
    import torch
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(**json.loads(json.dumps(call["config"])))
    kind = call["config"]["rope_parameters"]["rope_type"]
    function = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
    rates, factor = function(config, device=torch.device("cpu"), seq_len=call["length"])
    return rates.numpy(), float(factor)


def main() -> None:
    """Writes the file."""
    arrays: dict[str, Any] = {"cases": np.array(json.dumps(CASES))}
    for name, call in CASES.items():
        arrays[f"{name}/inv_freq"], arrays[f"{name}/attention_factor"] = compute_case(call)
    np.savez(RETURNED, **arrays)


if __name__ == "__main__":
    main()
