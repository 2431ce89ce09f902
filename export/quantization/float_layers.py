"""Searches the layers to leave in float: the fewest bytes that reach a goal, within a budget of trials."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from keras_pe.export.parity.statistics.confidence import upper_bound
from keras_pe.export.quantization.quantization_records import Goal, LayerEffect, Score, Trial

FIRST_RISK, LATER_RISK = 0.04, 0.01
"""Risk that a bound of the first file on the held-out rows is wrong, and of all later files together: 5 % in all."""

MOST_TRIALS = 15
"""The most files of one search."""

_NEGLIGIBLE = 1e-4
"""A layer with a smaller share of the squared effects comes after all others, however few bytes it saves."""

_LEAST_SAVED = 1e-5
"""The least share of the bytes by which an effect is divided. Below it the effect alone ranks a layer."""

_LEAST_SAVED_AGAIN = 0.05
"""The least share of the bytes for which the search quantizes a layer again: each such choice makes it optimistic."""

Floats = tuple[str, ...]


def risk(look: int) -> float:
    """Returns the risk of the bound of a file, by the number of files on the held-out rows with it. The sum is 0.05."""
    return FIRST_RISK if look == 1 else LATER_RISK / (look * (look - 1))


def least_rows(share: float) -> int:
    """Returns the least number of held-out rows that can prove a share of unchanged rows."""
    return math.ceil(math.log(FIRST_RISK) / math.log(share))


def rank(effects: Sequence[LayerEffect]) -> tuple[LayerEffect, ...]:
    """Returns the layers in the order in which they return to float: the largest squared effect per byte first."""
    alone = sum(each.effect**2 for each in effects) or 1.0
    # A tensor between layers is rounded for each of them: alone, each has its effect, and together none loses it.
    raw = [each.effect**2 / alone + each.joint for each in effects]
    shared = [replace(each, share=part / (sum(raw) or 1.0)) for each, part in zip(effects, raw, strict=True)]
    return tuple(
        sorted(shared, key=lambda each: (each.share < _NEGLIGIBLE, -each.share / max(each.saved, _LEAST_SAVED)))
    )


def judge(goal: Goal, trial: Trial, float_bytes: int, look: int) -> Trial:
    """Returns a trial with its bound and its verdict, after its file ran on the held-out rows.

    Args:
        goal: The goal.
        trial: The trial with its score on the held-out rows.
        float_bytes: The size of the float file.
        look: Number of files that ran on the held-out rows, with this one.
    """
    assert trial.held_out is not None
    chance = risk(look)
    bound = upper_bound(trial.held_out.changed, trial.held_out.rows, 1 - chance) if trial.held_out.rows else 1.0
    score = replace(trial.held_out, bound=bound, confidence=1 - chance)
    holds = {
        "decisions": bound <= 1 - goal.value + 1e-12,
        "error": score.error <= goal.value,
        "size": trial.nbytes <= goal.value * float_bytes,
    }[goal.kind]
    return replace(trial, held_out=score, holds=holds and not score.failure)


def most_changed(goal: Goal, rows: int) -> int:
    """Returns how many of the held-out rows may change in the first file; -1 if even one is too many."""
    low, high = -1, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if upper_bound(middle, rows, 1 - risk(1)) <= 1 - goal.value else (low, middle)
    return low


def promising_rate(goal: Goal, rows: int) -> float:
    """Returns the rate of changed rows at which four of five samples of held-out rows prove the goal."""
    most = most_changed(goal, rows)
    return upper_bound(most, rows, 0.2) if most >= 0 else -1.0


def is_promising(goal: Goal, trial: Trial, float_bytes: int, rate: float) -> bool:
    """Whether a file reaches the goal as far as the calibration rows show.

    Args:
        goal: The goal.
        trial: The trial with its score on the calibration rows.
        float_bytes: The size of the float file.
        rate: The largest promising rate of changed rows.
    """
    score = trial.calibration
    reaches = {
        "decisions": score.predicted <= rate,
        "error": score.error <= goal.value,
        "size": trial.nbytes <= goal.value * float_bytes,
    }
    return reaches[goal.kind] and not score.failure


class Search:
    """The trials of one search.

    Attributes:
        order: The layers in the order in which they return to float.
        trials: All trials in order, each with its score on the held-out rows if it has one.
    """

    def __init__(
        self,
        order: Sequence[LayerEffect],
        goal: Goal,
        float_bytes: int,
        budget: int,
        rows: int,
        write: Callable[[Floats], Trial],
        prove: Callable[[Trial], Score],
    ) -> None:
        """Prepares a search.

        Args:
            order: The layers in the order in which they return to float.
            goal: The goal.
            float_bytes: The size of the float file.
            budget: The most trials.
            rows: The number of held-out rows.
            write: Writes the file with some layers in float, and measures it on the calibration rows.
            prove: Measures the file of a trial on the held-out rows.
        """
        self.order, self._goal, self._float_bytes, self._budget, self._rows = order, goal, float_bytes, budget, rows
        self._rate = promising_rate(goal, rows) if goal.kind == "decisions" else 0.0
        self._write, self._prove = write, prove
        self._trials: dict[Floats, Trial] = {}
        self._looks = 0

    @property
    def trials(self) -> tuple[Trial, ...]:
        return tuple(self._trials.values())

    def run(self) -> Trial:
        """Returns the trial that reaches the goal with the fewest bytes, or the nearest trial if none reaches it."""
        if self._goal.kind == "size":
            candidate = self._bisect(takes_longest=True)
            return self._confirm(candidate) if candidate else self._nearest()
        candidate = self._bisect(takes_longest=False)
        while candidate is not None:
            length = len(candidate.layers_in_float)
            # Once the held-out rows refute a file, the calibration rows are too kind to drop layers by.
            proven = self._confirm(candidate if self._looks else self._without_needless(candidate))
            if proven.holds:
                return proven
            middle = (length + 1 + len(self.order)) // 2
            has_next = length < middle < len(self.order) and self._is_provable()
            candidate = self._try(self._prefix(middle)) if has_next else None
        return self._nearest()

    def _is_provable(self) -> bool:
        """Whether the held-out rows can prove one more file, which needs a bound with a higher confidence."""
        least = upper_bound(0, self._rows, 1 - risk(self._looks + 1))
        return self._goal.kind != "decisions" or least <= 1 - self._goal.value

    def _try(self, floats: Floats) -> Trial | None:
        """Returns the trial of some layers in float; None if the budget is spent."""
        if floats not in self._trials:
            if len(self._trials) >= self._budget:
                return None
            self._trials[floats] = self._write(floats)
        return self._trials[floats]

    def _prefix(self, length: int) -> Floats:
        return tuple(each.layer for each in self.order[:length])

    def _bisect(self, *, takes_longest: bool) -> Trial | None:
        """Returns the trial of the longest promising prefix, or of the shortest one; None if no prefix is promising."""
        low, high, found = -1, max(len(self.order), 1), None
        while high - low > 1 and (trial := self._try(self._prefix(0 if low < 0 else (low + high) // 2))):
            length, is_promising = len(trial.layers_in_float), self._is_promising(trial)
            found = trial if is_promising else found
            low, high = (length, high) if is_promising == takes_longest else (low, length)
        return found

    def _is_promising(self, trial: Trial) -> bool:
        return is_promising(self._goal, trial, self._float_bytes, self._rate)

    def _without_needless(self, candidate: Trial) -> Trial:
        """Returns a candidate with fewer layers in float: each is quantized again, as long as the goal seems reached.

        The layers that cost most bytes come first. Half of the rest of the budget stays for other candidates.
        """
        saved = {each.layer: each.saved for each in self.order if each.saved >= _LEAST_SAVED_AGAIN}
        tries = (self._budget - len(self._trials)) // 2
        for layer in sorted(saved.keys() & candidate.layers_in_float, key=lambda each: (-saved[each], each))[:tries]:
            trial = self._try(tuple(each for each in candidate.layers_in_float if each != layer))
            if trial is not None and self._is_promising(trial):
                candidate = trial
        return candidate

    def _confirm(self, trial: Trial) -> Trial:
        """Returns a trial after its file ran on the held-out rows."""
        if trial.held_out is None:
            self._looks += 1
            trial = replace(trial, held_out=self._prove(trial))
            trial = judge(self._goal, trial, self._float_bytes, self._looks)
            self._trials[trial.layers_in_float] = trial
        return trial

    def _nearest(self) -> Trial:
        """Returns the trial that comes nearest to the goal, with its score on the held-out rows."""

        def distance(trial: Trial) -> tuple[float, ...]:
            score = trial.calibration
            if self._goal.kind == "size":
                return (trial.nbytes,)
            figures = (score.predicted, score.error)
            return (*(figures if self._goal.kind == "decisions" else figures[::-1]), trial.nbytes)

        return self._confirm(min(self._trials.values(), key=distance))
