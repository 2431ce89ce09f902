"""Faults of the gallery that edit a correct exported file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
from fault_examples import Build, Example, functional, mask_model, pad_model, seeded
from keras import layers as L  # noqa: N812
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export import Cause, export_onnx


def _mixer(is_wrong: bool) -> keras.Model:
    x = keras.Input((None, 8), name="x")
    mixed = L.Dense(8, "tanh", name="mix")(x)
    outputs = {"score": L.Dense(5, name="score")(mixed), "state": L.Dense(5, name="state")(mixed)}
    return keras.Model(x, outputs, name="model")


def edit_graph(
    change: Callable[[onnx.GraphProto], Any],
    build: Build | None = None,
    prepare: Callable[[keras.Model], None] = lambda model: None,
) -> Callable[[Path], keras.Model]:
    """Returns a function that prepares a model, exports it, and changes the graph of the file."""

    def make(path: Path) -> keras.Model:
        model = seeded((build or _mixer)(False))
        prepare(model)
        export_onnx(model, path)
        file = onnx.load(path)
        change(file.graph)
        onnx.save(file, path)
        return model

    return make


def _weight(name: str, change: Callable[[Any], Any], build: Build | None = None) -> Callable[[Path], keras.Model]:
    """Returns what exports a model and changes a weight of the file."""

    def change_graph(graph: onnx.GraphProto) -> None:
        (tensor,) = [each for each in graph.initializer if each.name == name]
        values = np.ascontiguousarray(change(numpy_helper.to_array(tensor)), np.float32)
        tensor.CopyFrom(numpy_helper.from_array(values, name))

    return edit_graph(change_graph, build)


def _insert(graph: onnx.GraphProto, layer: str, make: Callable[[str, str], list[onnx.NodeProto]]) -> None:
    """Puts nodes before the last one of a layer."""
    last = [node for node in graph.node if f"/{layer}/" in f"/{node.name}"][-1]
    old, last.input[0] = last.input[0], "put/in"
    place = list(graph.node).index(last)
    for node in reversed(make(old, "put/in")):
        graph.node.insert(place, node)


def _half(old: str, new: str) -> list[onnx.NodeProto]:
    down, up = TensorProto.FLOAT16, TensorProto.FLOAT
    return [helper.make_node("Cast", [old], ["half"], to=down), helper.make_node("Cast", ["half"], [new], to=up)]


def _noise(old: str, new: str) -> list[onnx.NodeProto]:
    random = helper.make_node("RandomNormalLike", [old], ["noise"], scale=1e-2, seed=1.0)
    return [random, helper.make_node("Add", [old, "noise"], [new])]


def _bent(old: str, new: str) -> list[onnx.NodeProto]:
    return [helper.make_node("Tanh", [old], [new])]


def _declare(graph: onnx.GraphProto) -> None:
    graph.output[0].type.tensor_type.shape.dim[1].dim_value = 32


def _rename(names: Mapping[str, str]) -> Callable[[onnx.GraphProto], None]:
    def change(graph: onnx.GraphProto) -> None:
        for node in graph.node:
            node.output[:] = [names.get(name, name) for name in node.output]
        for value in graph.output:
            value.name = names.get(value.name, value.name)

    return change


def _cast(graph: onnx.GraphProto) -> None:
    (node,) = [each for each in graph.node if "state" in each.output]
    node.output[0] = "single"
    graph.node.append(helper.make_node("Cast", ["single"], ["state"], to=TensorProto.DOUBLE))
    graph.output[1].type.tensor_type.elem_type = TensorProto.DOUBLE


def _inner_output(graph: onnx.GraphProto) -> None:
    name = next(node.output[0] for node in graph.node if node.op_type == "Tanh")
    graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))


def _one_row_off(values: Any) -> Any:
    return values + (np.arange(len(values)) == 5)[:, None] * np.linspace(-0.3, 0.4, values.shape[1])


def _rounded_to_int4(values: Any) -> Any:
    scale = np.abs(values).max() / 7
    return np.rint(values / scale) * scale


def _added_twice(graph: onnx.GraphProto) -> None:
    (node,) = [each for each in graph.node if "mix/bias" in each.input]
    place = list(graph.node).index(node)
    name, node.output[0] = node.output[0], "once"
    graph.node.insert(place + 1, helper.make_node("Add", ["once", "mix/bias"], [name]))


def _mixed_up(graph: onnx.GraphProto) -> None:
    weights = {each.name: each for each in graph.initializer}
    values = numpy_helper.to_array(weights["score/kernel"])
    weights["state/kernel"].CopyFrom(numpy_helper.from_array(values, "state/kernel"))


def _weakly(graph: onnx.GraphProto) -> None:
    """Takes 1 from a score that is hidden, where the file takes as much as there is."""
    floats = [each for each in graph.initializer if each.data_type == TensorProto.FLOAT]
    (mask,) = [each for each in floats if numpy_helper.to_array(each).min() < -1e4]
    mask.CopyFrom(numpy_helper.from_array(np.full(mask.dims, -1, np.float32), mask.name))


def _corners(graph: onnx.GraphProto) -> None:
    (resize,) = [node for node in graph.node if node.op_type == "Resize"]
    kept = [each for each in resize.attribute if each.name != "coordinate_transformation_mode"]
    del resize.attribute[:]
    resize.attribute.extend([*kept, helper.make_attribute("coordinate_transformation_mode", "align_corners")])


def _resize(x: Any, _: bool) -> Any:
    image = L.Conv2D(4, 3, name="edges")(L.Resizing(20, 28, name="resized")(x))
    return L.GlobalAveragePooling2D(name="mean")(image)


def _counter(path: Path) -> keras.Model:
    """Writes the file of a model that counts its calls, with its count."""

    @keras.saving.register_keras_serializable("gallery")
    class Counting(L.Layer):
        def build(self, shape: Any) -> None:
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            self.count.assign_add(1.0)
            return x + self.count

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"])],
        "frozen",
        [value("x", TensorProto.FLOAT, ["batch", 4])],
        [value("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(np.float32(1), "one")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    inputs = keras.Input((4,), name="x")
    return keras.Model(inputs, Counting(name="y")(inputs), name="model")


EDITED: Mapping[Cause, Example] = {
    Cause.MISSING_OUTPUT: Example("An output was left out of the file.", edit_graph(lambda graph: graph.output.pop())),
    Cause.EXTRA_OUTPUT: Example("A tensor inside has become an output.", edit_graph(_inner_output)),
    Cause.RENAMED_OUTPUT: Example("Somebody gave an output another name.", edit_graph(_rename({"state": "out_1"}))),
    Cause.SWAPPED_OUTPUTS: Example(
        "Outputs were named by their order, which was another.",
        edit_graph(_rename({"state": "score", "score": "state"})),
    ),
    Cause.OTHER_DTYPE: Example("A converter has put a cast before an output.", edit_graph(_cast)),
    Cause.FALSE_DECLARATION: Example("An exporter has declared the length that it met.", edit_graph(_declare)),
    Cause.OTHER_SHAPE: Example(
        "A table has lost its last rows.",
        _weight("words/embeddings", lambda w: w[:40], pad_model),
    ),
    Cause.NON_DETERMINISM: Example(
        "Noise of the training is in the file.", edit_graph(lambda g: _insert(g, "mix", _noise))
    ),
    Cause.FROZEN_STATE: Example("A layer counts its calls; the file holds one count.", _counter),
    Cause.CHANGED_VALUES: Example("A row of a kernel was damaged.", _weight("mix/kernel", _one_row_off)),
    Cause.OFFSET_VALUES: Example("A number was added to a bias.", _weight("mix/bias", lambda w: w + 0.1)),
    Cause.CLIPPED_VALUES: Example("A kernel was cut at 0.3.", _weight("mix/kernel", lambda w: np.clip(w, -0.3, 0.3))),
    Cause.QUANTIZED_INT4: Example("A kernel was rounded to 15 steps.", _weight("mix/kernel", _rounded_to_int4)),
    Cause.HALF_PRECISION: Example("One operator computes in float16.", edit_graph(lambda g: _insert(g, "mix", _half))),
    Cause.TRANSPOSED_AXES: Example("A kernel stands as PyTorch keeps it.", _weight("mix/kernel", np.transpose)),
    Cause.REVERSED_VALUES: Example("A kernel runs backwards.", _weight("mix/kernel", lambda w: w[::-1])),
    Cause.REORDERED_VALUES: Example(
        "The columns of a kernel stand in another order.",
        _weight("mix/kernel", lambda w: w[:, [0, 4, 1, 5, 2, 6, 3, 7]]),
    ),
    Cause.ANOTHER_WEIGHT: Example("Two kernels of one shape were mixed up.", edit_graph(_mixed_up)),
    Cause.ADDED_TWICE: Example("A bias is added twice.", edit_graph(_added_twice)),
    Cause.OTHER_PLACES: Example(
        "The image is resized corner to corner.",
        edit_graph(_corners, functional(_resize, 12, 12, 4)),
    ),
    Cause.OPERATION_ADDED: Example("A layer's tanh is taken twice.", edit_graph(lambda g: _insert(g, "mix", _bent))),
    Cause.WEAK_MASK: Example("The mask takes 1 from a score.", edit_graph(_weakly, mask_model(lambda mask: mask))),
}
