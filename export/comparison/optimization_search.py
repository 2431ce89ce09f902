"""Finds the optimization of ONNX Runtime that changes a correct file's outputs, by disabling each in turn."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.worker import Worker

# ONNX Runtime only logs which of its optimizations have changed a graph.
_APPLIED = re.compile(r"GraphTransformer (\w+) modified: 1")
# One name covers all rules that ONNX Runtime applies node by node. Each rule can be disabled separately, too.
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
    """Returns the optimizations whose removal makes a file agree, as text; None if the file never agrees.

    Args:
        file: An ONNX file that differs from the model.
        spec: The spec of ONNX Runtime that ran the file.
        agrees: Whether the file returns Keras' outputs in a process that has not loaded it yet.
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
        return f"all of them (the search for a single one took more than {timeout:g} s)"
    guilty = [name for name in applied if agrees_with(disabled_optimizers=[*left_out, name])]
    if any(name.endswith(RULES_TOGETHER) for name in guilty):
        guilty = [name for name in RULES if agrees_with(disabled_optimizers=[*left_out, name])] or guilty
    return " or ".join(map(repr, guilty)) or "several of them together"


def applied_optimizations(file: Path, timeout: float) -> list[str]:
    """Returns the optimizations that change a file, by the names that disable them, from a subprocess.

    Raises:
        TimeoutExpired: If the process does not end in time.
    """
    command = [sys.executable, "-P", "-c", _LOGGING, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout)
    return list(dict.fromkeys(_APPLIED.findall(done.stderr)))
