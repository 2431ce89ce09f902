"""Faults of a quantizer, planted in correct exported files: ranges, scales and types that do not fit the values."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from edited_files import edit_graph
from fault_examples import Example, functional
from keras import layers as L  # noqa: N812
from onnx import helper, numpy_helper

import keras_pe
from keras_pe.export import Cause

_LEVELS = 255


def _last_of(graph: onnx.GraphProto, layer: str) -> str:
    """Returns the tensor that a layer returns; an input of the graph is its own."""
    names = [node.output[0] for node in graph.node if f"/{layer}/" in f"/{node.name}"]
    return names[-1] if names else layer


def round_tensor(graph: onnx.GraphProto, layer: str, low: float, high: float, dtype: str = "int8") -> None:
    """Rounds the result of a layer to a range, as a quantizer does."""
    name, inner = _last_of(graph, layer), f"{layer}/rounded/floats"
    scale = np.float32((high - low) / _LEVELS)
    zero = np.array(np.clip(np.rint(np.iinfo(dtype).min - low / scale), *_ends(dtype)), dtype)
    for node in graph.node:
        node.input[:] = [inner if each == name else each for each in node.input]
    graph.initializer.extend([numpy_helper.from_array(np.array(scale), f"{inner}/scale")])
    graph.initializer.extend([numpy_helper.from_array(zero, f"{inner}/zero")])
    numbers = [f"{inner}/scale", f"{inner}/zero"]
    pair = [
        helper.make_node("QuantizeLinear", [name, *numbers], [f"{name}_QuantizeLinear_Output"]),
        helper.make_node("DequantizeLinear", [f"{name}_QuantizeLinear_Output", *numbers], [inner]),
    ]
    places = [place for place, node in enumerate(graph.node) if name in node.output]
    nodes = list(graph.node)
    at = places[0] + 1 if places else 0
    del graph.node[:]
    graph.node.extend([*nodes[:at], *pair, *nodes[at:]])


def round_weight(graph: onnx.GraphProto, name: str) -> None:
    """Stores a weight as int8 with one scale."""
    (tensor,) = [each for each in graph.initializer if each.name == name]
    values = numpy_helper.to_array(tensor)
    scale = np.float32(np.abs(values).max() / 127)
    integers = np.rint(values / scale).astype(np.int8)
    tensor.CopyFrom(numpy_helper.from_array(integers, f"{name}_quantized"))
    graph.initializer.append(numpy_helper.from_array(np.array(scale), f"{name}_scale"))
    graph.initializer.append(numpy_helper.from_array(np.array(0, np.int8), f"{name}_zero_point"))
    given = [f"{name}_quantized", f"{name}_scale", f"{name}_zero_point"]
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend([helper.make_node("DequantizeLinear", given, [name]), *nodes])


def _ends(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _rounded_layer(layers: Any, layer: str, low: float, high: float, *shape: int | None, dtype: str = "int8") -> Any:
    build = functional(layers, *(shape or (8,)))
    return edit_graph(lambda graph: round_tensor(graph, layer, low, high, dtype), build)


def _weight_of_one_scale(name: str, channel: int, by: float) -> Callable[[Path], keras.Model]:
    """Returns a function that exports a model with a weight in int8, of which one channel is scaled before."""

    def change(graph: onnx.GraphProto) -> None:
        round_tensor(graph, "x", -5, 5)
        round_weight(graph, name)

    return edit_graph(change, functional(_mix, 8), _scale(name, channel, by))


def _mix(x: Any, is_wrong: bool) -> Any:
    return L.Dense(8, name="mix")(x)


def _concatenation(x: Any, is_wrong: bool) -> Any:
    small = L.Rescaling(0.002, name="small")(L.Dense(8, name="one")(x))
    return L.Rescaling(1.0, name="copy")(L.Concatenate(name="join")([small, L.Dense(8, name="other")(x)]))


def _words(x: Any, is_wrong: bool) -> Any:
    return keras_pe.SinusoidalPositionEncoding(name="positions")(L.Rescaling(0.002, name="words")(x))


def _many(x: Any, is_wrong: bool) -> Any:
    return L.Softmax(name="shares")(L.Rescaling(0.1, name="scores")(L.Dense(600, name="mix")(x)))


def _division(x: Any, is_wrong: bool) -> Any:
    squares = L.Rescaling(1.0, 1e-3, name="squares")(L.Multiply(name="square")([x, x]))
    return x / keras.ops.sqrt(squares)


def _scale(name: str, channel: int, by: float) -> Callable[[keras.Model], None]:
    """Returns a function that multiplies one channel of a weight."""

    def change(model: keras.Model) -> None:
        (variable,) = [each for each in model.variables if each.path == name]
        values = np.array(variable)
        values[..., channel] *= by
        variable.assign(values)

    return change


QUANTIZED: Mapping[Cause, Example] = {
    Cause.CLIPPED_RANGE: Example("A range ends before the values.", _rounded_layer(_mix, "mix", -0.5, 0.5)),
    Cause.DEAD_RANGE: Example("A range is many times wider than the values.", _rounded_layer(_mix, "mix", -200, 200)),
    Cause.OUTLIER_CHANNEL: Example(
        "One channel is large, and all share its scale.",
        edit_graph(
            lambda graph: round_tensor(graph, "mix", -1500, 1500), functional(_mix, 8), _scale("mix/kernel", 3, 200)
        ),
    ),
    Cause.SHARED_SCALE: Example(
        "Two tensors of unlike sizes are joined.", _rounded_layer(_concatenation, "join", -8, 8)
    ),
    Cause.TINY_SCALE: Example("A scale is 4e-10.", _rounded_layer(_mix, "mix", -5e-8, 5e-8)),
    Cause.UNSIGNED_RANGE: Example("The integers have no sign.", _rounded_layer(_mix, "mix", 0, 8, dtype="uint8")),
    Cause.CHANNELS_OF_ONE_SCALE: Example(
        "A kernel has a small channel, and one scale for all.", _weight_of_one_scale("score/kernel", 1, 0.02)
    ),
    Cause.COARSE_POSITIONS: Example(
        "Positions and small words have one scale.", _rounded_layer(_words, "positions", -1.1, 1.1, None, 8)
    ),
    Cause.COARSE_BIAS: Example(
        "One value of a bias is large, and all share its scale.", _weight_of_one_scale("score/bias", 1, 500)
    ),
    Cause.COARSE_SOFTMAX: Example(
        "Shares of 600 are less than a step.", _rounded_layer(_many, "shares", 0, 1, dtype="uint8")
    ),
    Cause.COARSE_NORMALIZATION: Example(
        "A divisor is less than a step.", _rounded_layer(_division, "squares", 0, 60, dtype="uint8")
    ),
    Cause.OTHER_CALIBRATION: Example("Calibration has seen smaller inputs.", _rounded_layer(_mix, "x", -0.3, 0.3)),
}
