"""Other arguments that a position layer of this package may have in an artifact, and numbers that fit its rates."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_attributes
from keras_pe.export.parity.diagnosis.sites.attributes import cause_of
from keras_pe.export.parity.diagnosis.turns import Rates, Turns, measured, rates_of, turns_of
from keras_pe.export.results import Cause, OtherValue

Config = Mapping[str, Any]

FITS = 2e-3  # radians at the farthest position, and the part of the radius: rates nearer than that are tried
_SPAN = 4.0  # powers of ten to either side of a number, between which another one is looked for
_STEPS = 161  # between these ends at first
_ZOOMS = 6  # each to a tenth of the step before
_POWERS = [2.0**power for power in range(-6, 24)]
_NICE = [digit * 10.0**power for power in range(-5, 8) for digit in (1.0, 2.0, 5.0, 1.5, 2.5, 3.0, 4.0, 6.0, 8.0)]


@dataclass(frozen=True)
class Hypothesis:
    """Other arguments of a layer that an artifact may have been made with.

    Attributes:
        change: The arguments by name.
        parameters: Those that differ, as they are reported.
        cause: What that is called.
        said: What is changed, as in `Edit`.
    """

    change: Config
    parameters: tuple[OtherValue, ...]
    cause: Cause
    said: str

    @property
    def edit(self) -> Edit:
        """The edit that makes the layer anew."""
        compute = partial(with_attributes, change=self.change)
        return Edit(self.cause, self.said, compute, parameters=self.parameters)


class ShownRates(NamedTuple):
    """What an artifact shows of the rates of a layer.

    Attributes:
        turns: The points.
        own: The rates that the layer is configured with.
        rates: Those of the artifact, if its pairs turn evenly by one sequence of positions.
    """

    turns: Turns
    own: Rates
    rates: Rates | None

    def distance(self, rates: Rates | None) -> float:
        """Returns how far rates are from those of the artifact, in radians at the farthest position."""
        if rates is None or len(rates.rates) != self.turns.points.shape[-1]:
            return np.inf
        if self.rates is None:
            return rates.distance(self.turns)
        farthest = min(np.abs(self.turns.positions[0]).max(initial=1.0), 1e3)
        away = np.abs(rates.rates - self.rates.rates).max(initial=0.0) * farthest
        return float(away + abs(rates.radius / self.rates.radius - 1))


def shown_rates(fault: LayerFault) -> ShownRates | None:
    """Returns what the artifact shows of the rates of a layer; None if that is nothing."""
    turns, own = turns_of(fault, fault.actual), own_rates(fault.call.layer)
    return None if turns is None or own is None else ShownRates(turns, own, measured(turns))


def own_rates(layer: Any) -> Rates | None:
    """Returns the rates of a layer; None for a layer without any, or if each call chooses them by its length."""
    try:
        return rates_of(layer, layer.get_config())
    except ValueError:
        return None


def of_one(name: str, model: Any, artifact: Any) -> Hypothesis:
    said = f"with {name}={artifact!r} instead of {model!r}"
    return Hypothesis({name: artifact}, (OtherValue(name, plain(model), plain(artifact)),), cause_of([name]), said)


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def of_several(model: Config, artifact: Config) -> Hypothesis:
    said = ", ".join(f"{name}={value!r} instead of {model[name]!r}" for name, value in artifact.items())
    parameters = tuple(OtherValue(name, plain(model[name]), plain(value)) for name, value in artifact.items())
    return Hypothesis(artifact, parameters, cause_of(list(artifact)), f"with {said}")


def distance_of(layer: Any, shown: ShownRates, config: Config) -> float:
    """Returns how far the rates of a configuration are from those of the artifact; infinity if it is not valid."""
    try:
        with np.errstate(all="ignore"):
            distance = shown.distance(rates_of(layer, config))
    except (ValueError, ZeroDivisionError, OverflowError):  # beyond what the number may be
        return float("inf")
    return distance if np.isfinite(distance) else float("inf")


def by_digits(
    numbers: Mapping[str, float], distance: Callable[[str, float], float]
) -> Iterator[tuple[str, float, str]]:
    """Yields each number that fits in the place of its own, those of the fewest digits first, and what fits as well."""
    fits = [(name, value) for name, own in numbers.items() for value in fitted(partial(distance, name), own)]
    fits.sort(
        key=lambda fit: (abs(fit[1]) < 1 <= abs(numbers[fit[0]]) and fit[1] != 0, len(f"{fit[1]:.6g}".strip("0.")))
    )
    for name, value in fits:
        others = dict.fromkeys(f"{other}={fit:.6g}" for other, fit in reversed(fits) if other != name)
        yield name, value, f" (or {' or '.join(others)})" if others else ""


def fitted(distance: Callable[[float], float], value: float) -> list[float]:
    """Returns the number that fits best in the place of another, as one would write it; none unless it fits well."""
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
