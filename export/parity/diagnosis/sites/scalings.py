"""Edits of the scaling of a rotary layer's rates: no scaling, other numbers of its rule, or another rule."""

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.inferred_rotations import Rates
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
from keras_pe.export.results import Cause
from keras_pe.export.runtimes.runtime import as_dtype
from keras_pe.signal.rope_scalings import ROPE_TYPES, RopeScaling, scaling_parameters

_USUAL: Mapping[str, Sequence[float]] = {  # entries of a scaling that the model's scaling does not have
    "factor": (2.0, 4.0, 8.0),
    "original_max_position_embeddings": (4096.0, 8192.0, 2048.0, 32768.0),
    "low_freq_factor": (1.0,),
    "high_freq_factor": (4.0,),
    "partial_rotary_factor": (0.25, 0.5, 0.75),
}
_MOST_SHOWN = 4  # number of pairs with reported rates
_FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 40.0)
_BASES = (1.0e4, 5.0e5, 1.0e6, 1.0e5, 1.0e7)
_TOLD = ("factor", "partial_rotary_factor")  # entries without which a rule has no effect


def other_scalings(layer: Any, config: Config, shown: ShownRates | None) -> Iterator[Edit]:
    """Yields other scalings: none, other numbers of the rule, or another rule."""
    own = dict(config["scaling"] or {"rope_type": "default"})
    if config["scaling"] is not None:
        factor = "" if own.get("factor") is None else f", factor {own['factor']:g}"
        edit = other_value("scaling.rope_type", own["rope_type"], None, {"scaling": None}, Cause.MISSING_SCALING)
        yield replace(edit, description=f"without its scaling {own['rope_type']!r}{factor}")
        rates = own_rates(layer)
        if rates is not None and rates.radius != 1.0:
            change = {"scaling": {**own, "attention_factor": 1.0}}
            yield other_value("scaling.attention_factor", rates.radius, 1.0, change, Cause.MISSING_SCALING)
    if shown is None or shown.own.axes.any():
        yield from (_with_scaling(own, each) for each in (*_same_rule(own), *_usual_numbers(own), *_other_rules(own)))
        return

    def distance(scaling: Config) -> float:
        return distance_of(layer, shown, {**config, "scaling": scaling})

    yield from (_with_scaling(own, scaling) for scaling in _same_rule(own) if distance(scaling) < FITS)
    numbers = {name: value for name, value in _numbers(own).items() if value is not None}
    for name, number, others in by_digits(numbers, lambda name, value: distance({**own, name: value})):
        yield _with_scaling(own, {**own, name: number}, others)
    for rule in _other_rules(own):
        yield from (_with_scaling(own, each) for each in _fitting(rule, distance))


def _fitting(rule: Config, distance: Callable[[Config], float]) -> list[Config]:
    """Returns a rule if it fits, or the rule with a fitted factor; empty if neither fits."""
    if "factor" not in rule or distance(rule) < FITS:
        return [rule] if distance(rule) < FITS else []
    factors = fit_number(lambda value: distance({**rule, "factor": value}), rule["factor"])
    # A factor below 1 would multiply positions, so it does not count as a scaling.
    return [{**rule, "factor": value} for value in factors if value >= 1]


def _with_scaling(own: Config, scaling: Config, others: str = "", bases: tuple[float, ...] = ()) -> Edit:
    """Returns the edit of another scaling, with its changed entries.

    Args:
        own: The model's scaling.
        scaling: The other scaling.
        others: Text on alternatives.
        bases: The model's base and another one, if the base changes too.
    """
    names = [name for name in dict.fromkeys([*own, *scaling]) if scaling.get(name) != own.get(name)]
    is_own_rule = scaling["rope_type"] == own["rope_type"]
    known = scaling_parameters(own["rope_type"]) if is_own_rule else {}
    before = {name: own.get(name, known[name].default if name in known else None) for name in names}
    model = {f"scaling.{name}": None if each is inspect.Parameter.empty else each for name, each in before.items()}
    artifact = {f"scaling.{name}": scaling.get(name) for name in names}
    model_base, base = ({"base": each} for each in bases) if bases else ({}, {})
    cause = Cause.attribute(names[0]) if is_own_rule else Cause.attribute("rope_type")
    return other_values({**model, **model_base}, {**artifact, **base}, {"scaling": scaling, **base}, cause, others)


def _numbers(scaling: Config) -> dict[str, float | None]:
    """Returns the numbers of a scaling, including defaults; None for a required number that is missing."""
    found = {}
    for name, each in scaling_parameters(scaling["rope_type"]).items():
        if each.annotation in (float, float | None):
            default = None if each.default is inspect.Parameter.empty else each.default
            found[name] = scaling.get(name, default)
            if name in ("attention_factor", "mscale", "mscale_all_dim") and found[name] is None:
                found[name] = 1.0
    return found


def _same_rule(own: Config) -> Iterator[dict[str, Any]]:
    """Yields a scaling with each boolean inverted, and with its lists exchanged."""
    for name, each in scaling_parameters(own["rope_type"]).items():
        if each.annotation is bool:
            yield {**own, name: not own.get(name, each.default)}
    if {"short_factor", "long_factor"} <= set(own):
        short, long = own["short_factor"], own["long_factor"]
        for pair in ((long, short), (short, short), (long, long)):
            yield {**own, "short_factor": pair[0], "long_factor": pair[1]}


def _other_rules(own: Config) -> Iterator[dict[str, Any]]:
    """Yields other rules, with entries of the model's scaling and usual ones."""
    for other in ROPE_TYPES:
        entries = scaling_parameters(other)
        # The effect of "dynamic" on the rates is only another base.
        if other in (own["rope_type"], "dynamic") or any(
            each.annotation == Sequence[float] for each in entries.values()
        ):
            continue
        wanted = {
            name: (float(own[name]),) if own.get(name) is not None else _USUAL[name]
            for name, each in entries.items()
            if name in _USUAL
            and (own.get(name) is not None or each.default is inspect.Parameter.empty or name in _TOLD)
        }
        for values in itertools.product(*wanted.values()):
            yield {"rope_type": other, **dict(zip(wanted, values, strict=True))}


def _usual_numbers(own: Config) -> Iterator[dict[str, Any]]:
    """Yields a scaling with each of its numbers multiplied by powers of two, if the artifact shows no rates."""
    for name, value in _numbers(own).items():
        if value:
            yield from ({**own, name: value * 2.0**power} for power in (1, -1, 2, -2, 3, -3, 4, -4))


def rounded_rates(own: Rates | None) -> Iterator[Edit]:
    """Yields a rotary layer of one axis whose rates are rounded to short floats."""
    if own is None or own.axes.any() or not (own.rates > 0).all():
        return
    for dtype in ("bfloat16", "float16"):
        with np.errstate(all="ignore"):
            rates = own.rates.astype(np.float32).astype(as_dtype(dtype)).astype(np.float64)
        if (rates > 0).all():
            scaling = RopeScaling(1.0 / rates, own.radius).parameters()
            edit = other_value("rates", "float32", dtype, {"scaling": scaling}, Cause.ROUNDED_RATES)
            yield replace(edit, description=f"with rates rounded to {dtype}")


def any_rates(fault: LayerFault) -> Edits:
    """Yields a rotary layer of one axis with usual bases and rules together, then with the artifact's own rates."""
    layer, shown = fault.call.layer, shown_rates(fault)
    config: Config = layer.get_config() if shown is not None else {}
    if shown is None or shown.rates is None or "scaling" not in config or not (shown.rates.rates > 0).all():
        return
    own = dict(config["scaling"] or {"rope_type": "default"})
    others = [base for base in _BASES if base != config["base"]]
    for base, rule, factor in itertools.product(others, _other_rules(own), _FACTORS):
        scaling = {**rule, "factor": factor} if "factor" in rule else rule
        if distance_of(layer, shown, {**config, "base": base, "scaling": scaling}) < FITS:
            yield _with_scaling(own, scaling, bases=(config["base"], base))
    scaling = RopeScaling(1.0 / shown.rates.rates, shown.rates.radius).parameters()
    moved = np.flatnonzero(np.abs(shown.rates.rates / shown.own.rates - 1) > FITS)[:_MOST_SHOWN]
    model, artifact = (tuple(float(f"{rate:.5g}") for rate in each.rates[moved]) for each in (shown.own, shown.rates))
    note = f" in pairs {', '.join(map(str, moved))}"
    yield other_value("rates", model, artifact, {"scaling": scaling}, Cause.attribute("rates"), note)
