"""Whether what differs from Keras is rounding: told by the error that Keras itself makes, of the same model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Any

import numpy as np

from keras_pe.export.comparison.rounding import MAX_FACTOR, noise_floor
from keras_pe.export.model.rebuild.float64 import float64_allowed, in_float64
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.runtimes.runtime import Array, Arrays
from keras_pe.export.smoke_test.differences import Difference, largest_value, magnitudes
from keras_pe.export.smoke_test.reference import as_function

_LARGEST = 0.05  # of an output's largest value: nothing above this is called rounding, whatever Keras' own error
_SAMPLES = 3  # of Keras' error, besides that for the inputs themselves: in a few numbers it may be small by luck
_ROUNDING = 2.0**-20  # of an input: some roundings of float32, as other orders of a sum make them


class Verdict(Enum):
    """What a difference comes from, the worst first. It is unknown where rounding would move the answer far as well."""

    CONVERSION = auto()
    UNKNOWN = auto()
    ROUNDING = auto()


class RoundingJudge:
    """Tells rounding from faults. The model is made again in float64, with the same weights, when it is first asked.

    A sound artifact and Keras add the same terms, each in its own order: their distances from the true answer are two
    draws of one size, which is the unit of rounding times the model's condition, and no draw is `MAX_FACTOR` times
    the other. A fault of conversion knows nothing of that size: where the model is well-conditioned the allowance is
    some 1e-6, and where it is not, a fault beyond the noise stands out as much.

    Of a model that cannot be made again, or computes in float32 whatever its policy, Keras' own answer stands for the
    true one, and its error is how far the answer moves where the inputs are rounded elsewhere.

    Args:
        layers: The model as it was exported, then every layer in it.
        signature: Its signature.
    """

    def __init__(self, layers: Sequence[Any], signature: Signature) -> None:
        self._model = layers[0]
        self._signature = signature
        self._narrow = as_function(self._model, signature)

    def judge(self, differences: Iterable[Difference], inputs: Arrays, results: Arrays, answers: Arrays) -> Verdict:
        """Returns what the differences between an artifact's results and Keras' answers come from, all of them.

        Args:
            differences: What `find_differences` has found.
            inputs: What both were given.
            results: The artifact's.
            answers: Keras'.
        """
        differences = tuple(differences)
        if not differences:
            return Verdict.ROUNDING
        if not all(each.is_numeric for each in differences):
            return Verdict.CONVERSION
        names = [each.output for each in differences]
        truths = self._truths(inputs, names)
        factor = 1.0 if truths is None else MAX_FACTOR
        allowed = {name: [0.0, 0.0] for name in names}
        verdict = Verdict.CONVERSION
        for answer, truth in self._samples(inputs, answers, truths, names):
            verdicts = set()
            for name in names:
                errors = _own_errors(answer[name], truth[name])
                allowed[name] = [max(most, factor * error) for most, error in zip(allowed[name], errors, strict=True)]
                verdicts |= _verdicts(results[name], (truths or answers)[name], allowed[name])
            verdict = next(
                (each for each in (Verdict.CONVERSION, Verdict.UNKNOWN) if each in verdicts), Verdict.ROUNDING
            )
            if verdict is not Verdict.CONVERSION:  # which no further sample makes it again
                break
        return verdict

    def _samples(
        self, inputs: Arrays, answers: Arrays, truths: Arrays | None, names: Sequence[str]
    ) -> Iterator[tuple[Arrays, Arrays]]:
        """Yields answers of Keras and what they are measured against, for these inputs and others next to them."""
        if truths is not None:
            yield answers, truths
        for seed in range(_SAMPLES):
            nearby = _rounded_elsewhere(inputs, seed)
            answer = _tried(self._narrow, nearby)
            truth = answers if truths is None else self._truths(nearby, names)
            if answer is not None and truth is not None:
                yield answer, truth

    @cached_property
    def _rebuild(self) -> Any:
        try:
            return as_function(in_float64(self._model), self._signature)
        except ValueError:
            return None

    def _truths(self, inputs: Arrays, names: Sequence[str]) -> Arrays | None:
        """Returns the float64 rebuild's answers, None where there are none."""
        with float64_allowed():
            truths = _tried(self._rebuild, inputs) if self._rebuild else None
        if truths is None or any(truths[name].dtype != np.float64 for name in names):
            return None
        return truths


def _tried(call: Callable[[Arrays], Arrays], inputs: Arrays) -> Arrays | None:
    try:
        return call(inputs)
    except Exception:  # whatever the layers raise: of these values, or because they insist on their own precision
        return None


def _own_errors(answer: Array, truth: Array) -> list[float]:
    """Returns Keras' error, of numbers of each magnitude."""
    return [noise_floor(answer[which], truth[which].astype(np.float64)) for which in magnitudes(truth)]


def _verdicts(result: Array, truth: Array, allowed: Sequence[float]) -> set[Verdict]:
    """Returns what the differences of one output come from, of numbers of each magnitude."""
    verdicts = set()
    for which, rounding in zip(magnitudes(truth), allowed, strict=True):
        error = np.abs(result[which].astype(np.float64) - truth[which]).max(initial=0.0)
        most = _LARGEST * largest_value(truth, which)
        if error <= min(rounding, most):
            verdicts.add(Verdict.ROUNDING)
        else:
            verdicts.add(Verdict.UNKNOWN if rounding > most else Verdict.CONVERSION)
    return verdicts


def _rounded_elsewhere(inputs: Arrays, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        name: (array * (1 + _ROUNDING * rng.choice((-1, 1), array.shape))).astype(array.dtype)
        if array.dtype.kind == "f"
        else array
        for name, array in inputs.items()
    }
