"""A small model, and ONNX files of it with one fault each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import keras_pe

CHANNELS = 16


def build(encode: Callable[[Any], Any] | None = None, **changes: Any) -> keras.Model:
    """Returns the model, always with the same weights; `changes` are of its encoding or named after its layers."""
    keras.utils.set_random_seed(0)
    encoding = {k: v for k, v in changes.items() if k in ("start_index", "layout", "endpoint", "max_length")}
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(50, CHANNELS, mask_zero=changes.get("mask_zero", True), name="embed")(tokens)
    layer = keras_pe.SinusoidalPositionEncoding(name="encode", **encoding)
    x = layer(x) if encode is None else encode(layer, x)
    x = keras.layers.Dense(CHANNELS, activation=changes.get("activation", "silu"), name="mix")(x)
    attended = keras.layers.MultiHeadAttention(2, 8, name="attend")(x, x)
    x = keras.layers.LayerNormalization(epsilon=changes.get("epsilon", 1e-3), name="norm")(x + attended)
    scores = keras.layers.Dense(5, activation="softmax", name="scores")(x)
    return keras.Model(tokens, {"scores": scores, "state": keras.layers.Dense(5, name="state")(x)}, name="small")


class Surgery:
    """An ONNX file, changed and written again."""

    def __init__(self, source: Path) -> None:
        self.model = onnx.load(source)
        self.graph = self.model.graph

    def save(self, path: Path) -> Path:
        onnx.save(self.model, path)
        return path

    def weight(self, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Changes an initializer."""
        (tensor,) = [t for t in self.graph.initializer if t.name == name]
        changed = np.ascontiguousarray(change(numpy_helper.to_array(tensor)), dtype=np.float32)
        tensor.CopyFrom(numpy_helper.from_array(changed, name))

    def rename_outputs(self, names: dict[str, str]) -> None:
        """Gives outputs other names, which may be each other's; their order stays."""
        for node in self.graph.node:
            node.output[:] = [names.get(name, name) for name in node.output]
            node.input[:] = [names.get(name, name) for name in node.input]

    def inside(self, layer: str, make: Callable[[str, str], list[onnx.NodeProto]]) -> None:
        """Puts nodes before the last operator of a layer. `make` gets what it read, and the name that it reads now."""
        last = self._nodes(layer)[-1]
        old, new = last.input[0], f"{last.name}/fault"
        last.input[0] = new
        self._insert(last, make(old, new))

    def instead(self, layer: str) -> None:
        """Has a layer return what it takes."""
        nodes = self._nodes(layer)
        first, last = nodes[0], nodes[-1]
        self._insert(last, [helper.make_node("Identity", [first.input[0]], [last.output[0]])])
        self.graph.node.remove(last)

    def at_output(self, name: str, make: Callable[[str, str], list[onnx.NodeProto]]) -> None:
        """Puts nodes before an output."""
        (node,) = [n for n in self.graph.node if name in n.output]
        node.output[0] = f"{name}/right"
        self.graph.node.extend(make(f"{name}/right", name))

    def _nodes(self, layer: str) -> list[onnx.NodeProto]:
        return [node for node in self.graph.node if f"/{layer}/" in f"/{node.name}"]

    def _insert(self, before: onnx.NodeProto, nodes: list[onnx.NodeProto]) -> None:
        index = list(self.graph.node).index(before)
        for node in reversed(nodes):
            self.graph.node.insert(index, node)

    def constant(self, name: str, value: np.ndarray) -> str:
        """Adds an initializer."""
        self.graph.initializer.append(numpy_helper.from_array(value, name))
        return name


def half(old: str, new: str) -> list[onnx.NodeProto]:
    """Rounds to float16 and back."""
    return [
        helper.make_node("Cast", [old], [f"{new}/half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", [f"{new}/half"], [new], to=TensorProto.FLOAT),
    ]


def noise(old: str, new: str) -> list[onnx.NodeProto]:
    """Adds random numbers."""
    return [
        helper.make_node("RandomNormalLike", [old], [f"{new}/noise"], scale=1e-2),
        helper.make_node("Add", [old, f"{new}/noise"], [new]),
    ]


def minus_batch_mean(old: str, new: str) -> list[onnx.NodeProto]:
    """Subtracts the mean over the batch, as a normalization left in training mode does."""
    return [
        helper.make_node("ReduceMean", [old, "batch_axis"], [f"{new}/mean"], keepdims=1),
        helper.make_node("Sub", [old, f"{new}/mean"], [new]),
    ]


def unary(operator: str, **attributes: Any) -> Callable[[str, str], list[onnx.NodeProto]]:
    """Applies one operator."""
    return lambda old, new: [helper.make_node(operator, [old], [new], **attributes)]
