"""Chooses the rotary parameters of one type of layers, where a model has several types."""

from collections.abc import Mapping

from keras_pe.argument_errors import ArgValueError
from keras_pe.signal.rope_families import Family
from keras_pe.signal.rope_names import BASES, BASES_OF_TYPES, PARTS, Config, first

_BASES_INSIDE = (*BASES, "base")  # names of a base within rotary parameters


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
        return {
            name: None if each is None else {**shared, **_base_of_type(name, each, config, family), **each}
            for name, each in types.items()
        }
    if config.get("compress_rope_theta") is not None:  # DeepSeek V4, whose code ignores the temperature of YaRN
        is_yarn = (found.get("rope_type") or found.get("type")) == "yarn"
        compressed = {**({"attention_factor": 1.0} if is_yarn else {}), **found}
        return {"main": {}, "compress": {**compressed, "rope_theta": config["compress_rope_theta"]}}
    if family.rotates_windows_alone and config.get("sliding_window") is not None:
        return {"sliding_attention": found, "full_attention": None}
    full, sliding = (_base_of_type(name, {}, config, family) for name in ("full_attention", "sliding_attention"))
    if not (full or sliding or family.scales_full_attention_alone):
        return {}
    unscaled = {name: each for name, each in found.items() if name in (*_BASES_INSIDE, *PARTS)}
    return {"full_attention": {**found, **full}, "sliding_attention": {**unscaled, **sliding}}


def _base_of_type(name: str, own: Config, config: Config, family: Family) -> Config:
    """Returns the base that the configuration or the family has for a type of layers whose own parameters lack one."""
    if first(_BASES_INSIDE, own) is not None:
        return {}
    base = first(BASES_OF_TYPES.get(name, ()), config)
    if base is None and name == "sliding_attention":
        base = family.window_base
    return {} if base is None else {"rope_theta": base}
