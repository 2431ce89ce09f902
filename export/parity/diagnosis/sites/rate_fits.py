"""The rates that an artifact shows of a position layer, and numbers of the layer that fit them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from keras_pe.export.parity.diagnosis.inferred_rotations import Rates, Turns, rates_of, turns_of, uniform_rates
from keras_pe.export.parity.diagnosis.layer_call import LayerFault

Config = Mapping[str, Any]

FITS = 2e-3  # largest error of rates to try: radians at the farthest position, plus the relative error of the radius
_SPAN = 4.0  # powers of ten on either side of a number, between which another number is sought
_STEPS = 161  # initial steps between these ends
_ZOOMS = 6  # refinements, each to a tenth of the step before
_POWERS = [2.0**power for power in range(-6, 24)]
_NICE = [digit * 10.0**power for power in range(-5, 8) for digit in (1.0, 2.0, 5.0, 1.5, 2.5, 3.0, 4.0, 6.0, 8.0)]


class ShownRates(NamedTuple):
    """The artifact's rates of a layer, as far as its output shows them.

    Attributes:
        turns: The points.
        own: The rates of the layer's configuration.
        rates: The artifact's rates, if its pairs rotate uniformly by one sequence of positions; else None.
    """

    turns: Turns
    own: Rates
    rates: Rates | None

    def distance(self, rates: Rates | None) -> float:
        """Returns the distance of rates from the artifact's, in radians at the farthest position."""
        if rates is None or len(rates.rates) != self.turns.points.shape[-1]:
            return np.inf
        if self.rates is None:
            return rates.distance(self.turns)
        farthest = min(np.abs(self.turns.positions[0]).max(initial=1.0), 1e3)
        away = np.abs(rates.rates - self.rates.rates).max(initial=0.0) * farthest
        return float(away + abs(rates.radius / self.rates.radius - 1))


def shown_rates(fault: LayerFault) -> ShownRates | None:
    """Returns the artifact's rates of a layer, as far as its output shows them; None if it does not."""
    turns, own = turns_of(fault, fault.actual), own_rates(fault.call.layer)
    return None if turns is None or own is None else ShownRates(turns, own, uniform_rates(turns))


def own_rates(layer: Any) -> Rates | None:
    """Returns the rates of a layer; None for a layer without rates, or with rates that depend on the length."""
    try:
        return rates_of(layer, layer.get_config())
    except ValueError:
        return None


def distance_of(layer: Any, shown: ShownRates, config: Config) -> float:
    """Returns the distance of a configuration's rates from the artifact's; infinity if it is not valid."""
    try:
        with np.errstate(all="ignore"):
            distance = shown.distance(rates_of(layer, config))
    except (ValueError, ZeroDivisionError, OverflowError):  # the value is out of the argument's range
        return float("inf")
    return distance if np.isfinite(distance) else float("inf")


def by_digits(
    numbers: Mapping[str, float], distance: Callable[[str, float], float]
) -> Iterator[tuple[str, float, str]]:
    """Yields the name, the fitted value and the text of alternatives for each number that fits; few digits first."""
    fits = [(name, value) for name, own in numbers.items() for value in fit_number(partial(distance, name), own)]
    fits.sort(
        key=lambda fit: (abs(fit[1]) < 1 <= abs(numbers[fit[0]]) and fit[1] != 0, len(f"{fit[1]:.6g}".strip("0.")))
    )
    for name, value in fits:
        others = dict.fromkeys(f"{other}={fit:.6g}" for other, fit in reversed(fits) if other != name)
        yield name, value, f" (or {' or '.join(others)})" if others else ""


def fit_number(distance: Callable[[float], float], value: float) -> list[float]:
    """Returns the number that fits best in place of another, with few digits; empty unless it fits well."""
    middle, step = float(np.log(abs(value) or 1.0)), 2 * _SPAN * float(np.log(10.0)) / (_STEPS - 1)
    grid = np.exp(middle + step * (np.arange(_STEPS) - _STEPS // 2)).tolist()
    best = min([*_POWERS, *_NICE, *grid, 0.0], key=distance)
    for _ in range(_ZOOMS):
        near = best * np.exp(step * np.linspace(-1.0, 1.0, 21))
        best, step = min([best, *near.tolist()], key=distance), step / 10
    least = distance(best)
    if not least < FITS or best == value:
        return []
    as_good = max(1.5 * least, 1e-5)
    digits = [float(f"{best:.{count}g}") for count in range(1, 7)]
    for written in (_POWERS, (*_NICE, 0.0), digits):
        nearest = sorted(written, key=lambda each: abs(float(np.log((each or 1e-9) / (value or 1e-9)))))
        found = [each for each in nearest if each != value and distance(each) <= as_good]
        if found:
            return found[:1]
    return [best]
