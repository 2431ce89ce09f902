"""The optimizations of ONNX Runtime by name: those that change a given file, and those that go under one name."""

import re
import subprocess
import sys
from pathlib import Path

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


def applied_optimizations(file: Path, timeout: float) -> list[str]:
    """Returns the names of the optimizations that change a file, as they can be left out; a child process tells."""
    command = [sys.executable, "-P", "-c", _LOGGING, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout)
    return list(dict.fromkeys(_APPLIED.findall(done.stderr)))
