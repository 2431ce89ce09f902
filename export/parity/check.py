"""The check: what to run, in which order, and the report of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from keras_pe.export.parity.references.reference import Expectation, KerasReference, Reference
from keras_pe.export.parity.references.sources import Source, choose_cases, locate, locate_artifact, open_reference
from keras_pe.export.parity.results import Array, NotTried, ParityReport, RuntimeResult, TriedInput
from keras_pe.export.parity.verdict.examine import examine
from keras_pe.export.runtimes.in_process import KerasHere
from keras_pe.export.runtimes.registry import default_runtimes, find_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker
from keras_pe.version import __version__

Progress = Callable[[int, int, str], None]


def check_parity(
    model: Any,
    artifacts: Source | Sequence[Source] = (),
    *,
    inputs: Sequence[str | Path | Mapping[str, Array]] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    runtimes: Sequence[str | RuntimeSpec] | None = None,
    input_signature: Any = None,
    seed: int = 0,
    timeout: float = 120.0,
    progress: Progress | None = None,
) -> ParityReport:
    """Runs a model and what was exported from it on the same inputs, and reports where they differ and why.

    Args:
        model: The reference: a built `keras.Model`, the path of a `.keras` file, an artifact (`.onnx`, `.tflite` or a
            SavedModel folder), or an `.npz` file with inputs and the outputs expected of them. Only the first two need
            Keras, and only a SavedModel needs TensorFlow.
        artifacts: What to check, as returned by an export or by path. Without any, the model itself is run compiled.
        inputs: What to feed instead of the sweep: a mapping of names to arrays, or an `.npz` file, for each case.
        ranges: For the sweep, the fair values of an input: the least, and the first above that is not fair.
        runtimes: Names such as "onnxruntime", "onnxruntime[all]" or "saved_model". By default all that are installed
            and take one of the artifacts, but "keras[xla]", "onnx_reference" and "openvino" when named only.
        input_signature: As in `export_onnx`, for models that do not tell it themselves.
        seed: Of the sweep.
        timeout: Seconds that a runtime may take to load, or to answer one case, before it counts as hung.
        progress: Called with the number of steps done, their total, and what comes next.

    Returns:
        The report. It has not passed if nothing was compared.

    Raises:
        ValueError: If an argument is not valid, or a runtime is unknown.
        ImportError: If a runtime that was asked for is not installed.
        FileNotFoundError: If a file is missing.
    """
    start = time.perf_counter()
    sources = [artifacts] if isinstance(artifacts, Source) else list(artifacts)
    targets: list[tuple[str, Path | None]] = [locate_artifact(source) for source in sources]
    if not isinstance(model, Source) or locate(model)[0] == "keras":
        targets.insert(0, ("keras", None))
    chosen = default_runtimes() if runtimes is None else find_runtimes(runtimes)
    jobs = [(spec, path) for format, path in targets for spec in chosen if spec.format == format]
    tell = progress or _nobody
    with ExitStack() as stack:
        ready = [(spec, path) for spec, path in jobs if spec.installed]
        tell(0, len(ready) + 1, "starting the runtimes")
        # All at once: they import while the reference computes. Each loads its artifact when its turn comes.
        workers = [None if path is None else stack.enter_context(Worker(spec, timeout)) for spec, path in ready]
        reference = open_reference(model, input_signature, timeout)
        stack.callback(reference.close)
        tell(0, len(ready) + 1, reference.name)
        expectations = reference.answer(choose_cases(reference, inputs, ranges or {}, seed))
        results = []
        for done, ((spec, path), worker) in enumerate(zip(ready, workers, strict=True), start=1):
            tell(done, len(ready) + 1, spec.name)
            results.append(examine(worker or _here(spec, reference), path, reference, expectations))
    tell(len(ready) + 1, len(ready) + 1, "done")
    ran = {path for _, path in ready}
    results += [_untried(format, path) for format, path in targets if path is not None and path not in ran]
    return ParityReport(
        model=reference.name,
        basis=reference.basis,
        tried=tuple(tried_input(each) for each in expectations),
        results=tuple(results),
        not_tried=tuple(NotTried(s.name, str(path or ""), s.install) for s, path in jobs if not s.installed),
        seed=seed,
        versions=versions_of([reference.version, *(result.version for result in results)]),
        seconds=time.perf_counter() - start,
    )


def _untried(format: str, path: Path) -> RuntimeResult:
    """Returns the result of an artifact that no runtime ran: it has failed, whatever else has passed."""
    message = f"none of the chosen runtimes that are installed takes {format}"
    return RuntimeResult(str(path), format, "none", passed=False, status="not loaded", message=message)


def _here(spec: RuntimeSpec, reference: Reference) -> KerasHere:
    assert isinstance(reference, KerasReference)
    return KerasHere(spec, reference.model, reference.signature)


def tried_input(expectation: Expectation) -> TriedInput:
    """Returns what the report says of a case."""
    case = expectation.case
    inputs = {name: f"{array.dtype} {array.shape}" for name, array in case.inputs.items()}
    return TriedInput(case.name, inputs, case.why, expectation.refused)


def versions_of(found: Sequence[str]) -> dict[str, str]:
    """Returns the versions by package; `found` has texts such as "onnxruntime 1.31.1"."""
    pairs = [version.split(" ", 1) for version in found if version]
    return {"keras-pe": __version__, **{pair[0]: pair[-1] for pair in pairs}}


def _nobody(done: int, total: int, what: str) -> None:
    """Listens to the progress where the caller does not."""
