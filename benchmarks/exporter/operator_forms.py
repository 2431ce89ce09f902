"""Which ONNX form of a layer normalization or an activation runs fastest, in the ONNX Runtime that is installed.

The forms take turns on one thread. Beside the time stands the largest error, and for a normalization that of inputs
whose mean is a thousand times their spread. It needs onnx and onnxruntime alone, so that old versions can be asked:

    uv run --no-project --with onnxruntime==1.27.0 --with onnx python benchmarks/exporter/operator_forms.py
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

_SHAPES = ((1, 128, 256), (8, 128, 768), (1, 56, 56, 96))
_EPSILON = 1e-3
_ROUNDS = 40
_OPSET = 18

# Each form: operator, inputs, output, attributes. "x" goes in, "y" comes out.
Form = Sequence[tuple[Any, ...]]

_CENTERED = [("ReduceMean", "x last", "m"), ("Sub", "x m", "d")]
_PRODUCTS = ("Mul", "d d", "squares")
_POWERS = ("Pow", "d two", "squares")
_DEVIATION = [("ReduceMean", "squares last", "v"), ("Add", "v epsilon", "ve"), ("Sqrt", "ve", "deviation")]
_QUOTIENT = [("Div", "d deviation", "n"), ("Mul", "n gamma", "ng"), ("Add", "ng beta", "y")]
NORMALIZATIONS: dict[str, Form] = {
    "as TensorFlow traces it": [
        *_CENTERED,
        _PRODUCTS,
        *_DEVIATION,
        ("Reciprocal", "deviation", "r"),
        ("Mul", "r gamma", "scale"),
        ("Mul", "x scale", "xs"),
        ("Mul", "m scale", "ms"),
        ("Sub", "beta ms", "offset"),
        ("Add", "xs offset", "y"),
    ],
    "LayerNormalization": [("LayerNormalization", "x gamma beta", "y", {"epsilon": _EPSILON})],
    "fused spelling (Pow)": [*_CENTERED, _POWERS, *_DEVIATION, *_QUOTIENT],
    "products (Mul)": [*_CENTERED, _PRODUCTS, *_DEVIATION, *_QUOTIENT],
}
GELUS: dict[str, Form] = {
    "as TensorFlow traces it": [
        ("Mul", "x minus", "a"),
        ("Erf", "a", "e"),
        ("Sub", "one e", "b"),
        ("Mul", "x half", "c"),
        ("Mul", "c b", "y"),
    ],
    "divided by the root": [
        ("Div", "x root", "a"),
        ("Erf", "a", "e"),
        ("Add", "e one", "b"),
        ("Mul", "x b", "c"),
        ("Mul", "c half", "y"),
    ],
}
HARD_SWISHES: dict[str, Form] = {
    "as TensorFlow traces it": [
        ("Add", "x three", "a"),
        ("Clip", "a zero six", "b"),
        ("Div", "b six", "c"),
        ("Mul", "x c", "y"),
    ],
    "HardSwish": [("HardSwish", "x", "y")],
}


def main() -> None:
    """Prints a line for each meaning, shape and form."""
    print(f"ONNX Runtime {onnxruntime.__version__}")
    for shape in _SHAPES:
        rng = np.random.default_rng(0)
        x = rng.normal(size=shape).astype("float32")
        constants = {name: rng.normal(size=shape[-1]).astype("float32") for name in ("gamma", "beta")}
        constants |= {"last": np.array([-1]), "two": np.float32(2), "epsilon": np.float32(_EPSILON)}
        constants |= {"one": np.float32(1), "half": np.float32(0.5), "root": np.float32(math.sqrt(2))}
        constants |= {"minus": np.float32(-math.sqrt(0.5)), "three": np.float32(3)}
        constants |= {"zero": np.float32(0), "six": np.float32(6)}

        def normalized(x: Any, known: dict[str, Any] = constants) -> Any:
            x = x.astype("float64")
            centered = x - x.mean(-1, keepdims=True)
            return centered / np.sqrt(x.var(-1, keepdims=True) + _EPSILON) * known["gamma"] + known["beta"]

        compare("LayerNormalization", NORMALIZATIONS, constants, normalized, [x, x + np.float32(1000)])
        compare("Gelu", GELUS, constants, _gelu, [x])
        compare("HardSwish", HARD_SWISHES, constants, lambda x: x * np.clip(x.astype("float64") + 3, 0, 6) / 6, [x])


def compare(
    meaning: str,
    forms: dict[str, Form],
    constants: dict[str, Any],
    exact: Callable[[Any], Any],
    inputs: Sequence[Any],
) -> None:
    """Prints the time of each form over that of the first, and its errors."""
    sessions = {name: _session(form, constants, inputs[0].shape) for name, form in forms.items()}
    times: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(_ROUNDS):
        for name, session in sessions.items():
            start = time.perf_counter()
            session.run(None, {"x": inputs[0]})
            times[name].append(time.perf_counter() - start)
    first = median(next(iter(times.values())))
    for name, session in sessions.items():
        errors = [np.abs(session.run(None, {"x": x})[0] - exact(x)).max() for x in inputs]
        told = ", ".join(f"{error:.0e}" for error in errors)
        print(f"{meaning:18} {inputs[0].shape!s:16} {name:24} {median(times[name]) / first:5.2f}  error {told}")


def _session(form: Form, constants: dict[str, Any], shape: Sequence[int]) -> Any:
    nodes = [
        helper.make_node(operator, inputs.split(), [output], **(attributes[0] if attributes else {}))
        for operator, inputs, output, *attributes in form
    ]
    graph = helper.make_graph(
        nodes,
        "form",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*"abc"[: len(shape) - 1], shape[-1]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _gelu(x: Any) -> Any:
    error = np.vectorize(math.erf, otypes=["float64"])
    return 0.5 * x * (1 + error(x.astype("float64") / math.sqrt(2)))


if __name__ == "__main__":
    main()
