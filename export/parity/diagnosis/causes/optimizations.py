"""A runtime's own optimization that changes what a sound file returns."""

from collections.abc import Iterator
from pathlib import Path

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.optimization_search import guilty_optimizations
from keras_pe.export.parity.diagnosis.probe import FAILURES, Probe
from keras_pe.export.results import Cause, Finding
from keras_pe.export.runtimes.worker import Worker

_TIMEOUT = 120.0  # seconds for one session


def graph_optimization(probe: Probe) -> Iterator[Finding]:
    """A level of ONNX Runtime that differs where the same file without optimizations agrees."""
    failing, spec = probe.failing(), probe.runner.spec
    if not failing or spec.family != "onnxruntime" or spec.options.get("level", "disabled") == "disabled":
        return
    path, expectation = Path(probe.result.artifact), failing[0][1]
    expected = expectation.in_float32 or expectation.outputs or {}

    def agrees(worker: Worker) -> bool:
        probe.budget.check()
        try:
            worker.load(path)
            worker.names = probe.runner.names
            answer = worker.run(expectation.case.inputs)
        except FAILURES:
            return False
        return all(each.passed for each in compare_outputs(expected, answer, expectation.truth))

    names = guilty_optimizations(path, spec, agrees, _TIMEOUT)
    if names is not None:
        text = f"The file is sound: without optimizations it agrees, and at this level without {names} it does, too."
        yield Finding(Cause.GRAPH_OPTIMIZATION, text)


def changed_by_runtime(probe: Probe) -> Iterator[Finding]:
    """A file that is right inside, in a runtime whose optimizations cannot be turned off one by one."""
    if probe.is_sound_inside:
        text = "The same file returns what Keras returns without the runtime's optimizations: the runtime changes it."
        yield Finding(Cause.GRAPH_OPTIMIZATION, text)
