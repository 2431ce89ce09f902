"""Contents of a file by layer: operators, parameters, bytes and multiplications."""

from pathlib import Path

import keras
import onnx
import pytest
from onnx import TensorProto, helper

from keras_pe.export import Format, export_onnx, read_artifact
from keras_pe.export.artifacts.onnx_contents import add_terms
from keras_pe.export.records import Artifact

L = keras.layers


def test_a_file_tells_what_it_holds_of_each_layer(tmp_path: Path) -> None:
    inputs = keras.Input((None, 8), name="x")
    x = L.MultiHeadAttention(2, 4, name="attend")(inputs, inputs) + inputs
    x = L.Permute((2, 1), name="turn")(L.LayerNormalization(name="norm")(x))
    x = L.Permute((2, 1), name="back")(L.LayerNormalization(axis=1, name="channels_first")(x))
    model = keras.Model(inputs, x, name="model")
    artifact = export_onnx(model, tmp_path / "model.onnx")
    layers = {each.layer: each for each in artifact.contents}
    assert read_artifact(artifact.path).contents == artifact.contents
    # A kernel of (8, 8) and a bias of 8 in float32, and the four int64 sizes of the split into heads.
    query = layers["attend/query"]
    assert (query.operators, query.parameters) == ({"MatMul": 1, "Add": 1, "Reshape": 1}, 72)
    assert query.nbytes == 72 * 4 + 4 * 8
    assert query.multiplications == ((64, ("batch", "length")),)
    assert layers["attend"].multiplications == ((2 * 8, ("batch", "length", "length")),)
    assert layers["norm"].operators == {"LayerNormalization": 1}
    assert layers["norm"].multiplications == ()
    assert {layer: each.unfused for layer, each in layers.items() if each.unfused} == {
        "attend": {"Attention": "it is written at the operator sets 23 to 24, not at 18"},
        "channels_first": {"LayerNormalization": "its axes are not the last"},
    }
    count = sum(each.parameters for each in layers.values())
    assert (
        model.count_params() <= count <= model.count_params() + 100
    )  # constants of formulas, and states that start at 0


def test_multiplications_follow_from_the_sizes_of_the_inputs(tmp_path: Path) -> None:
    floats = TensorProto.FLOAT
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["maps"], "net/conv/Conv", strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["maps"], ["means"], "net/pool/GlobalAveragePool"),
        helper.make_node("Flatten", ["means"], ["rows"], "net/pool/Flatten"),
        helper.make_node("Gemm", ["rows", "weight"], ["scores"], "/net/head/Gemm", transB=1),
        helper.make_node("Einsum", ["scores", "scores"], ["products"], "Einsum", equation="ab,cb->ac"),
    ]
    stored = [
        helper.make_tensor("kernel", floats, (4, 3, 3, 3), [0.0] * 108),
        helper.make_tensor("weight", TensorProto.FLOAT, (2, 4), [0.0] * 8),
    ]
    image = helper.make_tensor_value_info("image", floats, ["n", 3, "height", 32])
    graph = helper.make_graph(nodes, "g", [image], [helper.make_tensor_value_info("products", floats, None)], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "other.onnx")
    contents = {each.layer: each for each in read_artifact(tmp_path / "other.onnx").contents}
    assert list(contents) == ["net/conv", "net/pool", "net/head", ""]
    # Half the rows and 16 columns, of 4 sums of 27 products each.
    assert contents["net/conv"].multiplications == ((16 * 4 * 27 // 2, ("height", "n")),)
    assert contents["net/head"].multiplications == ((8, ("n",)),)
    assert contents[""].multiplications is None  # an equation may be any
    assert add_terms([(2, ("n",)), (3, ()), (5, ("n",)), (1, ("n", "n"))]) == ((1, ("n", "n")), (7, ("n",)), (3, ()))


def test_another_format_does_not_say_of_which_layer_an_operator_is() -> None:
    artifact = Artifact(Format.SAVED_MODEL, Path("saved"), (), (), 0, 0.0)
    with pytest.raises(ValueError, match=r"`contents`.*'saved', a SavedModel"):
        _ = artifact.contents
