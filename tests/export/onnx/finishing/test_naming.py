"""Nodes, tensors and constants of a file are called after the layers of the model."""

from pathlib import Path

import keras
import onnx

from keras_pe.export import export_onnx

L = keras.layers


class Block(L.Layer):
    """Adds its own result to that of an inner layer, which is named after its operator."""

    def __init__(self) -> None:
        super().__init__(name="block_")
        self.inner = L.Dense(4, activation="softmax", name="add")

    def call(self, x: object) -> object:
        return keras.ops.add(self.inner(x), keras.ops.sum(x, axis=2, keepdims=True))


def test_tensors_of_a_file_are_named_after_their_layer(tmp_path: Path) -> None:
    inputs = keras.Input((5, 4), name="x")
    shared = L.Dense(4, name="shared", use_bias=False)
    x = shared(shared(inputs)) + inputs
    x = L.Permute((2, 1), name="turn")(L.LSTM(4, return_sequences=True, name="recurrent")(Block()(x)))
    model = keras.Model(inputs, L.Dense(2, name="head__2")(x), name="model")
    model.get_layer("head__2").bias.assign([1.0, 2.0])
    graph = onnx.load(export_onnx(model, tmp_path / "model.onnx").path).graph
    names = {node.name for node in graph.node}
    assert {
        "shared/MatMul",
        "shared/MatMul_1",
        "Add",  # between layers
        "block_/add/MatMul",
        "block_/add/Softmax",
        "block_/ReduceSum",
        "block_/Add",
        "recurrent/LSTM",
        "turn/Transpose",
        "head__2/MatMul",
        "head__2/Add",
    } <= names
    assert {name.partition("/")[0] for name in names} == {"shared", "Add", "block_", "recurrent", "turn", "head__2"}
    assert {node.output[0] for node in graph.node} - names == {"head__2"}  # the output keeps its own
    constants = {tensor.name for tensor in graph.initializer}
    assert {"shared/kernel", "recurrent/LSTM/W", "recurrent/LSTM/R", "block_/ReduceSum/axes"} <= constants


def test_constants_of_an_operation_stay_constants(tmp_path: Path) -> None:
    x = keras.Input((4,), name="x")
    path = export_onnx(keras.Model(x, keras.ops.count_nonzero(x, axis=1)), tmp_path / "model.onnx").path
    assert {tensor.name.split("/")[0] for tensor in onnx.load(path).graph.initializer} == {"count_nonzero"}
