"""Runs tensor2tensor's own functions and keeps what they return: writes tensor2tensor-1.15.7.npz beside this file.

Usage:
    pip download --no-deps tensor2tensor==1.15.7
    python tests/golden/generate.py tensor2tensor-1.15.7-py2.py3-none-any.whl [--check]

The calls are in tensor2tensor-1.15.7.cases.json: `{"zeros": [...]}` is a float32 tensor of zeros of that shape,
`{"values": ...}` a tensor of those values. With --check nothing is written, and the exit code says whether the same
came out.

tensor2tensor itself cannot be imported any more, as little as what it needs. So its functions are read from the wheel's
source and executed unchanged, with stand-ins for the three helpers that they call. No line of it is kept.
"""

import ast
import json
import math
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

FOLDER = Path(__file__).parent
RETURNED, CASES = FOLDER / "tensor2tensor-1.15.7.npz", FOLDER / "tensor2tensor-1.15.7.cases.json"


def functions(wheel: Path) -> dict[str, Any]:
    """Returns the functions of tensor2tensor whose names contain `timing_signal`."""
    source = zipfile.ZipFile(wheel).read("tensor2tensor/layers/common_attention.py")
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and "timing_signal" in node.name]
    names = {
        "tf": tf.compat.v1,
        "math": math,
        "expert_utils": SimpleNamespace(add_name_scope=lambda: lambda function: function),
        "common_layers": SimpleNamespace(shape_list=_shape_list, cast_like=lambda x, like: tf.cast(x, like.dtype)),
    }
    exec(compile(tree, str(wheel), "exec"), names)
    return names


def run_cases(wheel: Path) -> dict[str, np.ndarray]:
    """Returns, for each case, the array, and the call as JSON under the name with `/case` behind it."""
    found: dict[str, np.ndarray] = {}
    known = functions(wheel)
    for name, call in json.loads(CASES.read_text()).items():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            signal = known[call["fn"]](**{key: _tensor(value) for key, value in call["args"].items()})
            found[name] = session.run(signal)
        found[f"{name}/case"] = np.array(json.dumps(call))
    return found


def main() -> None:
    """Writes the file, or compares with it."""
    arrays = run_cases(Path(sys.argv[1]))
    if "--check" not in sys.argv:
        np.savez(RETURNED, **arrays)
        return
    with np.load(RETURNED) as kept:
        differing = [name for name in {*kept.files, *arrays} if not np.array_equal(kept[name], arrays[name])]
    sys.exit(f"differs: {', '.join(differing)}" if differing else None)


def _shape_list(x: Any) -> list[Any]:
    """Returns the sizes of a tensor: numbers where they are known, tensors where they are not."""
    dynamic = tf.shape(x)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(x.shape.as_list())]


def _tensor(value: Any) -> Any:
    """Returns an argument of a call as the function takes it."""
    if isinstance(value, list):
        return [_tensor(each) for each in value]
    if isinstance(value, dict):
        return tf.zeros(value["zeros"]) if "zeros" in value else tf.constant(value["values"])
    return value


if __name__ == "__main__":
    main()
