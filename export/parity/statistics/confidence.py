"""An exact upper bound on a rate from a sample of rows, and its sentence."""

import math

import numpy as np

from keras_pe.argument_errors import ArgValueError


def upper_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """Returns the rate that the true one is below, with this confidence: Clopper and Pearson's one-sided bound.

    It is the rate at which so few events, or fewer, would be seen in only `1 - confidence` of all samples. Without an
    event in n trials it is about 3 / n ("the rule of three"). The rows must be drawn independently from what the model
    will meet.

    Args:
        events: How often it happened.
        trials: How often it could have.
        confidence: Between 0 and 1.

    Raises:
        ValueError: Unless `0 <= events <= trials` and `0 < confidence < 1`.

    Source:
        C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
        binomial", Biometrika 26 (1934), 404-413.
    """
    if not 0 <= events <= trials:
        raise ArgValueError("events", f"must be from 0 to `trials`. Received: events={events}, trials={trials}.")
    if not 0 < confidence < 1:
        raise ArgValueError("confidence", f"must be between 0 and 1. Received: confidence={confidence}.")
    if events == trials:
        return 1.0
    if events == 0:
        return -math.expm1(math.log1p(-confidence) / trials)
    low, high = events / trials, 1.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(events, trials, middle) > 1 - confidence else (low, middle)
    return high


def rate(value: float) -> str:
    """Returns a share as a count in a round number, such as "3 in a million": two digits, rounded up."""
    for size, name in ((100, "a hundred"), (10_000, "10,000"), (1_000_000, "a million"), (10**9, "a billion")):
        step = 10.0 ** (math.floor(math.log10(value * size)) - 1)
        count = math.ceil(value * size / step - 1e-9) * step
        if count > 0.999:  # one, and what the product makes of it
            return f"{count:g} in {name}"
    return f"{value:.1e}"


def _at_most(events: int, trials: int, rate: float) -> float:
    """Returns the probability of at most so many events, 0 < rate < 1."""
    counts = np.arange(1, events + 1)
    steps = np.log(trials - counts + 1) - np.log(counts) + math.log(rate) - math.log1p(-rate)
    logs = np.concatenate([[0.0], np.cumsum(steps)]) + trials * math.log1p(-rate)
    top = logs.max()
    return float(np.exp(top) * np.exp(logs - top).sum())
