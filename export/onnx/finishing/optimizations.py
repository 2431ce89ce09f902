"""Which optimization of ONNX Runtime changes what a sound file returns: found by leaving them out in turn."""

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.errors import ExportError
from keras_pe.export.formats import Format
from keras_pe.export.model.signature import Signature
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker
from keras_pe.export.smoke_test import TIMEOUT, check_artifact

# ONNX Runtime tells which of its optimizations have changed a graph in its log alone.
_APPLIED = re.compile(r"GraphTransformer (\w+) modified: 1")
# ... but for those that it applies node by node, all under one name. These can be left out one by one as well.
_RULES_TOGETHER = "RuleBasedTransformer"
_RULES = (
    "Pad_Fusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "MatMul_BatchNormalization_Fusion",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "DivMulFusion",
    "LabelEncoderFusion",
    "CastElimination",
    "ExpandElimination",
    "EliminateSlice",
    "NoopElimination",
    "UnsqueezeElimination",
    "PreShapeNodeElimination",
    "EliminateIdentity",
    "EliminateDropout",
)
_LOGGING = """
import sys, onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 0
ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""


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
                check_artifact(file, worker, layers, signature, Format.ONNX)
            except ExportError:
                return False
            version.append(worker.version)
            return True

    version: list[str] = []
    if not agrees(level="disabled"):
        return None
    left_out = list(spec.options.get("disabled_optimizers", ()))
    guilty = [name for name in _applied(file) if agrees(disabled_optimizers=[*left_out, name])]
    if any(name.endswith(_RULES_TOGETHER) for name in guilty):
        guilty = [name for name in _RULES if agrees(disabled_optimizers=[*left_out, name])] or guilty
    names = " or ".join(f"'{name}'" for name in guilty) or "several that do it together"
    return (
        f"The file is sound, and an optimization of {version[0]} is at fault: without {names} it returns what Keras "
        "returns. Export once more with another version of ONNX Runtime."
    )


def _applied(file: Path) -> list[str]:
    command = [sys.executable, "-P", "-c", _LOGGING, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
    return list(dict.fromkeys(_APPLIED.findall(done.stderr)))
