"""Causes that the names and types of the outputs tell."""

from collections.abc import Iterator
from pathlib import Path

from keras_pe.export.comparison.matching import described_arrays, way_out
from keras_pe.export.parity.diagnosis.probe import Probe, close
from keras_pe.export.results import Cause, Finding, Problem


def missing_and_extra(probe: Probe) -> Iterator[Finding]:
    """An output that is not there, one too many, or one under another name."""
    for _, expectation, answer in probe.failing()[:1]:
        expected = expectation.outputs or {}
        missing = [name for name in expected if name not in answer]
        extra = [name for name in answer if name not in expected]
        for name in missing:
            allowed = 1e-4  # only to recognize it
            twin = next((other for other in extra if close(answer[other], expected[name], allowed)), None)
            if twin is None:
                text = f"The artifact returns {described_arrays(answer)}; the model {described_arrays(expected)}."
                text += f" {way_out(Path(probe.result.artifact))}" if extra else ""
                yield Finding(Cause.MISSING_OUTPUT, text, output=name)
            else:
                extra.remove(twin)
                yield Finding(Cause.RENAMED_OUTPUT, f"Output {twin!r} holds what is called {name!r}.", output=name)
        for name in extra:
            yield Finding(Cause.EXTRA_OUTPUT, f"The model's outputs are {', '.join(expected)}.", output=name)


def other_dtype(probe: Probe) -> Iterator[Finding]:
    """An output of another type."""
    compared = (comparison for case in reversed(probe.result.cases) for comparison in case.comparisons)
    first = {each.output: each for each in compared if each.problem is Problem.DTYPE}
    for comparison in first.values():
        text = f"It has dtype {comparison.actual_dtype} instead of {comparison.dtype}."
        yield Finding(Cause.OTHER_DTYPE, text, output=comparison.output)
