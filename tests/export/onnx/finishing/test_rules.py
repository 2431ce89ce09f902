"""Each pass on a graph of a few nodes: which operators are left, and that they return the same numbers."""

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from keras_pe.export.onnx.finishing.attention import attend
from keras_pe.export.onnx.finishing.canonical_form import merge_equal, order_needed, place_in_layers
from keras_pe.export.onnx.finishing.constants import compute_constants, remove_no_ops
from keras_pe.export.onnx.finishing.einsum_rewrites import mask_rows_of_product, multiply_matrices, swap_factors
from keras_pe.export.onnx.finishing.graph_edits import WEIGHT, drop_unneeded
from keras_pe.export.onnx.finishing.image_axes import compute_channels_first
from keras_pe.export.onnx.finishing.image_rows import run_1d_as_2d
from keras_pe.export.onnx.finishing.operator_rewrites import (
    add_axes_of_numbers,
    average_image,
    clip,
    count_from_the_end,
    root_mean_square,
    transpose_before_scaling,
)
from keras_pe.export.onnx.finishing.passes import Graph, run_passes
from keras_pe.export.onnx.finishing.reshapes import merge_reshapes, remove_needless_reshapes
from keras_pe.export.onnx.finishing.rules import Rule
from keras_pe.export.onnx.finishing.shape_sources import count_in_64_bits
from keras_pe.export.onnx.finishing.shared_cache import attend_in_place
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from keras_pe.export.onnx.finishing.weight_layouts import Weight, store_as_read
from tests.export.onnx.graph_text import operators, read_graph

SIZES = {"batch": 2, "one": 1, "length": 5, "size": 7, "height": 6, "width": 4}


def apply_pass(text: str, change: Any, opset: int = 18) -> list[str]:
    """Returns the operators after a rule or a pass; fails if it changes the results."""
    model = read_graph(text, opset)
    inputs = {str(value.name): _drawn(value) for value in model.graph.inputs}
    expected = ReferenceEvaluator(ir.to_proto(model)).run(None, inputs)
    (change.apply if isinstance(change, Rule) else change)(model.graph, KnownSizes(model.graph))
    drop_unneeded(model.graph)
    for found, wanted in zip(ReferenceEvaluator(ir.to_proto(model)).run(None, inputs), expected, strict=True):
        # Another order rounds otherwise, by 2**-24 for each of at most 64 terms, which are about 1.
        np.testing.assert_allclose(found, wanted, rtol=64 * 2**-24, atol=64 * 2**-24)
    return operators(model)


def _drawn(value: ir.Value) -> np.ndarray:
    shape = [size if isinstance(size, int) else SIZES[str(size.value)] for size in value.shape]
    numbers, dtype = np.random.default_rng(0).normal(size=shape), value.dtype.numpy()
    if dtype.kind == "b":
        return numbers < 0.25
    return (3 * numbers).astype(dtype) if dtype.kind == "i" else numbers.astype("float32")


ROOT = """(float[batch,8] x, float[8] scale) => (float[batch,8] y)
    <float e = {0.001}, float two = {2.0}, int64[1] last = {-1}> { %s }"""
SQUARES = "s = Mul(x, x)  m = ReduceMean(s, last)  a = Add(m, e)  r = Sqrt(a)  i = Reciprocal(r)  n = Mul(x, i)  %s"
SCALED = ROOT % SQUARES % "y = Mul(n, scale)"
BOUNDS = "(float[batch,4] x) => (float[batch,4] y) <float low = {-0.5}, float high = {0.5}> { %s }"
COUNTED = """(float[7,3] table, int32[batch,length] index) => (float[batch,length,3] y)
    <int32 zero = {0}, int32 rows = {%d}> { below = Less(index, zero)  moved = Add(index, rows)
    place = Where(below, moved, index)  y = Gather(table, place) }"""
IMAGE = "(float[batch,3,%s] x) => (float[batch,3,1,1] y) <int64[2] axes = {2, 3}> { y = ReduceMean(x, axes) }"
EFFECT = """(float[batch,4] x) => (float[batch,4] y) <float unit = {1.0}, int64[1] end = {-1}, int64[1] last = {1},
    int64[1] first = {0}, int64[1] minus = {-1}, int64[1] far = {-2147483648}> { %s  y = Relu(z) }"""
ROWS = """(float[2,length,4] x, float[4,8] w, float[8] b) => (float[2,length,8] y)
    <int64[2] flat = {-1, 4}, int64[1] first = {0}, int64[1] two = {2}, int64[1] wide = {8}>
    { s0 = Shape(x)  lead = Slice(s0, first, two, first)  back = Concat<axis=0>(lead, wide)
      f = Reshape(x, flat)  p = MatMul(f, w)  %s  y = Reshape(z, back) }"""
SHAPES = "(float[2,3,4] x) => (float[n,m,k] y) <int64[1] flat = {24}, int64[3] full = {4, 3, 2}> { %s  y = Relu(u) }"
HALVES = """(float[2,4] a, float[2,4] b) => (float[2,8] y) <int64[1] axis = {%d}, int64[2] joined = {2, 8}>
    { p = Unsqueeze(a, axis)  q = Unsqueeze(b, axis)  s = Concat<axis=%d>(p, q)  y = Reshape(s, joined) }"""
COUNTING = """(float[batch,length,8] x) => (float[length,batch,8] y%s) <int64[1] none = {0}, int64[1] one = {1},
    int64[1] two = {2}, int32[1] width = {8}> { s = Shape(x)  c = Cast<to=6>(s)  b = Slice(c, none, one)
    l = Slice(c, one, two)  all = Concat<axis=0>(l, b, width)  wide = Cast<to=7>(all)  y = Reshape(x, wide) }"""
MASKED = """(float[batch,2,5,6] weights, %s mask, float[batch,2,6,3] values) => (float[batch,2,5,3] y)
    { factor = Cast<to = 1>(mask)  masked = Mul(weights, factor)  y = MatMul(masked, values) }"""
CONVOLUTIONS = """(float[batch,6,4,3] x, float[3,3,1,1] w) => (float[batch,n,4,3] y)
    <float[3] bias = {0.5, 0.25, 0.125}, int64[2] image = {1, 2}, int64[8] ends = {0, 1, 0, 0, 0, 0, 0, 0},
     int64[1] one = {1}, int64[1] last = {3}, int64[1] far = {99}> { t = Transpose<perm=[0,3,1,2]>(x)  c = Conv(t, w)
    u = Transpose<perm=[0,2,3,1]>(c)  %s  v = Transpose<perm=[0,3,1,2]>(z)  d = Conv(v, w)
    y = Transpose<perm=[0,2,3,1]>(d) }"""
ATTENDING = """(float[batch,length,4,8] q, float[batch,size,4,8] k, bool[batch,length,size] allowed, bool[size] even)
    => (float[batch,length,4,8] y) <float half = {0.5}, float none = {0}, float low = {-1e9}, float minus = {-1},
    float lowest = {-inf}, int64[1] head = {1}> { a = Transpose<perm=[0,2,1,3]>(q)  b = Transpose<perm=[0,2,3,1]>(k)
    v = Transpose<perm=[0,2,1,3]>(k)  seen = Unsqueeze(allowed, head)  %s  y = Transpose<perm=[0,2,1,3]>(o) }"""
WEIGHED = ATTENDING % "%s  w = Softmax(c)  o = MatMul(w, v)"
SCORED = WEIGHED % "s = MatMul(a, b)  %s"
BRANCH = """(bool b, float[batch,4] x) => (float[batch,4] y) <int64 two = {2}, int64 three = {3}> { y = If(b) <
    then_branch = one () => (float[batch,4] z) { %s }, else_branch = other () => (float[batch,4] o) { o = Neg(x) }> }"""
PRODUCT, SUMLESS = {"MatMul": 1, "Einsum": 0}, {"Mul": 1, "Einsum": 0}
FUSED, KEPT = {"Attention": 1, "MatMul": 0, "Transpose": 0}, {"Attention": 0, "MatMul": 2}

BATCHES = """(float[%s,2,5,4] q, float[%s,2,4,7] k, float[%s,2,7,4] v, float[%s] f) => (float[batch,2,5,4] y)
    { s = MatMul(q, k)  %s  y = MatMul(w, v) }"""


def _contract(equation: str, left: str, right: str, result: str) -> str:
    """Returns the graph of an Einsum of two tensors, from the equation and the sizes of the tensors and the result."""
    einsum = f"""y = Einsum<equation="{equation}">(x, z)"""
    return f"(float[{left}] x, float[{right}] z) => (float[{result}] y) {{ {einsum} }}"


# A rule or a pass, a graph, and the operators after, or the number of some of them. The operator set is 18, or 23 for
# the operators that it has added.
CHANGES: dict[str, tuple[Any, str, list[str] | dict[str, int]]] = {
    "a scaled root mean square is one operator": (root_mean_square, SCALED, ["RMSNormalization"]),
    "by a power and a division": (root_mean_square, ROOT % """s = Pow(x, two)  m = ReduceMean(s, last)  a = Add(m, e)
        r = Sqrt(a)  n = Div(x, r)  y = Mul(n, scale)""", ["RMSNormalization"]),
    "by a power and a product": (
        root_mean_square, SCALED.replace("Mul(x, x)", "Pow(x, two)"), ["RMSNormalization"]),
    "of a cube": (root_mean_square, SCALED.replace("Mul(x, x)", "Pow(x, two)").replace("{2.0}", "{3.0}"),
        ["Pow", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul"]),
    "without a weight": (root_mean_square, ROOT % SQUARES % "y = Tanh(n)",
        ["Mul", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Tanh"]),
    "without a square": (root_mean_square, ROOT % """s = Mul(x, scale)  m = ReduceMean(s, last)  a = Abs(m)
        r = Sqrt(a)  n = Div(x, r)  y = Mul(n, scale)""", ["Mul", "ReduceMean", "Abs", "Sqrt", "Div", "Mul"]),
    "an average over an image": (average_image, IMAGE % "8,6", ["GlobalAveragePool"]),
    "over a large image, which is less exact": (average_image, IMAGE % "65,64", ["ReduceMean"]),
    "over an image of any size": (average_image, IMAGE % "height,6", ["ReduceMean"]),
    "over a pixel": (average_image, IMAGE % "1,1", ["ReduceMean"]),
    "a Gather counts negative indices itself": (count_from_the_end, COUNTED % 7, ["Gather"]),
    "two bounds, from below first": (clip, BOUNDS % "l = Max(x, low)  y = Min(l, high)", ["Clip"]),
    "from above first": (clip, BOUNDS % "l = Min(x, high)  y = Max(low, l)", ["Clip"]),
    "a bound that is not a number": (clip, BOUNDS % "l = Max(x, x)  y = Min(l, low)", ["Max", "Min"]),
    "a cast to its type": (remove_no_ops, EFFECT % "z = Cast<to=1>(x)", ["Relu"]),
    "casts that lose nothing": (remove_no_ops, EFFECT % "one = Cast<to=11>(x)  z = Cast<to=1>(one)", ["Relu"]),
    "casts around a Transpose": (remove_no_ops, EFFECT % """one = Cast<to=11>(x)  t = Transpose<perm=[1,0]>(one)
        z = Cast<to=1>(t)""", ["Transpose", "Relu"]),
    "casts that lose digits": (
        remove_no_ops, EFFECT % "one = Cast<to=7>(x)  z = Cast<to=1>(one)", ["Cast", "Cast", "Relu"]),
    "an image resized to its size": (remove_no_ops, """(float[batch,2,6,4] x) => (float[batch,2,6,4] y)
        <int64[1] first = {0}, int64[1] two = {2}, int64[2] size = {6, 4}> { shape = Shape(x)
        kept = Slice(shape, first, two)  all = Concat<axis=0>(kept, size)  z = Resize<mode="linear">(x, , , all)
        y = Relu(z) }""", ["Relu"]),
    "one part joined": (remove_no_ops, EFFECT % "z = Concat<axis=0>(x)", ["Relu"]),
    "a product with one": (remove_no_ops, EFFECT % "z = Mul(x, unit)", ["Relu"]),
    "one by another": (remove_no_ops, EFFECT % "z = Div(unit, x)", ["Div", "Relu"]),
    "an axis reversed twice": (remove_no_ops, EFFECT % """back = Slice(x, end, far, last, minus)
        z = Slice(back, end, far, last, minus)""", ["Relu"]),
    "two axes reversed": (remove_no_ops, EFFECT % """back = Slice(x, end, far, first, minus)
        z = Slice(back, end, far, last, minus)""", ["Slice", "Slice", "Relu"]),
    "a number that is spread": (
        remove_no_ops, EFFECT % "shape = Shape(x)  spread = Expand(unit, shape)  z = Add(x, spread)", ["Add", "Relu"]),
    "an Identity in a branch": (
        remove_no_ops, BRANCH % "i = Identity(x)  r = Relu(i)  z = Identity(r)", ["If", "Relu", "Neg"]),
    "a constant of a branch": (
        compute_constants, BRANCH % "n = Mul(two, three)  f = Cast<to=1>(n)  z = Mul(x, f)", ["If", "Mul", "Neg"]),
    "a product takes any number of axes": (remove_needless_reshapes, ROWS % "z = Identity(p)", {"Reshape": 0}),
    "and what is done to each row": (remove_needless_reshapes, ROWS % "s = Add(p, b)  z = Relu(s)", {"Reshape": 0}),
    "and what mixes rows": (remove_needless_reshapes, ROWS % "z = Softmax<axis=0>(p)", {"Reshape": 2}),
    "turned back": (
        merge_reshapes, SHAPES % "t = Transpose<perm=[0,2,1]>(x)  u = Transpose<perm=[0,2,1]>(t)", ["Relu"]),
    "turned twice": (merge_reshapes, SHAPES % "t = Transpose<perm=[0,2,1]>(x)  u = Transpose<perm=[1,0,2]>(t)",
        ["Transpose", "Relu"]),
    "reshaped twice": (merge_reshapes, SHAPES % "t = Reshape(x, flat)  u = Reshape(t, full)", ["Reshape", "Relu"]),
    "values that constants and sizes decide": (compute_constants, """
        (float[batch,6] x) => (float[batch,3,2] y) <int64[1] first = {0}, int64[1] second = {1}, int64[1] two = {2}>
        { shape = Shape(x)  width = Slice(shape, second, two, first)  half = Div(width, two)
          own = Slice(shape, first, second, first)  asked = Concat<axis=0>(own, half, two)  y = Reshape(x, asked) }""",
        ["Shape", "Slice", "Concat", "Reshape"]),
    "a shape of 32 bits that nothing else reads": (
        lambda graph, _: count_in_64_bits(graph), COUNTING % "", ["Shape", "Slice", "Slice", "Concat", "Reshape"]),
    "a shape of which a size is read in 32 bits": (lambda graph, _: count_in_64_bits(graph), COUNTING % ", int32[1] b",
        ["Shape", "Slice", "Cast", "Slice", "Concat", "Reshape"]),
    "a shape whose sizes are read in 32 bits": (
        lambda graph, _: count_in_64_bits(graph), COUNTING % ", int32[1] b, int32[1] l",
        ["Shape", "Cast", "Slice", "Slice", "Concat", "Cast", "Reshape"]),
    "a reduction keeps the axes that are put back": (remove_needless_reshapes, """
        (float[batch,3,4] x) => (float[batch,3,1] y) <int64[1] last = {2}>
        { m = ReduceMean<keepdims=0>(x, last)  y = Unsqueeze(m, last) }""", ["ReduceMean"]),
    "halves that are stacked and joined": (remove_needless_reshapes, HALVES % (1, 1), ["Concat"]),
    "halves that alternate": (remove_needless_reshapes, HALVES % (2, 2), {"Unsqueeze": 2, "Concat": 1, "Reshape": 1}),
    # Without a batch, no Reshape infers the length.
    "a single head is an axis that is added": (merge_reshapes, """
        (float[batch,length,8] x) => (float[batch,1,length,8] y) <int64[4] heads = {0, 0, 1, 8}>
        { r = Reshape(x, heads)  y = Transpose<perm=[0,2,1,3]>(r) }""", ["Unsqueeze"]),
    "one row is split into heads": (merge_reshapes, """
        (float[batch,1,8] x) => (float[batch,2,1,4] y) <int64[4] heads = {0, 0, 2, 4}>
        { r = Reshape(x, heads)  y = Transpose<perm=[0,2,1,3]>(r) }""", ["Reshape"]),
    "an axis of one moves before it is dropped": (merge_reshapes, """
        (float[batch,3,1,length] x) => (float[batch,3,length] y) <int64[1] axis = {1}>
        { t = Transpose<perm=[0,2,1,3]>(x)  y = Squeeze(t, axis) }""", ["Squeeze"]),
    "turned back around an axis that is added": (merge_reshapes, """
        (float[batch,3,length] x) => (float[batch,3,1,length] y) <int64[1] axis = {1}>
        { t = Transpose<perm=[0,2,1]>(x)  w = Unsqueeze(t, axis)  y = Transpose<perm=[0,3,1,2]>(w) }""", ["Unsqueeze"]),
    "turned otherwise": (merge_reshapes, """
        (float[batch,3,length] x) => (float[3,batch,1,length] y) <int64[1] axis = {1}>
        { t = Transpose<perm=[0,2,1]>(x)  w = Unsqueeze(t, axis)  y = Transpose<perm=[3,0,1,2]>(w) }""",
        ["Transpose", "Unsqueeze", "Transpose"]),
    "equal operators, constants and nodes that nothing reads": (lambda graph, _: merge_equal(graph), """
        (float[batch,3] x) => (float[batch,3] y) <float one = {1.5}, float same = {1.5}>
        { lost = Exp(x)  a = Add(x, one)  b = Add(x, same)  c = Neg(b)  y = Mul(a, c) }""", ["Add", "Neg", "Mul"]),
    "the order in which the outputs need them": (lambda graph, _: order_needed(graph), """
        (float[batch,3] x) => (float[batch,3] y) { b = Neg(x)  a = Abs(x)  y = Sub(a, b) }""", ["Abs", "Neg", "Sub"]),
    "an image is transposed before it is scaled": (transpose_before_scaling, """
        (float[batch,6,4,3] x, float[2,3,1,1] w) => (float[batch,2,6,4] y)
        <float[3] mean = {0.5, 0.25, 0.125}, float half = {0.5}>
        { a = Mul(x, half)  b = Sub(a, mean)  t = Transpose<perm=[0,3,1,2]>(b)  y = Conv(t, w) }""",
        ["Transpose", "Mul", "Sub", "Conv"]),
    "factors change places instead of their product": (swap_factors, """
        (float[2,3,4] x, float[5,4,2] z) => (float[2,5,3] y) { a = Transpose<perm=[0,1,2]>(x)
        b = Transpose<perm=[2,1,0]>(z)  p = MatMul(a, b)  y = Transpose<perm=[0,2,1]>(p) }""",
        ["Transpose", "Transpose", "MatMul"]),
    "two regions share one transposed negative": (compute_channels_first, """
        (float[batch,3,6,4] x) => (float[batch,3,6,4] y, float[batch,6,4,3] z) { t = Transpose<perm=[0,2,3,1]>(x)
        n = Neg(t)  c = Transpose<perm=[0,3,1,2]>(n)  y = Tanh(c)  z = Softmax(n) }""",
        ["Neg", "Tanh", "Transpose", "Softmax"]),
    "a line is an image of one row between convolutions": (run_1d_as_2d, """
        (float[batch,3,1,4] x, float[3,3,1,1] w) => (float[batch,3,1,4] y) <int64[1] row = {2}, float bias = {0.5}>
        { c = Conv(x, w)  s = Squeeze(c, row)  a = Add(s, bias)  r = Relu(a)  u = Unsqueeze(r, row)
          y = Conv(u, w) }""", ["Conv", "Add", "Relu", "Conv"]),
    "a contraction to heads": (multiply_matrices, _contract("abc,cde->abde", "2,length,4", "4,3,5", "2,length,3,5"),
        ["Reshape", "MatMul", "Reshape"]),
    "one that is not turned": (multiply_matrices, _contract("adb,abc->adc", "2,3,4", "2,4,5", "2,3,5"), ["MatMul"]),
    "one turned": (
        multiply_matrices, _contract("abc,abd->acd", "2,length,4", "2,length,5", "2,4,5"), ["Transpose", "MatMul"]),
    "all turned": (multiply_matrices, _contract("abc,acd->dab", "2,length,4", "2,4,5", "5,2,length"),
        ["Transpose", "Transpose", "MatMul", "Transpose"]),
    "without a batch": (multiply_matrices, _contract("nh,bhw->bnw", "5,6", "2,6,4", "2,5,4"), ["Einsum"]),
    "three axes": (multiply_matrices, _contract("abcde,ace->abcd", "2,3,4,5,6", "2,4,6", "2,3,4,5"), ["Einsum"]),
    "back from heads": (
        multiply_matrices, _contract("abcd,cde->abe", "2,length,4,3", "4,3,5", "2,length,5"), PRODUCT),
    "scores": (
        multiply_matrices, _contract("aecd,abcd->acbe", "2,size,4,3", "2,length,4,3", "2,4,length,size"), PRODUCT),
    "their use": (
        multiply_matrices, _contract("acbe,aecd->abcd", "2,4,length,size", "2,size,4,3", "2,length,4,3"), PRODUCT),
    "scores of groups": (multiply_matrices,
        _contract("abcde,aAce->acdbA", "2,length,4,3,5", "2,size,4,5", "2,4,3,length,size"), PRODUCT),
    "their use in groups": (multiply_matrices,
        _contract("acdbA,aAce->abcde", "2,4,3,length,size", "2,size,4,5", "2,length,4,3,5"), PRODUCT),
    "scores of any number of heads": (multiply_matrices,
        _contract("abcde,aAce->acdbA", "2,length,height,width,5", "2,size,height,5", "2,height,width,length,size"),
        PRODUCT),
    "their use in any number of groups": (multiply_matrices,
        _contract("acdbA,aAce->abcde", "2,4,width,length,size", "2,size,4,5", "2,length,4,width,5"), PRODUCT),
    "nothing summed": (
        multiply_matrices, _contract("ab,c->cba", "2,3", "4", "4,3,2"), ["Transpose", "Unsqueeze", "Unsqueeze", "Mul"]),
    "nothing summed of matrices": (multiply_matrices, _contract("ab,cd->abcd", "2,3", "4,5", "2,3,4,5"), SUMLESS),
    "nothing summed, in order": (multiply_matrices, _contract("ab,c->abc", "2,3", "4", "2,3,4"), SUMLESS),
    "entry by entry": (multiply_matrices, _contract("ba,ab->ab", "2,3", "3,2", "3,2"), SUMLESS),
    "entry by entry of a row": (multiply_matrices, _contract("ab,b->ba", "2,3", "3", "3,2"), SUMLESS),
    "rows are masked after the product": (
        mask_rows_of_product, MASKED % "bool[batch,1,1,1]", ["Cast", "MatMul", "Mul"]),
    "columns before": (mask_rows_of_product, MASKED % "bool[batch,1,1,6]", ["Cast", "Mul", "MatMul"]),
    "factors that are not a mask before": (
        mask_rows_of_product, MASKED % "float[batch,1,1,1]", ["Cast", "Mul", "MatMul"]),
    "a bias between convolutions": (compute_channels_first, CONVOLUTIONS % "a = Add(u, bias)  z = Relu(a)",
        {"Transpose": 2}),
    "attention to channels": (compute_channels_first,
        CONVOLUTIONS % "m = ReduceMean(u, image)  s = Sigmoid(m)  z = Mul(u, s)", {"Transpose": 2}),
    "attention to pixels": (compute_channels_first,
        CONVOLUTIONS % "m = ReduceMean(u, last)  s = Sigmoid(m)  z = Mul(u, s)", {"Transpose": 2}),
    "images joined": (compute_channels_first, CONVOLUTIONS % "z = Concat<axis=1>(u, u)", {"Transpose": 2}),
    "images padded and cut": (compute_channels_first,
        CONVOLUTIONS % "p = Pad(u, ends)  z = Slice(p, one, far, one)", {"Transpose": 2}),
    "along the channels": (compute_channels_first, CONVOLUTIONS % "z = Softmax(u)", {"Transpose": 4}),
    "attention": (attend, WEIGHED % "c = MatMul(a, b)", FUSED),
    "queries times a number": (attend, WEIGHED % "d = Mul(a, half)  c = MatMul(d, b)", FUSED),
    "over a number": (attend, SCORED % "c = Div(s, half)", FUSED),
    "a mask added": (attend, SCORED % "m = Where(seen, none, low)  c = Add(m, s)", FUSED),
    "a mask taken away": (attend, SCORED % "m = Where(seen, none, half)  c = Sub(s, m)", FUSED),
    "a mask chosen": (attend, SCORED % "c = Where(seen, s, low)", FUSED),
    "two masks chosen": (attend, SCORED % "m = Where(seen, s, low)  c = Where(even, low, m)", FUSED),
    "a contraction": (attend, WEIGHED % """c = Einsum<equation="btnh,bsnh->bnts">(q, k)""", FUSED),
    "keys first": (
        attend, WEIGHED % """r = Einsum<equation="bsnh,btnh->bnst">(k, q)  c = Transpose<perm=[0,1,3,2]>(r)""", FUSED),
    "one head": (attend, """(float[batch,length,8] q, float[batch,size,8] k, bool[batch,length,size] allowed)
        => (float[batch,length,8] y) <float half = {0.5}, float none = {0}, float low = {-1e9}> {
        b = Transpose<perm=[0,2,1]>(k)  s = MatMul(q, b)  m = Where(allowed, none, low)  c = Add(s, m)
        h = Mul(c, half)  w = Softmax(h)  y = MatMul(w, k) }""", FUSED),
    "values first": (attend, ATTENDING % """s = MatMul(a, b)  w = Softmax(s)  x = Transpose<perm=[0,1,3,2]>(w)
        u = Transpose<perm=[0,1,3,2]>(v)  p = MatMul(u, x)  o = Transpose<perm=[0,1,3,2]>(p)""",
        {"Attention": 1, "MatMul": 0}),
    "a scale of zero": (attend, SCORED % "c = Mul(s, none)", KEPT),
    "an added mask of minus infinity": (attend, SCORED % "m = Where(seen, none, lowest)  c = Add(s, m)", KEPT),
    "a mask of more examples than the scores": (attend, """(float[one,4,length,8] q, float[one,4,8,size] k,
        float[one,4,size,8] v, float[batch,1,length,size] m) => (float[batch,4,length,8] y) { s = MatMul(q, k)
        c = Add(s, m)  w = Softmax(c)  y = Einsum<equation="bnts,bnsh->bnth">(w, v) }""", {"Attention": 0}),
    "over channels": (attend, """(float[batch,length,8] q, float[batch,size,8] k) => (float[batch,length,8] y) {
        t = Transpose<perm=[0,2,1]>(k)  s = MatMul(t, k)  w = Softmax(s)  y = MatMul(q, w) }""", KEPT),
    "factors of a softmax over rows": (
        attend, BATCHES % (*["batch"] * 3, "batch,2,5,1", "p = Softmax<axis=2>(s)  w = Mul(p, f)"), KEPT),
    "a factor": (attend, BATCHES % (*["batch"] * 3, "1", "p = Softmax(s)  w = Mul(p, f)"), KEPT),
    "factors of rows": (attend, BATCHES % (*["batch"] * 3, "5,1", "p = Softmax(s)  w = Mul(p, f)"), {"Attention": 1}),
    "keys of one batch": (attend, BATCHES % ("batch", "one", "one", "1", "w = Softmax(s)"), KEPT),
    "queries of one batch": (attend, WEIGHED.replace("[batch,length,4,8] q", "[one,length,4,8] q")
        % """c = Einsum<equation="btnh,bsnh->bnts">(q, k)""", {"Attention": 0, "Einsum": 1}),
    "scores summed over heads": (attend, ATTENDING % """s = Einsum<equation="btnh,bsnh->bts">(q, k)  w = Softmax(s)
        o = Einsum<equation="bts,bnsh->bnth">(w, v)""", {"Attention": 0, "Einsum": 2}),
    "queries without a batch": (
        attend, BATCHES.replace("%s,2,5,4] q", "%s,5,4] q") % ("2", "one", "one", "1", "w = Softmax(s)"), KEPT),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text", "left"), CHANGES.values(), ids=CHANGES)
def test_a_pass_leaves_the_operators_that_are_needed(change: Any, text: str, left: list[str] | dict[str, int]) -> None:
    found = apply_pass(text, change, 23 if change in (attend, root_mean_square) else 18)
    assert (found if isinstance(left, list) else {name: found.count(name) for name in left}) == left


RETURNED = WEIGHED.replace("8] y)", "8] y, float[batch,4,length,size] w)")


def _chain(count: int, step: str) -> str:
    """Returns attention whose scores are computed by equal steps."""
    steps = "  ".join(f"s{number + 1} = {step.format(number)}" for number in range(count))
    return f"""(float[b,h,n,m] x, float[1] f, float[b,h,m,4] v) => (float[b,h,n,4] y)
        {{ s0 = Relu(x)  {steps}  w = Softmax(s{count})  y = MatMul(w, v) }}"""


# A rule, a graph, its operator set, and a part of the reason why the pattern stays. Without a pattern, no reason.
STAYING: dict[str, tuple[Rule, str, int, str | None]] = {
    "operator set": (root_mean_square, SCALED, 18, "operator set 18"),
    "two numbers": (root_mean_square, SCALED.replace("float e = {0.001}", "float[2] e = {0.001, 0.002}").replace(
        "[batch,8]", "[2,2,8]"), 23, "epsilon"),
    "a scale for each row": (root_mean_square, SCALED.replace("float[8] scale", "float[batch,8] scale"), 23, "axes"),
    "bounds that cross": (clip, BOUNDS % "l = Max(x, high)  y = Min(l, low)", 18, "bound"),
    "another size": (count_from_the_end, COUNTED % 5, 18, "size"),
    "attention below its operator set": (attend, WEIGHED % "c = MatMul(a, b)", 18, "operator set"),
    "a scale below zero": (attend, SCORED % "c = Mul(s, minus)", 23, "not positive"),
    "minus infinity": (attend, SCORED % "c = Where(seen, s, lowest)", 23, "minus infinity"),
    "capped": (attend, SCORED % "c = Tanh(s)", 23, "its scores"),
    "a tensor beside": (attend, SCORED % "c = Mul(s, s)", 23, "its scores"),
    "scores that are returned": (attend, RETURNED % "c = MatMul(a, b)", 23, "its scores are returned"),
    "another softmax": (attend, ATTENDING % "s = MatMul(a, b)  w = Softmax<axis=2>(s)  o = MatMul(w, v)", 23, None),
    "read elsewhere": (
        attend, ATTENDING % "s = MatMul(a, b)  p = Softmax(s)  w = Add(p, p)  o = MatMul(w, v)", 23, None),
    # 2**40 ways to read a chain would take years.
    "a chain of sums": (attend, _chain(40, "Add(s{0}, s{0})"), 23, ""),
    "a chain of products": (attend, _chain(40, "Mul(s{0}, s{0})"), 23, ""),
    "a chain of factors, deeper than Python's stack": (attend, _chain(2000, "Mul(s{0}, f)"), 23, ""),
}  # fmt: skip


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("rule", "text", "opset", "reason"), STAYING.values(), ids=STAYING)
def test_a_pattern_that_stays_has_a_reason(rule: Rule, text: str, opset: int, reason: str | None) -> None:
    model = read_graph(text, opset)
    before = operators(model).count(rule.operator)
    reasons = [outcome.reason for outcome in rule.apply(model.graph, KnownSizes(model.graph))]
    assert operators(model).count(rule.operator) == before
    assert [bool(each) and reason in each for each in reasons] == [True] * (reason is not None)


def test_the_batch_is_known_after_a_convolution_of_reshaped_rows() -> None:
    model = read_graph("""(float[batch,64,4] x, float[4,4,2,2] w, float[1] c) => (float[n] y, float[m] z)
        <int64[1] first = {0}, int64[1] second = {1}, int64[3] image = {8, 8, 4}, int64[3] rows = {-1, 16, 4}>
        { s = Shape(x)  b = Slice(s, first, second)  whole = Concat<axis=0>(b, image)  r = Reshape(x, whole)
          i = Transpose<perm=[0,3,1,2]>(r)  o = Conv<strides=[2,2]>(i, w)  l = Transpose<perm=[0,2,3,1]>(o)
          t = Reshape(l, rows)  u = Shape(t)  d = Slice(u, first, second)  y = Expand(c, b)  z = Expand(c, d) }""")
    place_in_layers(model.graph, str)
    run_passes(Graph(model, {}))
    assert operators(model) == ["Shape", "Expand", "Expand"]


@pytest.mark.parametrize(("shape", "axes"), [("batch,3,1", 3), ("batch,1,3", 0), ("1", 0)])
def test_a_number_has_the_axes_of_a_tensor_with_a_last_axis_of_one(shape: str, axes: int) -> None:
    model = read_graph(f"(float[{shape}] x) => (float[{shape}] y) <float three = {{3}}> {{ y = Add(x, three) }}")
    add_axes_of_numbers.apply(model.graph, KnownSizes(model.graph))
    (addition,) = model.graph
    assert len(addition.inputs[1].shape) == axes


def test_a_weight_is_stored_as_the_operator_reads_it() -> None:
    model = read_graph("""(float[batch,3,6,4] x, float[1,1,3,2] kernel) => (float[batch,2,6,4] y)
        { k = Transpose<perm=[3,2,0,1]>(kernel)  y = Conv(x, k) }""")
    kernel = model.graph.inputs[1]
    kernel.meta[WEIGHT] = Weight("kernel", "", np.zeros((1, 1, 3, 2), "float32"))
    store_as_read(model.graph)
    assert operators(model) == ["Conv"]
    assert kernel.meta[WEIGHT].shape == (2, 3, 1, 1)
    assert list(kernel.shape) == [2, 3, 1, 1]


@pytest.mark.parametrize(("heads", "tokens", "dtype", "order", "branch"), [
    (2, 1, "float", "heads first", 0),
    (4, 1, "float", "heads first", 0),
    (4, 3, "float", "heads first", 0),
    (4, 1, "float16", "heads first", 0),
    (4, 1, "float", "groups first", 1),
], ids=["one token", "half as many heads of keys", "several tokens", "float16", "another order"])  # fmt: skip
def test_a_step_reads_projections_and_a_shared_cache_in_place_and_returns_the_same_numbers(
    heads: int, tokens: int, dtype: str, order: str, branch: int
) -> None:
    groups, back = heads // 2, 10 if dtype == "float16" else 1
    split = {
        "heads first": """q = Reshape(x, each)  first = Transpose<perm = [0, 2, 1, 3]>(q)
            queries = Reshape(first, pairs)""",
        "groups first": "q = Reshape(x, split)  queries = Transpose<perm = [0, 2, 1, 3]>(q)",
    }
    text = f"""({dtype}[batch,count,{heads * 8}] x, {dtype}[batch,count,16] k, {dtype}[batch,count,16] v,
        int64[batch] at, bool[batch,1,rows,total] seen, {dtype}[batch,2,16,8] past_k, {dtype}[batch,2,16,8] past_v)
        => ({dtype}[batch,count,{heads * 8}] y, {dtype}[batch,2,16,8] new_k, {dtype}[batch,2,16,8] new_v)
        <int64[4] split = {{0, -1, 2, 8}}, int64[4] each = {{0, 0, {heads}, 8}}, int64[4] pairs = {{0, 2, -1, 8}},
         int64[1] width = {{8}}, int64[1] all = {{{heads}}}, int64[3] flat = {{0, 0, {heads * 8}}},
         int64[1] zero = {{0}}, int64[1] end = {{7}}, int64[1] two = {{2}}, int64[1] last = {{-1}},
         float half = {{0.5}}, float none = {{0}}, float hidden = {{-1e30}}, float least = {{0.5}}> {{
        {split[order]}
        k_split = Reshape(k, split)  own_k = Transpose<perm = [0, 2, 1, 3]>(k_split)
        v_split = Reshape(v, split)  own_v = Transpose<perm = [0, 2, 1, 3]>(v_split)
        new_k = TensorScatter<axis = 2>(past_k, own_k, at)  new_v = TensorScatter<axis = 2>(past_v, own_v, at)
        keys = Slice(new_k, zero, end, two)  values = Slice(new_v, zero, end, two)
        turned = Transpose<perm = [0, 1, 3, 2]>(keys)  products = MatMul(queries, turned)
        wide = Cast<to = 1>(products)  scaled = Mul(wide, half)  mask = Where(seen, none, hidden)
        scores = Add(scaled, mask)  weights = Softmax(scores)
        numbers = Cast<to = 1>(seen)  sees = ReduceMax(numbers, last)  kept = Mul(weights, sees)
        narrow = Cast<to = {back}>(kept)  rows_of_pairs = MatMul(narrow, values)
        b = Shape<start = 0, end = 1>(x)  c = Shape<start = 1, end = 2>(x)  full = Concat<axis = 0>(b, all, c, width)
        of_heads = Reshape(rows_of_pairs, full)  turned_back = Transpose<perm = [0, 2, 1, 3]>(of_heads)
        y = Reshape(turned_back, flat) }}"""
    model = read_graph(text, opset=24)
    inputs = dict(
        zip(["x", "k", "v", "at", "seen", "past_k", "past_v"], draw_cached_inputs(heads, groups, tokens), strict=True)
    )
    narrow = np.float16 if dtype == "float16" else np.float32
    inputs = {name: each.astype(narrow) if each.dtype == np.float32 else each for name, each in inputs.items()}
    expected = run(model, inputs)
    attend_in_place.apply(model.graph, KnownSizes(model.graph))
    drop_unneeded(model.graph)
    (choice,) = (node for node in model.graph if node.op_type == "If")
    step = [node.op_type for node in choice.attributes["then_branch"].value]
    assert step == ["Reshape"] * branch + ["GroupQueryAttention", "Mul"]
    model.graph.opset_imports["com.microsoft"] = 1
    for number, value in enumerate(value for node in model.graph.all_nodes() for value in node.outputs):
        value.name = value.name if value in model.graph.outputs else f"result_{number}"
    for found, wanted in zip(run(model, inputs), expected, strict=True):
        # Sums of at most 8 products of numbers below 4, and of 7 weights, in another order. A score below 16 rounds by
        # 2**-7 in float16, on both sides, and the weights of values below 4 differ by this share.
        np.testing.assert_allclose(found, wanted, atol=16 * 2.0**-21 if narrow == np.float32 else 2.0**-4)


def draw_cached_inputs(heads: int, groups: int, tokens: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    past = [rng.normal(size=(2, 2, 16, 8)).astype("float32") for _ in range(2)]
    for each in past:
        each[:, :, 7:] = 0  # the operator clears the rows after the call
    new = [rng.normal(size=(2, tokens, 16)).astype("float32") for _ in range(2)]
    x = rng.normal(size=(2, tokens, heads * 8)).astype("float32")
    rows = np.tile(np.arange(7 - tokens, 7), groups)
    seen = np.broadcast_to(np.arange(7) <= rows[:, None], (2, 1, tokens * groups, 7)) | False
    seen[1, :, :, 0] = False  # padding
    return [x, *new, np.full(2, 7 - tokens), seen, *past]


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of a graph in ONNX Runtime."""
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    return list(session.run(None, inputs))
