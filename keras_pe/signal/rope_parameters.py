"""Reads the rotary encoding out of a model's configuration as Hugging Face writes it, of any year."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from keras_pe.signal.rope_scalings import scaling_function

# What a configuration calls the scalings that have another name by now.
_OLD_NAMES = {"su": "longrope", "mrope": "default"}
# What stands in a configuration beside the rotary parameters.
_ELSEWHERE = ("original_max_position_embeddings", "max_position_embeddings")
_NO_SCALING = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"}


def rope_arguments(
    config: Mapping[str, Any], *, head_dim: int | None = None, layer_type: str | None = None, length: int | None = None
) -> dict[str, Any]:
    """Returns the arguments of `RotaryPositionEncoding` that a configuration asks for.

    Args:
        config: A model's `config.json`, or its `rope_parameters` or `rope_scaling` alone.
        head_dim: Channels of a head, where the configuration does not say.
        layer_type: Which one, where the configuration has parameters for several types of layers.
        length: The longest length that the model is to see, for scalings that depend on it.

    Raises:
        ValueError: If what is asked for is missing, or there is no layer for it.
    """
    if "text_config" in config:
        config = {**config, **config["text_config"]}
    parameters = _parameters(config, layer_type)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OLD_NAMES.get(kind, kind)
    theta = parameters.get("rope_theta") or config.get("rope_theta") or config.get("rotary_emb_base")
    taken = set(inspect.signature(scaling_function(kind)).parameters)
    outside = {name: config[name] for name in _ELSEWHERE if config.get(name) is not None}
    scaling = {name: each for name, each in {**outside, **parameters}.items() if name in taken and each is not None}
    if length is not None and "length" in taken:
        scaling["length"] = length
    part = _first(
        parameters.get("partial_rotary_factor"), config.get("partial_rotary_factor"), config.get("rotary_pct")
    )
    arguments: dict[str, Any] = {"base": float(theta or 1.0e4)}
    if "partial_rotary_factor" in taken:
        scaling["partial_rotary_factor"] = _first(part, 1.0)
    elif config.get("rotary_dim"):
        arguments["rotary_dim"] = int(config["rotary_dim"])
    elif part not in (None, 1):
        arguments["rotary_dim"] = int(_head_dim(config, head_dim) * part)
    scaling.pop("rope_theta", None)
    if kind != "default":
        arguments["scaling"] = {"rope_type": kind, **scaling}
    _warn_of_unknown(parameters, kind)
    return arguments | _sections(parameters)


def _parameters(config: Mapping[str, Any], layer_type: str | None) -> Mapping[str, Any]:
    """Returns the rotary parameters, those of one type of layers where they differ."""
    named = [config[name] for name in ("rope_parameters", "rope_scaling") if name in config]
    is_whole = not ({"rope_type", "type"} & set(config) or all(isinstance(each, Mapping) for each in config.values()))
    found: Mapping[str, Any] = next((each for each in named if each), {} if named or is_whole else config)
    if found and all(isinstance(each, Mapping) for each in found.values()):
        if layer_type is None or layer_type not in found:
            raise ValueError(
                f"`layer_type` must be one of {', '.join(map(repr, found))}, for each of which the configuration has "
                f"parameters. Received: layer_type={layer_type!r}."
            )
        nested: Mapping[str, Any] = found[layer_type]
        return nested
    if layer_type == "sliding_attention" and "rope_local_base_freq" in config:  # Gemma 3's, before they were nested
        return {"rope_theta": config["rope_local_base_freq"]}
    return found


def _head_dim(config: Mapping[str, Any], head_dim: int | None) -> int:
    found = head_dim or config.get("head_dim")
    if not found and config.get("hidden_size") and config.get("num_attention_heads"):
        found = config["hidden_size"] // config["num_attention_heads"]
    if not found:
        raise ValueError(
            "`head_dim` must be given, of which `partial_rotary_factor` is a part. Received: head_dim=None."
        )
    return int(found)


def _sections(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if not parameters.get("mrope_section"):
        return {}
    sections = {"sections": tuple(parameters["mrope_section"]), "shared_rates": True}
    return sections | ({"interleave_sections": True} if parameters.get("mrope_interleaved") else {})


def _warn_of_unknown(parameters: Mapping[str, Any], kind: str) -> None:
    kinds = ("linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
    known = _NO_SCALING.union(*(inspect.signature(scaling_function(each)).parameters for each in kinds))
    unknown = sorted(set(parameters) - known)
    if unknown:
        warnings.warn(f"The rotary encoding {kind!r} does without {', '.join(map(repr, unknown))}.", stacklevel=4)


def _first(*values: Any) -> Any:
    return next((each for each in values if each is not None), None)
