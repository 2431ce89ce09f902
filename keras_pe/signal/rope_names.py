"""The names of rotary parameters in configurations, and the part of a configuration that has them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_pe.argument_errors import ArgValueError

Config = Mapping[str, Any]

BASES = (
    "rope_theta",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rope_embedding_base",  # Phi-3 small
    "rope_freq_constant",  # OpenELM
    "rotary_base",
    "rope_base",
    "rope_freq_base",
)
PARTS = (
    "partial_rotary_factor",
    "rotary_pct",
    "rope_pct",
    "rope_percent",
    "rotary_percent",
    "rotary_emb_fraction",
)
WIDTHS = ("rotary_dim", "rotary_emb_dim", "rotary_ndims")
HEAD_WIDTHS = ("head_dim", "kv_channels", "attention_head_dim")
MODEL_WIDTHS = (
    "embed_dim",
    "hidden_size",
    "n_embd",
    "d_model",
    "model_dim",
    "dim",
)  # embed_dim wins in Qwen2-VL's encoder
HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "encoder_num_attention_heads",
    "decoder_num_attention_heads",
)
INTERLEAVED = ("rotary_emb_interleaved", "rotary_interleaved", "rope_interleaved", "rope_traditional")
PARAMETERS = ("rope_parameters", "rope_scaling", "rotary", "rope_hf_config", "rope_dail_config")
# Bases of types of layers: ModernBERT's, Gemma 3's, MiMo's.
BASES_OF_TYPES = {
    "full_attention": ("global_rope_theta",),
    "sliding_attention": ("local_rope_theta", "rope_local_base_freq", "swa_rope_theta"),
}
AXES_WIDTHS = ("axes_dims_rope", "axes_dim_rope", "rope_axes_dim", "axes_dims")  # channels by axis, of diffusers
SECTIONS = ("mrope_section", "mrope_interleaved")
# Parts of a model that hold its attention, in the order in which they are looked into.
INSIDE = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config",
    "text_model_config",
    "lm_config",
    "decoder_config",
    "attn_config",
    "attn_cfg",
)
# Encoders beside the language model; their owner gives them by themselves.
_BESIDE = re.compile("vision|audio|visual|image|speech|talker|code|encoder|vit|quantization")
# Names whose values turn a rotary encoding on, and leave none where they are False.
_SWITCHES = (
    "rope",
    "rotary",
    "use_rope",
    "use_rotary",
    "use_rotary_pos_emb",
    "use_rotary_embedding",
    "use_rotary_embeddings",
    "use_mem_rope",
)
# Names whose text says which encoding a model has: position_embedding_type, pos_emb, positional_encoding_type.
_KIND_OF_ENCODING = re.compile(r"(?<![a-z])pos(ition)?(al)?_?(emb|enc)")
_ROTARY_KIND = re.compile("rope|rotary")
_NO_ENCODING = re.compile("(?<![a-z])nope$")  # mla_use_nope
_FLAGS = (*_SWITCHES, "alibi")  # True and False, or 1 and 0
_READ = {
    *BASES, *PARTS, *WIDTHS, *INTERLEAVED, *PARAMETERS, *SECTIONS, *_SWITCHES, *AXES_WIDTHS,
    *(name for names in BASES_OF_TYPES.values() for name in names),
    "rope_type", "alibi", "rope_ratio", "rope_interleave", "layer_rope_theta", "compress_rope_theta", "use_dynamic_ntk",
    "use_logn_attn", "rotary_scaling_factor", "rotary_emb_scale_base", "rotary_emb_scaling_factor",
    "use_interpolated_rotary_pos_emb", "qk_rope_head_dim",
}  # fmt: skip
# Names that change neither rates nor pairs: sizes, precision, kernels, and which layers have an encoding.
_NEUTRAL = {
    "no_rope_layers", "no_rope_layer_interval", "indexer_rope_interleave", "linear_rope", "rope_impl",
    "rope_full_precision", "rope_max_length", "rope_3d", "rotary_value", "apply_rope_fusion", "alibi_bias_max",
    "original_rope", "memory_attention_rope_feat_sizes", "memory_attention_rope_k_sizes",
    "memory_attention_rope_dropout",
}  # fmt: skip
# Names that are read in their neutral value alone.
_ONLY = {"rope_position_scale": (1, 1.0), "rope_freq_scale": (1, 1.0), "position_embedding_xdrope": (False,)}
# Names that the configuration of a whole model has, and rotary parameters alone do not.
_OF_MODELS = {"model_type", "architectures", "_class_name", *MODEL_WIDTHS, *HEADS, *PARAMETERS, *INSIDE}
# At the beginning of a word but for known prefixes: "property", "exposure" and "lognormal" have nothing to do with it.
_LOOKS_ROTARY = re.compile(
    "rotary|theta|alibi|freq_(base|scale)|(?<![a-z])((m|x|xd|t|no|long|axial)?rope|rotat|yarn|ntk|xpos|logn(?!orm)|rot_)"
)


def first(names: Sequence[str], *configs: Config) -> Any:
    """Returns the value of the first of these names that one of the configurations has, or None."""
    return next((each[name] for each in configs for name in names if each.get(name) is not None), None)


def is_parameters(config: Config) -> bool:
    """Returns whether a configuration is the rotary parameters alone, flat or of several types of layers."""
    if _OF_MODELS & set(config):
        return False
    parts = [each for name, each in config.items() if each is not None and not is_rotary(name)]
    is_nested = bool(parts) and all(isinstance(each, Mapping) and has_rotary_names(each) for each in parts)
    return is_nested or bool({"rope_type", "type"} & set(config))


def is_rotary(name: str) -> bool:
    """Returns whether a name looks like that of a rotary parameter."""
    return bool(_LOOKS_ROTARY.search(name.lower()))


def innermost(config: Config) -> Config:
    """Returns a configuration merged with the parts of the model that hold its attention; the parts win.

    Raises:
        ValueError: If rotary names stand in parts of other names alone.
    """
    for name in INSIDE:
        if isinstance(config.get(name), Mapping):
            return innermost({**{key: each for key, each in config.items() if key != name}, **config[name]})
    if not is_parameters(config) and not has_rotary_names(config):
        parts = [name for name, each in config.items() if isinstance(each, Mapping) and has_rotary_names(each)]
        inside = [name for name in parts if not _BESIDE.search(name.lower())]
        if len(inside) == 1:
            return innermost({**config, inside[0]: None, **config[inside[0]]})
        if parts:
            raise ArgValueError(
                "config",
                "must be the configuration of one encoder or decoder. Received: rotary names in "
                f"{', '.join(map(repr, parts))}. Give one of them: config[{parts[0]!r}].",
            )
    return config


def check_names(config: Config) -> None:
    """Raises ValueError for a name that looks rotary and is not known, with its value."""
    for name, value in config.items():
        known = _READ | _NEUTRAL
        if value is None or name in known or not is_rotary(name) or value in _ONLY.get(name, ()):
            continue
        raise ArgValueError(
            "config",
            f"must have no rotary name that is unknown here. Received: {name}={value!r}. If rates do not "
            "depend on it, leave it out; otherwise give `timescales` or `scaling` to RotaryPositionEncoding.",
        )


def has_rotary_names(config: Config) -> bool:
    """Returns whether a configuration has a value for a name that speaks of a rotary encoding."""
    off = [name for name in _FLAGS if config.get(name) == 0]
    names = [name for name, each in config.items() if not (each is None or each is False or each == {} or name in off)]
    return any(is_rotary(name) and name not in _NEUTRAL for name in names) or any(
        _ROTARY_KIND.search(kind) for kind in _kinds(config).values()
    )


def denials(config: Config, *, adds_another: bool = False) -> Iterator[str]:
    """Yields each name whose value rules a rotary encoding out.

    Args:
        config: The configuration.
        adds_another: Whether the model adds an encoding to its inputs too, whose kind the configuration may state.
    """
    for name, value in config.items():
        is_off = name in _SWITCHES and value == 0
        if is_off or (name == "alibi" and value) or (_NO_ENCODING.search(name) and value == 1):
            yield name
    if not adds_another:  # rotary models of BERT's line keep its "absolute"
        kinds = _kinds(config).items()
        yield from (name for name, kind in kinds if kind != "absolute" and not _ROTARY_KIND.search(kind))


def _kinds(config: Config) -> dict[str, str]:
    """Returns the kinds of encodings that a configuration has as texts, by name, in lower case."""
    return {
        name: each.lower() for name, each in config.items() if isinstance(each, str) and _KIND_OF_ENCODING.search(name)
    }
