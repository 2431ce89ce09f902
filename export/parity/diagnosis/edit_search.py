"""Searches the smallest edit of a call that gives the artifact's numbers in every case, within a time limit."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.call_difference import CallDifference, first_steps
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.edits import Edit, NumericEdit, Site
from keras_pe.export.parity.diagnosis.explanation import Explanation
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, shown, trial
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.parity.diagnosis.relations.number_fits import fit_numbers
from keras_pe.export.parity.diagnosis.sites import Seen, sites_seen
from keras_pe.export.progress import OutOfTimeError
from keras_pe.export.results import Array, Cause, Finding, OtherValue

_MOVED = 1e-3  # least relative change of a number; smaller changes count as none
_TELLING = 4  # least number of wrong values over all cases, since chance explains fewer
_SPREAD = 4e-3  # largest relative spread of equal numbers, since each is fitted to float32 values
_MANY_SIZES = 3  # least number of different sizes that show a number to depend on one of them


def explain(
    probe: Probe,
    fault: LayerFault,
    sites: Sequence[Site] | None = None,
    begun: Sequence[LayerFault] = (),
    beside: Iterable[LayerFault] = (),
) -> Explanation | None:
    """Returns the edit of a call that gives the artifact's numbers: the first exact edit, or else the nearest.

    An edit explains nothing if it fails in another case, or if there are too few wrong values. The first exact edit
    that also explains the outputs beside this one precedes one that does not.

    Args:
        probe: The runtime, with the remaining time and the record of failed attempts.
        fault: The call and its output.
        sites: The sites to try, in this order; the default is the sites that the layer's output shows.
        begun: The fault of a part of the call, which takes less time, for each tensor that may have its result. An edit
            must explain one of them first.
        beside: Other wrong outputs of the layer, which the same edit may explain.
    """
    sites = sites_seen(Seen.LAYER) if sites is None else sites
    difference = CallDifference(fault.amid(sound_weights=probe.sound_weights, constants=probe.constants))
    seen = difference.seen
    if not difference.distance > 0 or (seen.actual is not None and seen.actual.shape != seen.expected.shape):
        return None
    search = _Search(probe, difference, list(map(CallDifference, beside)))
    for number, site in enumerate(sites):
        try:
            if search.try_all(site, begun):
                break
        except OutOfTimeError:
            names = (each.__name__.replace("_", " ") for each in sites[number:])
            probe.not_reached.append(f"{', '.join(names)} of {fault.layer!r}")
            break
    return search.result()


class _Search:
    """The search among the edits of one call, with the best edit so far.

    Args:
        probe: The runtime, with the remaining time and the record of failed attempts.
        difference: The difference that an edit must explain.
        beside: Differences that the same edit may explain.
    """

    def __init__(self, probe: Probe, difference: CallDifference, beside: Sequence[CallDifference]) -> None:
        self.probe, self.first, self.beside = probe, difference, beside
        self.best: tuple[float, Edit] | None = None
        self.alone: tuple[float, Edit] | None = None  # the first exact edit that does not explain those beside
        self.has_run = False
        self.refused: Exception | None = None
        found = map(CallDifference, probe.others(difference.fault))
        self._others: Iterator[CallDifference] = (each for each in found if each.actual is not None)

    def others(self) -> Iterator[CallDifference]:
        """Yields the difference in each other case, the smallest first, on demand, since long cases take time."""
        self._others, others = itertools.tee(self._others)
        return others

    def try_all(self, site: Site, begun: Sequence[LayerFault]) -> bool:
        """Tries the edits of a site, and returns whether one is exact."""
        self.probe.budget.tell(f"{site.__name__.replace('_', ' ')} of {self.first.fault.layer!r}")
        parts = list(map(CallDifference, first_steps(self.first.fault) if site in sites_seen(Seen.STEPS) else begun))
        # The first steps of a recurrence may be right.
        is_begun = bool(parts) and parts[0].distance > parts[0].tolerance
        try:
            for edit in site(self.first.fault):
                if not is_begun or self._begins(edit, parts):
                    edits = self._fit(edit) if isinstance(edit, NumericEdit) else (edit,)
                    if any(map(self._try, edits)):
                        return True
        except OutOfTimeError:
            raise
        except Exception as error:  # a layer may raise any error for its configuration
            self.probe.note(f"changes of the layer {self.first.fault.layer!r}", error)
        return False

    def result(self) -> Explanation | None:
        is_of_all = self.alone is None or (self.best is not None and self.best[0] <= self.first.tolerance)
        best = self.best if is_of_all else self.alone
        if best is None:
            if self.refused is not None and not self.has_run:
                self.probe.note(f"changes of the layer {self.first.fault.layer!r}", self.refused)
            return None
        left, edit = best
        seen, fault = self.first.seen, self.first.fault
        text = str(edit) + (f" The output of {seen.layer!r} shows the change." if fault.through else "")
        assert self.first.actual is not None
        was = f"{self.first.distance:.1e}"
        if self.first.actual.shape != seen.expected.shape:
            was = f"another shape ({self.first.actual.shape}, not {fault.expected.shape})"
        evidence = f"{text} The difference falls from {was} to {left:.1e}."
        follows = () if edit.layer is None else (fault.layer,)
        finding = Finding(edit.cause, evidence, edit.layer or fault.layer, absent=follows, parameters=edit.parameters)
        lines = frozenset((place.file, place.line) for place in edit.places)
        if len(lines) == 1:
            finding = replace(finding, **edit.places[0].fields)
        elif edit.places:
            finding = replace(finding, file=edit.places[0].file)
        return Explanation(finding, left <= self.first.tolerance, edit.is_output, is_of_all, lines)

    def _begins(self, edit: Edit | NumericEdit, parts: Sequence[CallDifference]) -> bool:
        """Whether an edit explains a part of the call, by one of the tensors that may have it."""
        first = parts[0]
        edits = [edit] if isinstance(edit, Edit) else [edit.edit(numbers) for numbers in self._solve(edit, first)]
        results = [each for each in (self._result_of(edit, first) for edit in edits) if each is not None]
        is_near = any(first.left_by(each) <= first.allowed for each in results)
        return is_near or any(part.left_by(each) <= part.tolerance for each in results for part in parts)

    def _try(self, edit: Edit) -> bool:
        left = self._left(edit, self.first)
        if left > self.first.allowed or (self.best is not None and left >= self.best[0]):
            return False
        is_exact, is_of_all = left <= self.first.tolerance, self._explains(edit, self.beside)
        if is_of_all and self._holds(edit, (self.first, *self.beside)):
            self.best = (left, edit)
            return is_exact
        if is_exact and not is_of_all and self.alone is None and self._holds(edit, [self.first]):
            self.alone = (left, edit)
        return False

    def _explains(self, edit: Edit, differences: Iterable[CallDifference]) -> bool:
        return all(self._left(edit, each, may_stay=True) <= each.allowed for each in differences)

    def _holds(self, edit: Edit, explained: Iterable[CallDifference]) -> bool:
        """Whether an edit explains every other case, and enough values in these and in what it explains already."""
        telling = sum(each.values_out for each in explained)
        for each in self.others():
            if self._explains(edit, [each]):
                telling += each.values_out
            elif not self._is_noise(edit, each):
                return False
        return telling >= _TELLING

    def _is_noise(self, edit: Edit, difference: CallDifference) -> bool:
        """Whether other inputs, as rounding gives them, change the result of an edit by as much as the edit leaves."""
        own = self._result_of(edit, difference, may_stay=True)
        if own is None:
            return False
        near = [self._result_of(edit, each, may_stay=True) for each in difference.near()]
        return difference.is_noise(own, [each for each in near if each is not None])

    def _left(self, edit: Edit, difference: CallDifference, *, may_stay: bool = False) -> float:
        """Returns the difference after an edit; infinity if the layer does not accept the edit.

        Args:
            edit: The edit.
            difference: The case.
            may_stay: Whether the edit may change nothing, which explains a correct case.
        """
        result = self._result_of(edit, difference, may_stay=may_stay)
        return np.inf if result is None else difference.left_by(result)

    def _result_of(self, edit: Edit, difference: CallDifference, *, may_stay: bool = False) -> Array | None:
        """Returns the result of an edit; None if the layer does not accept the edit, or if it changes nothing."""
        self.probe.budget.check()
        try:
            with trial():
                result = shown(difference.fault, edit.compute(difference.fault))
        except Exception as error:  # a layer may raise any error for an edit that it does not accept
            self.refused = self.refused or error
            return None
        if result is None:
            return None
        self.has_run = self.has_run or not edit.is_output
        is_same = distance(result, difference.seen.expected) <= difference.tolerance
        return None if is_same and not may_stay else result

    def _fit(self, edit: NumericEdit) -> Iterator[Edit]:
        """Yields the edit with numbers that fit the first case, or else with numbers that depend on a size."""
        fits = list(self._solve(edit, self.first))
        yield from map(edit.edit, fits)
        if len(edit.start) == 1 and fits:
            fitting = edit.edit(fits[-1])
            if self._left(fitting, self.first) <= self.first.allowed and not self._holds(fitting, [self.first]):
                yield from self._by_size(edit)

    def _by_size(self, edit: NumericEdit) -> Iterator[Edit]:
        """Yields the edit with a number proportional to a dimension or its inverse, whose size the artifact fixes."""
        (name,) = edit.start
        fits = [
            (each, [found[name] for found in self._solve(edit, each)][-1:]) for each in (self.first, *self.others())
        ]
        known = [(each.fault.around.sizes, numbers[0]) for each, numbers in fits if numbers]
        for dimension in self.first.fault.around.sizes:
            if len({sizes[dimension] for sizes, _ in known}) < _MANY_SIZES:
                continue
            for power in (1, -1):
                rates = [number / sizes[dimension] ** power for sizes, number in known]
                if np.ptp(rates) <= _SPREAD * abs(np.mean(rates)):
                    size = float(np.mean(rates)) ** -power
                    description = edit.describe({name: " / ".join((dimension, f"{size:.6g}")[::power])})
                    compute = partial(_with_share, edit, name, dimension, size, power)
                    values = (OtherValue(dimension, None, size),)
                    yield Edit(Cause.FROZEN_LENGTH, description, compute, edit.is_output, parameters=values)

    def _solve(self, edit: NumericEdit, difference: CallDifference) -> Iterator[dict[str, float]]:
        """Yields the fitted numbers that have changed, first rounded to two digits, as a person would write them."""
        names, seen = list(edit.start), difference.seen

        def compute(*numbers: float) -> Array:
            self.probe.budget.check()
            result = shown(difference.fault, edit.compute(difference.fault, dict(zip(names, numbers, strict=True))))
            assert result is not None
            return result

        try:
            with trial():
                if seen.actual is None:
                    return
                values = fit_numbers(compute, tuple(edit.start.values()), seen.expected, seen.actual)
        except OutOfTimeError:
            raise
        except Exception:  # a layer may raise any error for numbers that it does not accept
            return
        for shorten in (lambda value: float(f"{value:.2g}"), float):
            moved = {
                name: shorten(value)
                for (name, was), value in zip(edit.start.items(), values or (), strict=False)
                if abs(value - was) > _MOVED * max(abs(value), abs(was))
            }
            if moved:
                yield moved


def _with_share(
    edit: NumericEdit, name: str, dimension: str, size: float, power: int, fault: LayerFault
) -> Array | None:
    """Returns the output of an edit whose number is the ratio of two sizes."""
    return edit.compute(fault, {name: (fault.around.sizes[dimension] / size) ** power})
