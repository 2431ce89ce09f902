"""Reads the query factor from a model configuration, as arguments of `RotaryPositionEncoding`."""

import math
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.signal.formula import check_number
from keras_pe.signal.rope_names import Config


def query_scaling(parameters: Config, config: Config) -> dict[str, Any]:
    """Returns the factor on queries of Ministral 3 or of Qwen, or nothing."""
    beta = parameters.get("llama_4_scaling_beta")
    if beta:
        length = parameters.get("original_max_position_embeddings") or config.get("max_position_embeddings")
        return {"query_scaling": {"scale": float(beta), "length": length}}
    if config.get("use_logn_attn"):
        length = config.get("seq_length")
        scale = 1 / math.log(check_number("seq_length", length or 0))
        return {"query_scaling": {"scale": scale, "length": length, "first_position": 1, "stepwise": False}}
    return {}


def without_rotation(config: Config) -> dict[str, Any]:
    """Returns the arguments of Llama 4's layers without rotation, which have a factor on queries alone."""
    if config.get("attn_temperature_tuning") is False:
        raise ArgValueError(
            "layer_type",
            "must be a type of layers that has a rotary encoding or a factor on queries. "
            "Received: attn_temperature_tuning=False.",
        )
    scale, length = config.get("attn_scale", 0.1), config.get("floor_scale", 8192)
    return {"rotary_dim": 0, "query_scaling": {"scale": scale, "length": int(length), "first_position": 1}}
