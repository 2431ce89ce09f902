"""Reads the rotary encoding out of a model's configuration as Hugging Face writes it, of any year."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from keras_pe.signal.formula import check_number
from keras_pe.signal.rope_scalings import scaling_function

# What a configuration calls the scalings that have another name by now.
_OLD_NAMES = {"su": "longrope", "mrope": "default"}
# What stands in a configuration beside the rotary parameters.
_ELSEWHERE = ("original_max_position_embeddings", "max_position_embeddings")
_PARTS = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent")
_BASES = ("rope_theta", "rotary_emb_base", "rotary_embedding_base")
# Bases of types of layers, before there were parameters for each of them: ModernBERT's, Gemma 3's.
_BASES_OF_TYPES = {
    "full_attention": ("global_rope_theta",),
    "sliding_attention": ("local_rope_theta", "rope_local_base_freq"),
}
_NO_SCALING = {"rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"}
_READ_HERE = {"alpha", "short_mscale", "long_mscale"}


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
    if not isinstance(config, Mapping):
        raise TypeError(
            "`config` must be a dictionary, the contents of a model's config.json. "
            f"Received: a {type(config).__name__}. json.loads(text) makes one."
        )
    if "text_config" in config:
        config = {**config, **config["text_config"]}
    parameters = _parameters(config, layer_type)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OLD_NAMES.get(kind, kind)
    theta = float(check_number("rope_theta", _first(_BASES, parameters, config) or 1.0e4))
    taken = set(inspect.signature(scaling_function(kind)).parameters)
    outside = {name: config[name] for name in _ELSEWHERE if config.get(name) is not None}
    scaling = {name: each for name, each in {**outside, **parameters}.items() if name in taken and each is not None}
    if length is not None and "length" in taken:
        scaling["length"] = length
    part = _first(_PARTS, parameters, config)
    arguments: dict[str, Any] = {"base": theta}
    if "partial_rotary_factor" in taken:
        scaling["partial_rotary_factor"] = 1.0 if part is None else part
    elif config.get("rotary_dim"):
        arguments["rotary_dim"] = int(config["rotary_dim"])
    elif part not in (None, 1):
        arguments["rotary_dim"] = int(_head_dim(config, head_dim) * check_number("partial_rotary_factor", part))
    scaling.pop("rope_theta", None)
    if kind == "longrope":
        scaling |= _attention_factor(parameters)
    if kind == "dynamic" and parameters.get("alpha"):
        width = arguments.get("rotary_dim") or _head_dim(config, head_dim)
        arguments["base"] = theta * parameters["alpha"] ** (width / (width - 2))
    elif kind != "default":
        arguments["scaling"] = {"rope_type": kind, **scaling}
    _warn_of_unknown(parameters, kind)
    return arguments | _sections(parameters)


def _parameters(config: Mapping[str, Any], layer_type: str | None) -> Mapping[str, Any]:
    """Returns the rotary parameters, those of one type of layers where they differ."""
    named = [config[name] for name in ("rope_parameters", "rope_scaling") if name in config]
    is_whole = not ({"rope_type", "type"} & set(config) or all(isinstance(each, Mapping) for each in config.values()))
    found: Mapping[str, Any] = next((each for each in named if each), {} if named or is_whole else config)
    if not isinstance(found, Mapping):
        raise TypeError(f"`rope_parameters` or `rope_scaling` must be a dictionary in `config`. Received: {found!r}.")
    types: dict[str, Mapping[str, Any]] = {}
    if found and all(isinstance(each, Mapping) for each in found.values()):
        types = dict(found)
    elif any(_first(names, config) for names in _BASES_OF_TYPES.values()):
        full, sliding = (_first(names, config) for names in _BASES_OF_TYPES.values())
        types = {
            "full_attention": {**found, **({"rope_theta": full} if full else {})},
            "sliding_attention": {"rope_theta": sliding},
        }
    if not types:
        return found
    if layer_type not in types:
        raise ValueError(
            f"`layer_type` must be one of {', '.join(map(repr, types))}, for each of which the configuration has "
            f"parameters. Received: layer_type={layer_type!r}."
        )
    return types[layer_type]


def _head_dim(config: Mapping[str, Any], head_dim: int | None) -> int:
    found = head_dim or config.get("head_dim")
    if not found and config.get("hidden_size") and config.get("num_attention_heads"):
        found = config["hidden_size"] // config["num_attention_heads"]
    if not found:
        raise ValueError(
            "`head_dim` must be given, of which `partial_rotary_factor` is a part. Received: head_dim=None."
        )
    return int(check_number("head_dim", found))


def _sections(parameters: Mapping[str, Any]) -> dict[str, Any]:
    if not parameters.get("mrope_section"):
        return {}
    sections = {"sections": tuple(parameters["mrope_section"]), "shared_rates": True}
    return sections | ({"interleave_sections": True} if parameters.get("mrope_interleaved") else {})


def _warn_of_unknown(parameters: Mapping[str, Any], kind: str) -> None:
    kinds = ("linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
    known = (_NO_SCALING | _READ_HERE).union(*(inspect.signature(scaling_function(each)).parameters for each in kinds))
    unknown = sorted(set(parameters) - known)
    if unknown:
        warnings.warn(f"The rotary encoding {kind!r} does without {', '.join(map(repr, unknown))}.", stacklevel=4)


def _attention_factor(parameters: Mapping[str, Any]) -> dict[str, float]:
    """Returns the attention factor that Phi-3.5-MoE has by another name, of short texts and of long ones."""
    found = {parameters[name] for name in ("short_mscale", "long_mscale") if parameters.get(name) is not None}
    if len(found) > 1:
        raise ValueError(
            "`short_mscale` and `long_mscale` must be the same: queries and keys of one text have one factor. "
            f"Received: {sorted(found)}. Without them, give `attention_factor`."
        )
    return {"attention_factor": found.pop()} if found else {}


def _first(names: Sequence[str], *configs: Mapping[str, Any]) -> Any:
    """Returns the first of these that one of the configurations has, the first one's before the next one's, or None."""
    return next((each[name] for each in configs for name in names if each.get(name) is not None), None)
