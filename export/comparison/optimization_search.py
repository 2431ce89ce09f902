"""Which optimization of ONNX Runtime changes what a sound file returns, by name: they are left out in turn."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import RuntimeSpec

# ONNX Runtime tells which of its optimizations have changed a graph in its log alone.
_APPLIED = re.compile(r"GraphTransformer (\w+) modified: 1")
# ... but for those that it applies node by node, all under one name. These can be left out one by one as well.
RULES_TOGETHER = "RuleBasedTransformer"
RULES = (
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
    try:
        applied = applied_optimizations(file, timeout)
    except subprocess.TimeoutExpired:
        return f"all of them (which one was not found in {timeout:g} s)"
    guilty = [name for name in applied if agrees_with(disabled_optimizers=[*left_out, name])]
    if any(name.endswith(RULES_TOGETHER) for name in guilty):
        guilty = [name for name in RULES if agrees_with(disabled_optimizers=[*left_out, name])] or guilty
    return " or ".join(map(repr, guilty)) or "several that do it together"


def applied_optimizations(file: Path, timeout: float) -> list[str]:
    """Returns the names of the optimizations that change a file, as they can be left out, from a child process.

    Raises:
        TimeoutExpired: If the process does not end in time.
    """
    command = [sys.executable, "-P", "-c", _LOGGING, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout)
    return list(dict.fromkeys(_APPLIED.findall(done.stderr)))
