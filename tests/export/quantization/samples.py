"""Small models that decide, as ONNX files and as Keras models, and rows for them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]
ROWS = np.random.default_rng(0).standard_normal((6000, 16)).astype("float32")

# The segments of a digit on a display: top, upper left, upper right, middle, lower left, lower right, bottom.
_SEGMENTS = (
    "1110111",
    "0010010",
    "1011101",
    "1011011",
    "0111010",
    "1101011",
    "1101111",
    "1010010",
    "1111111",
    "1111011",
)
_PLACES = ((0, slice(1, 4)), (slice(0, 3), 1), (slice(0, 3), 3), (3, slice(1, 4)), (slice(3, 6), 1), (slice(3, 6), 3))


def write_classifier(path: Path, gain: float = 1.0) -> Path:
    """Writes an ONNX file with three layers: rows of 16 numbers to probabilities of 4 classes.

    Args:
        path: The file.
        gain: Factor of one channel of the layer "wide", which the next layer undoes. A large one takes the whole range
            of its values, so that int8 rounds the other channels away.
    """
    draw = np.random.default_rng(1)
    scale = np.ones(32, "float32")
    scale[0] = gain
    shift = np.zeros(32, "float32")
    shift[0] = gain
    constants = {
        "first/kernel": draw.standard_normal((16, 32)).astype("float32") / 4,
        "wide/kernel": (draw.standard_normal((32, 32)).astype("float32") / 6) * scale,
        "wide/bias": shift,
        "last/kernel": (draw.standard_normal((32, 4)).astype("float32") * 2) / scale[:, np.newaxis],
    }
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("MatMul", ["x", "first/kernel"], ["a"], "first/MatMul"),
        make("Relu", ["a"], ["b"], "first/Relu"),
        make("MatMul", ["b", "wide/kernel"], ["c"], "wide/MatMul"),
        make("Add", ["c", "wide/bias"], ["d"], "wide/Add"),
        make("MatMul", ["d", "last/kernel"], ["e"], "last/MatMul"),
        make("Softmax", ["e"], ["class"], "last/Softmax", axis=-1),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "classifier",
        [tensor("x", onnx.TensorProto.FLOAT, ["batch", 16])],
        [tensor("class", onnx.TensorProto.FLOAT, ["batch", 4])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return path


def write_decider(path: Path) -> Path:
    """Writes the classifier of `write_classifier` with the number of the class as its only output."""
    model = onnx.load(write_classifier(path))
    model.graph.node.append(onnx.helper.make_node("ArgMax", ["class"], ["number"], "number", axis=-1, keepdims=0))
    output = onnx.helper.make_tensor_value_info("number", onnx.TensorProto.INT64, ["batch"])
    model.graph.output[0].CopyFrom(output)
    onnx.save(model, path)
    return path


def draw_digits(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Returns noisy images of moved digits on a display, `(count, 8, 8, 1)`, and the digits."""
    draw = np.random.default_rng(seed)
    images, digits = np.zeros((count, 8, 8, 1), "float32"), draw.integers(0, 10, count)
    for image, digit in zip(images, digits, strict=True):
        shape = np.zeros((7, 5))
        for is_on, place in zip(_SEGMENTS[digit], (*_PLACES, (6, slice(1, 4))), strict=True):
            shape[place] = max(int(is_on) * draw.uniform(0.4, 1.0), shape[place].max() if is_on == "0" else 0)
        top, left = draw.integers(0, 2), draw.integers(0, 4)
        image[top : top + 7, left : left + 5, 0] = shape
    return (images + draw.normal(0, 0.25, images.shape)).astype("float32"), digits
