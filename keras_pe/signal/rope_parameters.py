"""Reads the rotary encoding from a model configuration in the format of Hugging Face, of any year."""

import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.signal.formula import check_number
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.rope_axes import axial_arguments, section_arguments, width_arguments
from keras_pe.signal.rope_families import Family, family_of
from keras_pe.signal.rope_layer_types import parameters_of_type
from keras_pe.signal.rope_names import (
    AXES_WIDTHS,
    BASES,
    HEAD_WIDTHS,
    HEADS,
    INTERLEAVED,
    MODEL_WIDTHS,
    PARAMETERS,
    PARTS,
    SECTIONS,
    WIDTHS,
    Config,
    check_names,
    denials,
    first,
    has_rotary_names,
    innermost,
    is_parameters,
)
from keras_pe.signal.rope_queries import query_scaling, without_rotation
from keras_pe.signal.rope_scalings import scaling_function

# Older names of scalings in configurations.
_OLD_NAMES = {
    "su": "longrope",
    "mrope": "default",
    "no_scaling": "default",
    "original": "default",
    "origin": "default",
    "deepseek_yarn": "yarn",
    "xdrope": "dynamic",
}
# Entries of a configuration beside the rotary parameters.
_ELSEWHERE = ("original_max_position_embeddings", "max_position_embeddings")
_FROM_LONGEST = ("llama3", "yarn", "longrope")  # scalings whose original length is the longest one by default
_KINDS = ("linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
_KNOWN = {
    *(name for kind in _KINDS for name in inspect.signature(scaling_function(kind)).parameters),
    "rope_type", "type", "rope_theta", "base", "scaling_factor", "partial_rotary_factor", "alpha", "short_mscale",
    "long_mscale", "xdrope_section", "interleaved", "llama_4_scaling_beta", "max_position_embeddings", *SECTIONS,
    *HEAD_WIDTHS,
}  # fmt: skip
_WITHOUT_EFFECT = {"finetuned", "pos_idx_in_fp32"}


def rope_arguments(
    config: Mapping[str, Any], *, head_dim: int | None = None, layer_type: str | None = None, length: int | None = None
) -> dict[str, Any]:
    """Returns the arguments of `RotaryPositionEncoding` that a configuration asks for.

    Args:
        config: A model's `config.json`, or its `rope_parameters` or `rope_scaling` alone.
        head_dim: Channels of a head, where the configuration does not say.
        layer_type: The type of layers, if the configuration has parameters for several.
        length: The longest length that the model is to see, for scalings that depend on it.

    Raises:
        ValueError: If a rotary name is unknown, or the configuration has none. If a value is missing or out of range,
            or no layer rotates as the model does.
        TypeError: If a value is of the wrong type.
    """
    if not isinstance(config, Mapping):
        raise ArgTypeError(
            "config",
            "must be a dictionary, the contents of a model's config.json. "
            f"Received: a {type(config).__name__}. json.loads(text) makes one.",
        )
    config = innermost(config)
    family = family_of(config.get("model_type"))
    _check_rotary(config, family)
    if str(config.get("model_type")).startswith("llama4") and layer_type in ("full_attention", "nope"):
        return without_rotation(config)
    parameters = _parameters(config, family, layer_type)
    _check_parameters(parameters)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = _OLD_NAMES.get(kind, kind)
    base = _base(parameters, config, family)
    widths = next((name for name in AXES_WIDTHS if config.get(name) is not None), None)
    is_axial = kind == "axial" or family.axial is not None
    kind = "default" if kind == "axial" else kind
    arguments = _scale(parameters, config, family, kind, base, head_dim, length)
    sections = {name: config[name] for name in SECTIONS if name in config}
    arguments |= section_arguments({**sections, **parameters}, family) | query_scaling(parameters, config)
    if is_axial or widths:
        _check_plain(arguments, base)
    if is_axial:
        return axial_arguments(family.axial or "plain", base, _head_dim(config, head_dim))
    if widths:
        return _layout(config, family.layout or "interleaved") | width_arguments(widths, config[widths], base)
    return _layout(config, family.layout) | arguments


def _check_rotary(config: Config, family: Family) -> None:
    """Raises unless a configuration has a rotary encoding that a layer can have."""
    is_alone = is_parameters(config)
    if not is_alone:
        check_names(config)
    denied = next(denials(config, adds_another=family.axial is not None), None)
    if denied:
        raise ArgValueError("config", f"must have a rotary encoding. Received: {denied}={config[denied]!r}.")
    if not (is_alone or has_rotary_names(config) or family.is_silent):
        raise ArgValueError(
            "config",
            "must have a rotary encoding, and none of its entries defines one. "
            f"Received: {', '.join(map(repr, config)) or 'an empty dictionary'}.",
        )
    if family.refusal:
        raise ArgValueError(
            "config",
            f"must be of a model that rotates pairs of channels by positions: {family.refusal}. "
            f"Received: model_type={config['model_type']!r}.",
        )


def _parameters(config: Config, family: Family, layer_type: str | None) -> Config:
    """Returns the rotary parameters, those of one type of layers where they differ."""
    named = [config[name] for name in PARAMETERS if name in config and not isinstance(config[name], bool)]
    flat = {name: each for name, each in config.items() if name in _KNOWN} if config.get("rope_type") else {}
    found = config if is_parameters(config) else next((each for each in named if each), flat)
    if not isinstance(found, Mapping):
        raise ArgTypeError(
            "rope_parameters", f"or `rope_scaling` must be a dictionary in `config`. Received: {found!r}."
        )
    return parameters_of_type(found, config, family, layer_type)


def _check_parameters(parameters: Config) -> None:
    """Raises for a parameter that no scaling has, and warns of one that changes no rate."""
    for name, value in parameters.items():
        if value is not None and name not in _KNOWN | _WITHOUT_EFFECT:
            raise ArgValueError(
                "config",
                f"must have known rotary parameters alone. Received: {name}={value!r}. "
                "Leave this parameter out if the rates do not depend on it.",
            )
    ignored = sorted(set(parameters) & _WITHOUT_EFFECT)
    if ignored:
        kind = parameters.get("rope_type") or parameters.get("type") or "default"
        warnings.warn(f"The rotary encoding {kind!r} ignores {', '.join(map(repr, ignored))}.", stacklevel=4)


def _check_plain(arguments: Mapping[str, Any], base: float) -> None:
    """Raises unless all channels rotate at the plain rates of a base, as those of several position axes must."""
    further = {name: each for name, each in arguments.items() if (name, each) != ("base", base)}
    if further:
        raise ArgValueError(
            "config",
            "must rotate all channels at unscaled rates if pairs belong to several position axes. Received: "
            f"{', '.join(f'{name}={each!r}' for name, each in further.items())}. "
            "Pass `timescales` to RotaryPositionEncoding.",
        )


def _base(parameters: Config, config: Config, family: Family) -> float:
    """Returns the base of the rates, that of the family if the configuration has none."""
    of_layers = {each for each in config.get("layer_rope_theta") or () if each}
    if len(of_layers) > 1:
        raise ArgValueError(
            "layer_rope_theta",
            "must be the same for all layers. Received: "
            f"{sorted(of_layers)}. Without it, give the `rope_theta` of the layer.",
        )
    given = of_layers.pop() if of_layers else first((*BASES, "base"), parameters)
    given = first(BASES, config) if given is None else given
    base = float(check_number("rope_theta", family.base if given is None else given))
    ratio = config.get("rope_ratio")  # GLM
    return base if ratio is None else base * check_number("rope_ratio", ratio)


def _layout(config: Config, usual: RotaryLayout | None) -> dict[str, Any]:
    """Returns the layout that the configuration states, or else the usual one, None for "halves"."""
    if config.get("use_mla") is False:  # DeepSeek-OCR has Llama's attention
        return {}
    says = first(INTERLEAVED, config)
    if says is not None:
        return {"layout": "interleaved"} if says else {}
    says = config.get("rope_interleave")  # DeepSeek V3
    if says is not None:
        return {"layout": "interleaved_to_halves"} if says else {}
    is_of_meta = {"dim", "n_heads"} <= set(config)  # params.json of Meta and Mistral
    if usual is None and (is_of_meta or config.get("compress_rope_theta") is not None):  # or DeepSeek V4
        return {"layout": "interleaved"}
    return {} if usual is None else {"layout": usual}


def _scale(
    parameters: Config,
    config: Config,
    family: Family,
    kind: str,
    base: float,
    head_dim: int | None,
    length: int | None,
) -> dict[str, Any]:
    """Returns base, width and scaling."""
    kind, parameters = _scaling_elsewhere(kind, parameters, config)
    taken = set(inspect.signature(scaling_function(kind)).parameters)
    outside = {name: config[name] for name in _ELSEWHERE if config.get(name) is not None}
    scaling = {name: each for name, each in {**outside, **parameters}.items() if name in taken and each is not None}
    if kind in _FROM_LONGEST and "max_position_embeddings" in outside:
        scaling.setdefault("original_max_position_embeddings", outside["max_position_embeddings"])
    if length is not None and "length" in taken:
        scaling["length"] = length
    part, width = first(PARTS, parameters, config), first(WIDTHS, config)
    part = family.part if part is None else part
    arguments: dict[str, Any] = {"base": base}
    if "partial_rotary_factor" in taken:
        scaling["partial_rotary_factor"] = part
    elif width:
        arguments["rotary_dim"] = int(width)
    elif part != 1:
        arguments["rotary_dim"] = int(_head_dim(config, head_dim) * check_number("partial_rotary_factor", part))
    scaling.pop("rope_theta", None)
    if kind == "longrope":
        scaling |= _attention_factor(parameters)
    alpha = parameters.get("alpha") if kind == "dynamic" else _alpha_of_qwen(config, length)
    if alpha:
        width = arguments.get("rotary_dim") or _head_dim(config, head_dim)
        arguments["base"] = base * alpha ** (width / (width - 2))
    elif kind != "default":
        arguments["scaling"] = {"rope_type": kind, **scaling}
    return arguments


def _scaling_elsewhere(kind: str, parameters: Config, config: Config) -> tuple[str, Config]:
    """Returns kind and parameters of a scaling, those that stand outside of the rotary parameters with them."""
    factor = parameters.get("scaling_factor")  # InternLM
    if factor is not None:
        parameters = {"factor": factor, **parameters}
    scale_base, factor = config.get("rotary_emb_scale_base"), config.get("rotary_scaling_factor")
    if scale_base is not None:  # flash-attn
        return "xpos", {"scale_base": scale_base}
    if factor not in (None, 1):
        if config.get("model_type") != "nomic_bert":
            raise ArgValueError(
                "rotary_scaling_factor",
                "must be of a model_type whose scaling is known, 'nomic_bert'. "
                f"Received: rotary_scaling_factor={factor!r}. Give `scaling` to RotaryPositionEncoding.",
            )
        return "dynamic", {"factor": factor, "max_position_embeddings": config.get("max_trained_positions", 2048)}
    factor = config.get("rotary_emb_scaling_factor")
    if factor not in (None, 1) and config.get("use_interpolated_rotary_pos_emb"):  # StripedHyena
        return "linear", {"factor": factor}
    return kind, parameters


def _alpha_of_qwen(config: Config, length: int | None) -> float | None:
    """Returns what Qwen's `use_dynamic_ntk` multiplies the base with, before its power, or None."""
    if not config.get("use_dynamic_ntk"):
        return None
    trained = check_number("seq_length", config.get("seq_length") or config.get("max_position_embeddings") or 0)
    if length is None:
        raise ArgValueError(
            "length",
            "must be given for `use_dynamic_ntk`, whose base depends on the longest length that the model is "
            f"to see. Up to {trained} the base is that of the configuration. Received: length=None.",
        )
    alpha = 2.0 ** math.ceil(math.log2(length / trained) + 1) - 1
    return alpha if alpha > 1 else None


def _head_dim(config: Config, head_dim: int | None) -> int:
    found = head_dim or first(HEAD_WIDTHS, config)
    if not found and config.get("memory_attention_hidden_size"):  # SAM 2
        parts = config["memory_attention_downsample_rate"] * config["memory_attention_num_attention_heads"]
        found = config["memory_attention_hidden_size"] // parts
    if not found and first(MODEL_WIDTHS, config) and first(HEADS, config):
        found = first(MODEL_WIDTHS, config) // first(HEADS, config)
    if not found:
        raise ArgValueError("head_dim", "must be given, of which pairs or a part are counted. Received: head_dim=None.")
    return int(check_number("head_dim", found))


def _attention_factor(parameters: Config) -> dict[str, float]:
    """Returns the attention factor that Phi-3.5-MoE has by another name, of short texts and of long ones."""
    found = {parameters[name] for name in ("short_mscale", "long_mscale") if parameters.get(name) is not None}
    if len(found) > 1:
        raise ArgValueError(
            "short_mscale",
            "and `long_mscale` must be the same: queries and keys of one text have one factor. "
            f"Received: {sorted(found)}. Without them, give `attention_factor`.",
        )
    return {"attention_factor": found.pop()} if found else {}
