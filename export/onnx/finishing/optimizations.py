"""Which optimization of ONNX Runtime changes what a sound file returns: found by leaving them out in turn."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import ExportError
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.runtimes.optimizations import RULES, RULES_TOGETHER, applied_optimizations
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker
from keras_pe.export.smoke_test.check import TIMEOUT, check_artifact
from keras_pe.export.smoke_test.rounding import RoundingJudge


def find_fault(file: Path, spec: RuntimeSpec, layers: Sequence[Any], signature: Signature) -> str | None:
    """Returns a sentence on the optimization without which a file returns what Keras does; None if it does not.

    Args:
        file: An ONNX file that differs from the model.
        spec: ONNX Runtime as it has run it.
        layers: The model as it was exported, then every layer in it.
        signature: Its signature.
    """

    def agrees(**options: Any) -> bool:
        with Worker(replace(spec, options={**spec.options, **options}), TIMEOUT) as worker:
            try:
                check_artifact(file, worker, layers, signature, Format.ONNX, judge=judge)
            except ExportError:
                return False
            version.append(worker.version)
            return True

    version: list[str] = []
    judge = RoundingJudge(layers, signature)  # which makes the model again once
    if not agrees(level="disabled"):
        return None
    left_out = list(spec.options.get("disabled_optimizers", ()))
    guilty = [name for name in applied_optimizations(file, TIMEOUT) if agrees(disabled_optimizers=[*left_out, name])]
    if any(name.endswith(RULES_TOGETHER) for name in guilty):
        guilty = [name for name in RULES if agrees(disabled_optimizers=[*left_out, name])] or guilty
    names = " or ".join(f"'{name}'" for name in guilty) or "several that do it together"
    return (
        f"The file is sound, and an optimization of {version[0]} is at fault: without {names} it returns what Keras "
        "returns. Export once more with another version of ONNX Runtime."
    )
