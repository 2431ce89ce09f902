"""A runtime's own optimization that changes what a sound file returns: found by leaving them out in turn."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.parity.diagnosis.probe import FAILURES, Probe
from keras_pe.export.results import Finding
from keras_pe.export.runtimes.optimizations import RULES, RULES_TOGETHER, applied_optimizations
from keras_pe.export.runtimes.worker import Worker

_TIMEOUT = 120.0  # seconds for one session


def graph_optimization(probe: Probe) -> Iterator[Finding]:
    """A level of ONNX Runtime that differs where the same file without optimizations agrees."""
    failing, spec = probe.failing(), probe.runner.spec
    if not failing or spec.family != "onnxruntime" or spec.options.get("level", "disabled") == "disabled":
        return
    path, expectation = Path(probe.result.artifact), failing[0][1]

    def agrees(**options: Any) -> bool:
        with Worker(replace(spec, options={**spec.options, **options}), _TIMEOUT) as worker:
            try:
                worker.load(path)
                worker.names = probe.runner.names
                answer = worker.run(expectation.case.inputs)
            except FAILURES:
                return False
        expected = expectation.in_float32 or expectation.outputs or {}
        return all(each.passed for each in compare_outputs(expected, answer, expectation.truth))

    if not agrees(level="disabled"):
        return
    guilty = [name for name in applied_optimizations(path, _TIMEOUT) if agrees(disabled_optimizers=[name])]
    if any(name.endswith(RULES_TOGETHER) for name in guilty):
        guilty = [name for name in RULES if agrees(disabled_optimizers=[name])] or guilty
    names = " or ".join(map(repr, guilty)) or "several of them that do it together"
    text = f"The file is sound: without optimizations it agrees, and at this level without {names} it does, too."
    yield Finding("graph optimization", text)
