"""Equal computations of sizes are merged, wherever the model reads these sizes."""

import collections
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from keras_pe.export.onnx.finishing.operator_sizes import SHAPE_RULES, VECTOR_RULES
from keras_pe.export.onnx.finishing.shape_sources import read_single_sizes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from tests.export.onnx.exported import keras_results, open_session

ops = keras.ops


def _decode(x: Any) -> Any:
    """Makes a causal mask in each layer, of the length of its own input, as decoders do."""
    table = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(7, 8)).astype("float32"))
    x = x + table[: ops.shape(x)[1]]  # positions, cut to the length
    for _ in range(3):
        places = ops.arange(ops.shape(x)[1])
        mask = ops.expand_dims(places, 1) >= places
        scores = ops.where(mask, ops.matmul(x, ops.transpose(x, (0, 2, 1))), -1e9)
        x = ops.layer_normalization(x + ops.matmul(ops.softmax(scores), x))
    return x


@pytest.mark.slow
def test_each_layer_of_a_decoder_has_the_mask_of_the_first(tmp_path: Path) -> None:
    run = open_session(_decode, [keras.InputSpec(shape=(None, None, 8), dtype="float32")], tmp_path)
    for shape in ((1, 2, 8), (2, 5, 8), (3, 7, 8)):
        x = np.random.default_rng(1).normal(size=shape).astype("float32")
        # Sums of at most eight products of normalized numbers, three times over: 2**-24 each.
        np.testing.assert_allclose(run([x])[0], keras_results(_decode, [x])[0], rtol=0, atol=200 * 2**-24)
    operators = collections.Counter(node.op_type for node in onnx.load(tmp_path / "calls.onnx").graph.node)
    assert operators["Shape"] == operators["Range"] == operators["GreaterOrEqual"] == 1


def _turn(x: Any) -> Any:
    """Makes the same angles for heads of two numbers, as layers do that turn queries and keys."""
    wide, narrow = ops.reshape(x, (*ops.shape(x)[:2], 4, 2)), ops.reshape(x[..., :2], (*ops.shape(x)[:2], 1, 2))
    return [each + ops.cast(ops.arange(ops.shape(each)[1]), "float32")[:, None, None] for each in (wide, narrow)]


def test_one_length_of_tensors_that_are_unlike_is_asked_for_once(tmp_path: Path) -> None:
    run = open_session(_turn, [keras.InputSpec(shape=(None, None, 8), dtype="float32")], tmp_path)
    x = np.random.default_rng(1).normal(size=(2, 5, 8)).astype("float32")
    for found, wanted in zip(run([x]), keras_results(_turn, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)
    operators = collections.Counter(node.op_type for node in onnx.load(tmp_path / "calls.onnx").graph.node)
    assert operators["Range"] == 1
    assert operators["Shape"] <= 2


@pytest.mark.parametrize("ends", [(1,), (1, 2)])
@pytest.mark.parametrize("axes", [2, 4])
def test_a_single_size_is_asked_for_alone_and_of_an_input_where_images_have_it(
    axes: int, ends: tuple[int, ...]
) -> None:
    order = [*range(1, axes), 0]
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"], perm=order),
        helper.make_node("Shape", ["turned"], ["s"]),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.INT32),
        *(helper.make_node("Slice", ["c", f"from{end}", f"to{end}"], [f"size{end}"]) for end in ends),
    ]
    stored = [numpy_helper.from_array(np.array([end - 1]), f"from{end}") for end in ends]
    stored += [numpy_helper.from_array(np.array([end]), f"to{end}") for end in ends]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * axes)]
    outputs = [helper.make_tensor_value_info(f"size{end}", TensorProto.INT32, [1]) for end in ends]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    changed = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    changed.graph.inputs[0].shape = ir.Shape(("batch", "length", "width", "depth")[:axes])
    read_single_sizes(changed.graph, KnownSizes(changed.graph))
    is_alone = len(ends) == 1
    operators = [node.op_type for node in nodes]
    assert [node.op_type for node in changed.graph] == (operators[:3] if is_alone else operators)
    assert changed.graph[1].inputs[0].name == ("x" if is_alone and axes == 4 else "turned")
    sizes = ReferenceEvaluator(ir.to_proto(changed)).run(None, {"x": np.zeros((3, 5, 7, 2)[:axes], "float32")})
    assert [int(each[0]) for each in sizes] == [(3, 5, 7, 2)[:axes][order[end - 1]] for end in ends]


def test_sizes_are_told_as_far_as_the_inputs_determine_them() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "one", "two"], ["length"]),
        helper.make_node("Equal", ["minus", "length"], ["whole"]),  # no length is -1
        helper.make_node("Cast", ["whole"], ["added"], to=TensorProto.INT64),
        helper.make_node("Mul", ["added", "two"], ["nothing"]),
        helper.make_node("Add", ["length", "nothing"], ["end"]),
        helper.make_node("Slice", ["table", "zero", "end", "zero"], ["cut"]),
        helper.make_node("Add", ["x", "cut"], ["sum"]),
        helper.make_node("Add", ["x", "y"], ["other"]),
        helper.make_node("Reshape", ["sum", "heads"], ["split"]),
        helper.make_node("Transpose", ["split"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["sum", "row"], ["joined"]),
        helper.make_node("Split", ["split"], ["first", "second"], axis=3, num_outputs=2),
        helper.make_node("Einsum", ["x", "y"], ["scores"], equation="abc,adc->abd"),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("Pad", ["x", "sides"], ["padded"]),
        helper.make_node("Conv", ["padded", "kernel"], ["convolved"]),
        helper.make_node("MaxPool", ["convolved"], ["pooled"], kernel_shape=[2]),
        helper.make_node("Reshape", ["found", "minus"], ["places"]),
        helper.make_node("Expand", ["one", "places"], ["filled"]),
        helper.make_node("Reshape", ["filled", "minus"], ["flat"]),
    ]
    arrays = {"zero": [0], "one": [1], "two": [2], "minus": [-1], "row": [0, -1, 4], "heads": [0, 0, 2, 4]}
    arrays["sides"] = [0, 0, 1, 0, 0, 1]
    stored = [numpy_helper.from_array(np.array(value), name) for name, value in arrays.items()]
    stored.append(numpy_helper.from_array(np.zeros((9, 8), "float32"), "table"))
    stored.append(numpy_helper.from_array(np.zeros((5, 1, 3), "float32"), "kernel"))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None, 8]) for name in ("x", "y")]
    graph = helper.make_graph(
        nodes, "g", values, [helper.make_tensor_value_info("found", TensorProto.INT64, None)], stored
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    known = ir.from_proto(onnx.shape_inference.infer_shapes(model)).graph
    known.inputs[0].shape, known.inputs[1].shape = ir.Shape(["batch", "length", 8]), ir.Shape(["batch", "other", 8])
    sizes, values = KnownSizes(known), {value.name: value for node in known for value in node.outputs}
    assert sizes.vector(values["end"]) == ("length",)
    assert sizes.shape(values["cut"]) == (("least", "length", 9), 8)
    assert sizes.shape(values["sum"]) == ("batch", "length", 8)
    assert sizes.shape(values["turned"]) == ("batch", 2, "length", 4)
    assert sizes.shape(values["joined"]) == ("batch", ("joined", 1), 4)  # twice the length has no name
    assert sizes.shape(values["other"]) == ("batch", ("other", 1), 8)  # either may be 1
    assert sizes.shape(values["second"]) == ("batch", "length", 2, 2)
    assert sizes.shape(values["scores"]) == ("batch", "length", "other")
    assert sizes.shape(values["zeros"]) == ("batch", "length", 8)
    assert sizes.shape(values["found"]) == (3, ("found", 1))
    assert sizes.vector(values["found"]) is None
    assert sizes.shape(values["padded"])[:2] == ("batch", "length")
    assert sizes.shape(values["pooled"])[:2] == ("batch", 5)
    assert sizes.shape(values["flat"]) == (("flat", 0),)  # the tensor may have any number of axes


def _sizes_of(node: onnx.NodeProto, **stored: Any) -> tuple[KnownSizes, ir.Value]:
    """Follows a graph of one node that reads images `x` and vectors `v` of integers."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6, "height", "width"]),
        helper.make_tensor_value_info("v", TensorProto.INT64, [2]),
    ]
    arrays = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = ir.from_proto(helper.make_model(helper.make_graph([node], "g", inputs, outputs, arrays))).graph
    return KnownSizes(graph), graph.outputs[0]


@pytest.mark.parametrize("error", [IndexError, KeyError, TypeError, ValueError])
@pytest.mark.parametrize("rules", [SHAPE_RULES, VECTOR_RULES], ids=["shapes", "vectors"])
def test_an_error_of_a_rule_reaches_the_caller(
    error: type[Exception], rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise error("typo")

    monkeypatch.setitem(rules, "Relu", fail)
    with pytest.raises(error, match="typo"):
        _sizes_of(helper.make_node("Relu", ["x"], ["y"]))


@pytest.mark.parametrize(
    ("node", "stored", "shape"),
    [
        (helper.make_node("Transpose", ["x"], ["y"]), {}, ("width", "height", 6, "batch")),
        (
            helper.make_node("ConvTranspose", ["x", "kernel"], ["y"], group=2),
            {"kernel": np.zeros((6, 5, 3, 3), "float32")},
            ("batch", 10, ("y", 2), ("y", 3)),
        ),
        (helper.make_node("ReduceSum", ["x"], ["y"]), {}, None),
        (helper.make_node("ReduceSum", ["x", "none"], ["y"]), {"none": np.zeros(0, "int64")}, None),
        (helper.make_node("ReduceSum", ["x", "v"], ["y"]), {}, None),
        (helper.make_node("Squeeze", ["x"], ["y"]), {}, None),
        (helper.make_node("Unsqueeze", ["x", "v"], ["y"]), {}, None),
        (helper.make_node("Reshape", ["x", "v"], ["y"]), {}, None),
        (helper.make_node("Slice", ["x", "v", "v"], ["y"]), {}, None),
        (helper.make_node("Tile", ["x", "v"], ["y"]), {}, None),
        (helper.make_node("Expand", ["x", "v"], ["y"]), {}, None),
        (helper.make_node("Pad", ["x", "v"], ["y"]), {}, None),
        (helper.make_node("Einsum", ["x", "x"], ["y"], equation="...a,...a->..."), {}, None),
        (helper.make_node("NonZero", ["x"], ["y"]), {}, None),
    ],
)
def test_a_size_that_the_graph_does_not_hold_is_unknown(node: onnx.NodeProto, stored: Any, shape: Any) -> None:
    sizes, value = _sizes_of(node, **stored)
    assert sizes.shape(value) == shape
