"""Chooses the rotary parameters of one type of layers, where a model has several types."""

from collections.abc import Mapping

from keras_pe.argument_errors import ArgValueError
from keras_pe.signal.rope_families import Family
from keras_pe.signal.rope_names import BASES_OF_TYPES, Config, first


def parameters_of_type(found: Config, config: Config, family: Family, layer_type: str | None) -> Config:
    """Returns the rotary parameters of a type of layers, or all of them where the model has one type.

    Args:
        found: Rotary parameters of the configuration, nested by types or flat.
        config: The configuration, some of which have the base of a type beside the rotary parameters.
        family: Facts about the model family.
        layer_type: Name of the type, which may be None where one type rotates.

    Raises:
        ValueError: If the type is missing or unknown, or its layers have no rotation.
    """
    types = _types(found, config, family)
    if not types:
        return found
    rotated = [name for name, each in types.items() if each is not None]
    if layer_type is None and len(rotated) == 1:
        layer_type = rotated[0]
    if layer_type not in types:
        raise ArgValueError(
            "layer_type",
            f"must be one of {', '.join(map(repr, rotated))}, for each of which the model has parameters. "
            f"Received: layer_type={layer_type!r}.",
        )
    chosen = types[layer_type]
    if chosen is None:
        raise ArgValueError(
            "layer_type",
            f"must be a type of layers that has a rotary encoding: {', '.join(map(repr, rotated))}. "
            f"Received: layer_type={layer_type!r}, which has none.",
        )
    return chosen


def _types(found: Config, config: Config, family: Family) -> dict[str, Config | None]:
    """Returns the parameters of each type of layers, None for one that has none; nothing where there is one type."""
    if any(isinstance(each, Mapping) for each in found.values()):
        shared = {name: each for name, each in found.items() if each is not None and not isinstance(each, Mapping)}
        types = {name: each for name, each in found.items() if name not in shared}
        return {name: None if each is None else {**shared, **each} for name, each in types.items()}
    if config.get("compress_rope_theta") is not None:  # DeepSeek V4, whose code ignores the temperature of YaRN
        is_yarn = (found.get("rope_type") or found.get("type")) == "yarn"
        compressed = {**({"attention_factor": 1.0} if is_yarn else {}), **found}
        return {"main": {}, "compress": {**compressed, "rope_theta": config["compress_rope_theta"]}}
    if family.rotates_windows_alone and config.get("sliding_window") is not None:
        return {"sliding_attention": found, "full_attention": None}
    full, sliding = (first(names, config) for names in BASES_OF_TYPES.values())
    sliding = family.window_base if sliding is None else sliding
    if full is None and sliding is None:
        return {}
    return {
        "full_attention": {**found, **({"rope_theta": full} if full else {})},
        "sliding_attention": {"rope_theta": sliding} if sliding else {},
    }
