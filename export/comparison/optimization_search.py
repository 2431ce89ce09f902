"""Which optimization of ONNX Runtime changes what a sound file returns: found by leaving them out in turn."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.runtimes.optimization_names import RULES, RULES_TOGETHER, applied_optimizations
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import RuntimeSpec


def guilty_optimizations(file: Path, spec: RuntimeSpec, agrees: Callable[[Worker], bool], timeout: float) -> str | None:
    """Returns the optimizations without any of which a file agrees, as text; None where it never does.

    Args:
        file: An ONNX file that differs from the model.
        spec: ONNX Runtime as it has run it.
        agrees: Whether the file returns what Keras does in a process that has yet to load it.
        timeout: Seconds that one answer may take.
    """

    def agrees_with(**options: Any) -> bool:
        with Worker(replace(spec, options={**spec.options, **options}), timeout) as worker:
            return agrees(worker)

    if not agrees_with(level="disabled"):
        return None
    left_out = list(spec.options.get("disabled_optimizers", ()))
    guilty = [
        name for name in applied_optimizations(file, timeout) if agrees_with(disabled_optimizers=[*left_out, name])
    ]
    if any(name.endswith(RULES_TOGETHER) for name in guilty):
        guilty = [name for name in RULES if agrees_with(disabled_optimizers=[*left_out, name])] or guilty
    return " or ".join(map(repr, guilty)) or "several that do it together"
