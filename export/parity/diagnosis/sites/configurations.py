"""Edits of this package's layers by other arguments: choices, lists of numbers, and fitted numbers."""

import itertools
from collections.abc import Iterator
from math import comb
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from keras_pe.export.parity.diagnosis.call_positions import axes_of
from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inferred_rotations import rates_of
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.sites.other_values import other_value, other_values
from keras_pe.export.parity.diagnosis.sites.rate_fits import (
    FITS,
    Config,
    ShownRates,
    by_digits,
    distance_of,
    fit_number,
    own_rates,
    shown_rates,
)
from keras_pe.export.parity.diagnosis.sites.scalings import other_scalings, rounded_rates
from keras_pe.export.results import Cause
from keras_pe.signal.distances import alibi_slopes

_MOST_PERMUTED = 4  # longest list to permute, in 24 orders
_MOST_SECTIONS = 4096  # divisions of pairs among axes that are compared with the artifact
_MOST_DEALT = 4  # divisions of pairs among axes that are tried
_VALUES: dict[str, tuple[Any, ...]] = {"direction": (1, -1), "scale": (None, 1.0)}
_LENGTHS = [2**power for power in range(21)]  # lengths up to which queries have no factor
_MOST_WIDTHS = 128  # numbers of rotated channels that are tried


def other_configurations(fault: LayerFault) -> Edits:
    """Yields this package's layer with other arguments: choices first, then fitted numbers."""
    import keras_pe

    layer = fault.call.layer
    if not type(layer).__module__.startswith(f"{keras_pe.__name__}.layers."):
        return
    config, shown = layer.get_config(), shown_rates(fault)
    for name, other in _choices(type(layer), config):
        yield other_values(config, {name: other})
    if "scaling" in config:
        yield from rounded_rates(own_rates(layer))
    if shown is not None:
        numbers = {name: value for name, value in config.items() if isinstance(value, float)}
        fits = by_digits(numbers, lambda name, value: distance_of(layer, shown, {**config, name: value}))
        yield from (other_values(config, {name: value}, note=others) for name, value, others in fits)
    if "scaling" in config:
        yield from other_scalings(layer, config, shown)
    if "query_scaling" in config:
        yield from _other_query_scalings(config["query_scaling"], shown)
    yield from _other_pairs(layer, config, shown)
    if isinstance(layer, keras_pe.AlibiBias):
        yield from _other_slopes(fault, config)


def _choices(kind: type, config: Config) -> Iterator[tuple[str, Any]]:
    """Yields each other value of an argument with few values: a name from a list, a boolean, a direction."""
    for name, hint in get_type_hints(kind.__init__).items():  # type: ignore[misc]
        if name in config:
            choices = (True, False) if hint is bool else (*_names_in(hint), *_VALUES.get(name, ()))
            yield from ((name, other) for other in choices if other != config[name])


def _names_in(hint: Any) -> Iterator[Any]:
    """Yields the literals of a type hint, including those in a union."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        yield from itertools.chain.from_iterable(map(_names_in, get_args(hint)))


def _other_query_scalings(own: Config | None, shown: ShownRates | None) -> Iterator[Edit]:
    """Yields query scalings: without the factor that grows with the position, with other numbers, and fitted ones."""
    for name, value in (own or {}).items():
        if name == "scale":
            continue  # the scale is fitted below
        lengths = [int(value * 2.0**power) for power in (1, -1, 2, -2, 3, -3)]
        for other in (not value,) if isinstance(value, bool) else (1 - value,) if name == "first_position" else lengths:
            yield _with_query_scaling(own, {**(own or {}), name: other})
    if own is not None:
        yield other_value("query_scaling", tuple(own.items()), None, cause=Cause.MISSING_SCALING)
    yield from (_with_query_scaling(own, each) for each in _shown_query_scalings(shown))


def _with_query_scaling(own: Config | None, other: Config) -> Edit:
    change = {"query_scaling": dict(other)}
    if own is None:
        return other_value("query_scaling", None, tuple(other.items()), change)
    names = [name for name, value in other.items() if value != own[name]]
    model, artifact = ({f"query_scaling.{name}": each[name] for name in names} for each in (own, other))
    return other_values(model, artifact, change, Cause.attribute(*names))


def _shown_query_scalings(shown: ShownRates | None) -> Iterator[Config]:
    """Yields the query scalings that fit the artifact's radius of the circle at each position."""
    from keras_pe.layers.query_scaling import QueryScaling  # Keras is imported with it

    if shown is None or len(shown.turns.positions) != 1:
        return
    radius = np.abs(shown.turns.points).mean(axis=-1) / shown.own.radius
    if np.ptp(radius) < FITS:
        return
    positions = np.broadcast_to(shown.turns.positions[0], radius.shape)
    for length, first, stepwise in itertools.product(_LENGTHS, (0, 1), (True, False)):
        quotient = np.maximum(positions + first, 0) / length
        growth = np.log(np.maximum(1.0 + np.floor(quotient) if stepwise else quotient, 1.0))
        if not growth.any():
            continue
        scale = float((growth * (radius - 1.0)).sum() / (growth * growth).sum())
        if np.abs(1.0 + scale * growth - radius).max() < FITS:
            yield QueryScaling(float(f"{scale:.4g}"), length, first, stepwise).arguments()


def _other_pairs(layer: Any, config: Config, shown: ShownRates | None) -> Iterator[Edit]:
    """Yields other numbers of rotated channels, and other divisions of the pairs among several axes of positions."""
    if "rotary_dim" in config:
        channels = layer.input_spec.axes[layer.feature_axis]
        own = config["rotary_dim"] or channels
        nearest_first = sorted(range(2, channels + 1, 2), key=lambda width: abs(width - own))
        for width in [width for width in nearest_first if width != own][:_MOST_WIDTHS]:
            yield other_value("rotary_dim", own, width)
    for name in ("sequence_axis", "max_length", "start_index", "grid_shape"):
        value = config.get(name)
        if isinstance(value, list | tuple) and 1 < len(value) <= _MOST_PERMUTED:
            for other in list(dict.fromkeys(itertools.permutations(value)))[1:]:
                yield other_values(config, {name: other})
    if config.get("axis_of_pair") is not None:
        own = tuple(config["axis_of_pair"])
        labels = itertools.permutations(range(axes_of(layer)))
        others = [tuple(label[axis] for axis in own) for label in labels]
        for other in dict.fromkeys((*others, tuple(sorted(own)), own[::-1])):
            if other != own:
                yield other_values(config, {"axis_of_pair": other})
    elif "sections" in config and axes_of(layer) > 1:
        yield from _dealt(layer, config, shown)


def _dealt(layer: Any, config: Config, shown: ShownRates | None) -> Iterator[Edit]:
    """Yields other divisions of the pairs among the axes of positions, those that fit the artifact first."""
    axes = axes_of(layer)
    pairs = (config["rotary_dim"] or layer.input_spec.axes[layer.feature_axis]) // 2
    own = tuple(config["sections"] or [pairs // axes] * axes)
    is_shown = shown is not None and comb(pairs - 1, axes - 1) <= _MOST_SECTIONS
    cuts = itertools.combinations(range(1, pairs), axes - 1)  # all ordered sums of positive numbers
    every = (tuple(b - a for a, b in itertools.pairwise((0, *each, pairs))) for each in cuts)
    ways = every if is_shown else dict.fromkeys(itertools.permutations(own))
    turns, found = None if shown is None else shown.turns.sample(), []
    for sections, interleaved, is_shared in itertools.product(ways, (False, True), (False, True)):
        change = {"sections": sections, "interleave_sections": interleaved, "shared_rates": is_shared}
        now = {"sections": own, **{name: config[name] for name in ("interleave_sections", "shared_rates")}}
        moved = {name: value for name, value in change.items() if value != now[name]}
        if not moved:
            continue
        try:
            rates = rates_of(layer, {**config, **change})
        except ValueError:  # not every section can be interleaved
            continue
        distance = 0.0 if turns is None or rates is None else rates.distance(turns)
        found.append((distance > FITS, len(moved), distance, moved, now))
    for is_far, *_, moved, now in sorted(found, key=lambda each: each[:3])[: _MOST_DEALT if shown else None]:
        if not is_far:
            yield other_values(now, moved)


def _other_slopes(fault: LayerFault, config: Config) -> Edits:
    """Yields ALiBi with the largest exponent that fits the artifact's slopes."""
    if fault.actual is None:
        return
    axes = (0, 2, 3)
    ours, theirs = (each.astype(np.float64) for each in (fault.expected, fault.actual))
    own = alibi_slopes(config["num_heads"], config["rule"], config["bias_max"])
    own_squares, products = (ours * ours).sum(axis=axes), (ours * theirs).sum(axis=axes)
    if not (own_squares.all() and products.all()):  # a head without a slope fits no exponent
        return
    slopes = own * products / own_squares

    def distance(value: float) -> float:
        return float(np.abs(alibi_slopes(config["num_heads"], config["rule"], value) / slopes - 1).max())

    for value in fit_number(distance, config["bias_max"]):
        yield other_values(config, {"bias_max": value})
