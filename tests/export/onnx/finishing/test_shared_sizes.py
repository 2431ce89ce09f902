"""Equal computations of sizes are merged, wherever the model reads these sizes. A computed size may be zero."""

import collections
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx_ir as ir
import pytest
import tensorflow as tf
from onnx.reference import ReferenceEvaluator

from keras_pe.export.onnx.finishing.operator_sizes import SHAPE_RULES, VECTOR_RULES
from keras_pe.export.onnx.finishing.shape_sources import read_single_sizes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from tests.export.onnx.exported import assert_cases_agree, file_operators
from tests.export.onnx.graph_text import operators, read_graph

ops, RNG = keras.ops, np.random.default_rng(1)


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
    cases = [[RNG.normal(size=shape).astype("float32")] for shape in ((1, 2, 8), (2, 5, 8), (3, 7, 8))]
    # Sums of at most eight products of normalized numbers, three times over: 2**-24 each.
    assert_cases_agree(_decode, [(None, None, 8)], cases, tmp_path, atol=200 * 2**-24)
    operators = collections.Counter(file_operators(tmp_path / "calls.onnx"))
    assert operators["Shape"] == operators["Range"] == operators["GreaterOrEqual"] == 1


def _turn(x: Any) -> Any:
    """Makes the same angles for heads of two numbers, as layers do that turn queries and keys."""
    wide, narrow = ops.reshape(x, (*ops.shape(x)[:2], 4, 2)), ops.reshape(x[..., :2], (*ops.shape(x)[:2], 1, 2))
    return [each + ops.cast(ops.arange(ops.shape(each)[1]), "float32")[:, None, None] for each in (wide, narrow)]


def test_one_length_of_tensors_that_are_unlike_is_asked_for_once(tmp_path: Path) -> None:
    assert_cases_agree(_turn, [(None, None, 8)], [[RNG.normal(size=(2, 5, 8)).astype("float32")]], tmp_path)
    operators = collections.Counter(file_operators(tmp_path / "calls.onnx"))
    assert operators["Range"] == 1
    assert operators["Shape"] <= 2


def _keep_rows(x: Any) -> tuple[Any, ...]:
    """Returns the rows that are positive, with their columns in pairs, and all steps of all rows as one axis."""
    kept = tf.boolean_mask(x[:, 0], x[:, 0, 0] > 0)
    count = tf.shape(kept)[0]
    batch, steps = ops.shape(x)[:2]
    halves = ops.reshape(ops.transpose(x, (2, 0, 1)), (batch, 2, steps, 2))
    return ops.reshape(ops.transpose(kept), (count, 2, 2)), ops.reshape(x, (batch * steps, 4)), halves


@pytest.mark.slow
def test_an_empty_tensor_is_reshaped_to_an_empty_tensor(tmp_path: Path) -> None:
    def reshape_empty(x: Any) -> Any:
        pairs = ops.stack([x[..., :0], -x[..., :0]], -2)
        batch, steps = ops.shape(x)[:2]
        return ops.reshape(pairs, (batch, steps, 0)), ops.reshape(pairs, (0, 4))

    assert_cases_agree(reshape_empty, [(None, None, 4)], [[np.ones((2, 3, 4), "float32")]], tmp_path)


@pytest.mark.slow
def test_a_computed_size_may_be_zero(tmp_path: Path) -> None:
    sizes = ((3, 2, 1), (3, 2, -1), (0, 2, 1), (2, 5, 1))
    cases = [[sign * RNG.uniform(1, 2, (batch, steps, 4)).astype("float32")] for batch, steps, sign in sizes]
    assert_cases_agree(_keep_rows, [(None, None, 4)], cases, tmp_path)


@pytest.mark.slow
def test_a_size_to_infer_is_told_where_it_is_known(tmp_path: Path) -> None:
    def reshape_empty(x: Any) -> Any:
        batch = ops.shape(x)[0]
        return ops.reshape(x, (batch, 4, -1)), ops.reshape(ops.transpose(x, (0, 2, 1)), (batch, -1)), ops.median(x, 1)

    cases = [[RNG.uniform(size=(batch, 3, 4)).astype("float32")] for batch in (0, 2)]
    assert_cases_agree(reshape_empty, [(None, 3, 4)], cases, tmp_path)


@pytest.mark.parametrize("ends", [(1,), (1, 2)])
@pytest.mark.parametrize("axes", [2, 4])
def test_a_single_size_is_asked_for_alone_and_of_an_input_where_images_have_it(
    axes: int, ends: tuple[int, ...]
) -> None:
    order, names = [*range(1, axes), 0], [f"size{end}" for end in ends]
    constants = ", ".join(f"int64[1] from{end} = {{{end - 1}}}, int64[1] to{end} = {{{end}}}" for end in ends)
    slices = "  ".join(f"size{end} = Slice(c, from{end}, to{end})" for end in ends)
    model = read_graph(
        f"""(float[{",".join("?" * axes)}] x) => ({", ".join(f"int32[1] {name}" for name in names)}) <{constants}>
        {{ turned = Transpose<perm = {order}>(x)  s = Shape(turned)  c = Cast<to = 6>(s)  {slices} }}"""
    )
    model.graph.inputs[0].shape = ir.Shape(("batch", "length", "width", "depth")[:axes])
    read_single_sizes(model.graph, KnownSizes(model.graph))
    is_alone = len(ends) == 1
    assert operators(model) == ["Transpose", "Shape", "Cast", *([] if is_alone else ["Slice", "Slice"])]
    assert model.graph[1].inputs[0].name == ("x" if is_alone and axes == 4 else "turned")
    sizes = ReferenceEvaluator(ir.to_proto(model)).run(None, {"x": np.zeros((3, 5, 7, 2)[:axes], "float32")})
    assert [int(each[0]) for each in sizes] == [(3, 5, 7, 2)[:axes][order[end - 1]] for end in ends]


FOLLOWED = """(float[?,?,8] x, float[?,?,8] y, float[9,8] table, float[5,1,3] kernel) => (int64[?,?] found)
    <int64[1] far = {9223372036854775807}, int64[1] zero = {0},
    int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1}, int64[3] row = {0, -1, 4},
    int64[4] heads = {0, 0, 2, 4}, int64[6] sides = {0, 0, 1, 0, 0, 1}> {
    shape = Shape(x)  length = Slice(shape, one, two)  whole = Equal(minus, length)  added = Cast<to = 7>(whole)
    nothing = Mul(added, two)  end = Add(length, nothing)  cut = Slice(table, zero, end, zero)  sum = Add(x, cut)
    past = Add(far, one)  chosen = Where(whole, two, shape)  spread = ConstantOfShape(chosen)
    other = Add(x, y)  split = Reshape(sum, heads)  turned = Transpose<perm = [0, 2, 1, 3]>(split)
    joined = Reshape(sum, row)  first, second = Split<axis = 3, num_outputs = 2>(split)
    scores = Einsum<equation = "abc,adc->abd">(x, y)  zeros = ConstantOfShape(shape)  found = NonZero(x)
    theirs = Shape(y)  most = Max(shape, theirs)  larger = ConstantOfShape(most)
    padded = Pad(x, sides)  convolved = Conv(padded, kernel)  pooled = MaxPool<kernel_shape = [2]>(convolved)
    places = Reshape(found, minus)  filled = Expand(one, places)  flat = Reshape(filled, minus) }"""
# The length is never -1; a name stands for a size that nothing else computes.
SHAPES: dict[str, tuple[Any, ...]] = {
    "cut": (("least", "length", 9), 8),
    "sum": ("batch", "length", 8),
    "spread": ("batch", "length", 8),
    "turned": ("batch", 2, "length", 4),
    "joined": ("batch", ("joined", 1), 4),  # twice the length has no name
    "other": ("batch", ("other", 1), 8),  # either may be 1
    "second": ("batch", "length", 2, 2),
    "scores": ("batch", "length", "other"),
    "zeros": ("batch", "length", 8),
    "larger": ("batch", ("most", "length", "other"), 8),
    "found": (3, ("found", 1)),
    "flat": (("flat", 0),),  # the tensor may have any number of axes
}


def test_sizes_are_told_as_far_as_the_inputs_determine_them() -> None:
    graph = read_graph(FOLLOWED).graph
    graph.inputs[0].shape, graph.inputs[1].shape = ir.Shape(["batch", "length", 8]), ir.Shape(["batch", "other", 8])
    sizes, values = KnownSizes(graph), {value.name: value for node in graph for value in node.outputs}
    assert {name: sizes.shape(values[name]) for name in SHAPES} == SHAPES
    assert [sizes.vector(values[name]) for name in ("end", "found", "past")] == [("length",), None, None]
    assert sizes.shape(values["padded"])[:2] == ("batch", "length")
    assert sizes.shape(values["pooled"])[:2] == ("batch", 5)


def _shape_of(node: str) -> Any:
    """Returns the known shape of a node that reads images `x`, a kernel, and vectors `v` of integers."""
    graph = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 18]> graph (float[batch,6,height,width] x, int64[2] v,
        float[6,5,3,3] kernel) => (float y) <int64[0] none = {{}}, int64 eight = {{8}}> {{ y = {node} }}"""
    ).graph
    graph.outputs[0].shape = None
    return KnownSizes(graph).shape(graph.outputs[0])


@pytest.mark.parametrize("error", [IndexError, KeyError, TypeError, ValueError])
@pytest.mark.parametrize("rules", [SHAPE_RULES, VECTOR_RULES], ids=["shapes", "vectors"])
def test_an_error_of_a_rule_reaches_the_caller(
    error: type[Exception], rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise error("typo")

    monkeypatch.setitem(rules, "Relu", fail)
    with pytest.raises(error, match="typo"):
        _shape_of("Relu(x)")


UNKNOWN = "ReduceSum(x) / ReduceSum(x, none) / ReduceSum(x, v) / Squeeze(x) / Unsqueeze(x, v) / Reshape(x, v)"
UNKNOWN += """ / Slice(x, v, v) / Tile(x, v) / Expand(x, v) / Pad(x, v) / Einsum<equation = "...a,...a->...">(x, x)"""


@pytest.mark.parametrize(("node", "shape"), [
    ("Transpose(x)", ("width", "height", 6, "batch")),
    ("ConvTranspose<group = 2>(x, kernel)", ("batch", 10, ("y", 2), ("y", 3))),
    ("DFT<axis = 1>(x, v)", ("batch", ("y", 1), "height", 2)),
    ("DFT<axis = 1>(x, eight)", ("batch", 8, "height", 2)),
    *((node, None) for node in [*UNKNOWN.split(" / "), "NonZero(x)"]),
])  # fmt: skip
def test_a_size_that_the_graph_does_not_hold_is_unknown(node: str, shape: Any) -> None:
    assert _shape_of(node) == shape
