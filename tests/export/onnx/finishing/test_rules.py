"""Each pass on a graph of a few nodes: which operators are left, and that they return the same numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from keras_pe.export.onnx.finishing import (
    constants,
    einsum_rewrites,
    image_axes,
    image_rows,
    operator_rewrites,
    reshapes,
    shared_cache,
    weight_layouts,
)
from keras_pe.export.onnx.finishing.attention import attend
from keras_pe.export.onnx.finishing.canonical_form import merge_equal, order_needed
from keras_pe.export.onnx.finishing.graph_edits import WEIGHT, drop_unneeded
from keras_pe.export.onnx.finishing.rules import Rule
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from tests.export.onnx.graph_text import operators, read_graph

SIZES = {"batch": 2, "one": 1, "length": 5, "size": 7, "height": 6, "width": 4}


def apply_pass(text: str, change: Callable[[ir.Graph, KnownSizes], Any], *, opset: int = 18) -> list[str]:
    """Returns the operators after a pass; fails if the pass changes the results."""
    model = read_graph(text, opset)
    inputs = {str(value.name): _drawn(value) for value in model.graph.inputs}
    expected = ReferenceEvaluator(ir.to_proto(model)).run(None, inputs)
    change(model.graph, KnownSizes(model.graph))
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
SQUARES = "s = Mul(x, x)  m = ReduceMean(s, %s)  a = Add(m, e)  r = Sqrt(a)  i = Reciprocal(r)  n = Mul(x, i)  %s"


@pytest.mark.parametrize(("text", "has_operator", "left"), [
    (SQUARES % ("last", "y = Mul(n, scale)"), True, ["RMSNormalization"]),
    (SQUARES % ("last", "y = Mul(scale, n)"), False, ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]),
    ("s = Pow(x, two)  m = ReduceMean(s, last)  a = Add(m, e)  r = Sqrt(a)  n = Div(x, r)  y = Mul(n, scale)", True,
     ["RMSNormalization"]),
    (SQUARES % ("last", "y = Tanh(n)"), True, ["Mul", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Tanh"]),
    ("s = Mul(x, scale)  m = ReduceMean(s, last)  a = Abs(m)  r = Sqrt(a)  n = Div(x, r)  y = Mul(n, scale)", True,
     ["Mul", "ReduceMean", "Abs", "Sqrt", "Div", "Mul"]),
], ids=["one operator", "a power and a division", "as Keras traces it", "no weight", "no square"])  # fmt: skip
def test_a_division_by_a_root_mean_square_is_the_operator_for_it(
    text: str, has_operator: bool, left: list[str]
) -> None:
    rule = operator_rewrites.root_mean_square
    assert apply_pass(ROOT % text, rule.apply, opset=23 if has_operator else 18) == left


@pytest.mark.parametrize(("rule", "text", "opset", "reason"), [
    (operator_rewrites.root_mean_square, ROOT % SQUARES % ("last", "y = Mul(n, scale)"), 18, "operator set 18"),
    (operator_rewrites.root_mean_square, (ROOT % SQUARES % ("last", "y = Mul(n, scale)")).replace(
        "float e = {0.001}", "float[2] e = {0.001, 0.002}").replace("[batch,8]", "[2,2,8]"), 23, "epsilon"),
    (operator_rewrites.root_mean_square, (ROOT % SQUARES % ("last", "y = Mul(n, scale)")).replace(
        "float[8] scale", "float[batch,8] scale"), 23, "axes"),
    (operator_rewrites.clip, """(float[batch,4] x) => (float[batch,4] y) <float low = {-0.5}, float high = {0.5}>
        { l = Max(x, high)  y = Min(l, low) }""", 18, "bound"),
    (operator_rewrites.count_from_the_end, """(float[7,3] table, int32[2] index) => (float[2,3] y)
        <int32 zero = {0}, int32 rows = {5}> { below = Less(index, zero)  moved = Add(index, rows)
        place = Where(below, moved, index)  y = Gather(table, place) }""", 18, "size"),
], ids=["operator set", "two numbers", "a scale for each row", "bounds that cross", "another size"])  # fmt: skip
def test_a_pattern_that_stays_has_a_reason(rule: Rule, text: str, opset: int, reason: str) -> None:
    model = read_graph(text, opset)
    (outcome,) = rule.apply(model.graph, KnownSizes(model.graph))
    assert rule.operator not in operators(model) or rule.operator == "Gather"
    assert (outcome.operator, reason in outcome.reason) == (rule.operator, True)


@pytest.mark.parametrize(("size", "operator"), [
    ("8,6", "GlobalAveragePool"), ("65,64", "ReduceMean"), ("height,6", "ReduceMean"), ("1,1", "ReduceMean"),
], ids=["an image", "a large one", "one of any size", "a pixel"])  # fmt: skip
def test_an_average_over_an_image_is_the_operator_that_is_as_exact(size: str, operator: str) -> None:
    text = (
        f"(float[batch,3,{size}] x) => (float[batch,3,1,1] y) <int64[2] axes = {{2, 3}}> {{ y = ReduceMean(x, axes) }}"
    )
    assert apply_pass(text, operator_rewrites.average_image.apply) == [operator]


@pytest.mark.parametrize(("shape", "axes"), [("batch,3,1", 3), ("batch,1,3", 0), ("1", 0)])
def test_a_number_has_the_axes_of_a_tensor_with_a_last_axis_of_one(shape: str, axes: int) -> None:
    model = read_graph(f"(float[{shape}] x) => (float[{shape}] y) <float three = {{3}}> {{ y = Add(x, three) }}")
    operator_rewrites.add_axes_of_numbers.apply(model.graph, KnownSizes(model.graph))
    (addition,) = model.graph
    assert len(addition.inputs[1].shape) == axes


@pytest.mark.parametrize(("rows", "left"), [(7, ["Gather"]), (5, ["Less", "Add", "Where", "Gather"])])
def test_a_gather_counts_negative_indices_itself(rows: int, left: list[str]) -> None:
    text = f"""(float[7,3] table, int32[batch,length] index) => (float[batch,length,3] y)
        <int32 zero = {{0}}, int32 rows = {{{rows}}}> {{
        asked = Less(index, zero)  moved = Add(index, rows)  place = Where(asked, moved, index)
        y = Gather(table, place) }}"""
    model = read_graph(text)
    operator_rewrites.count_from_the_end.apply(model.graph, KnownSizes(model.graph))
    drop_unneeded(model.graph)
    assert operators(model) == left


@pytest.mark.parametrize(("text", "left"), [
    ("l = Max(x, low)  y = Min(l, high)", ["Clip"]),
    ("l = Min(x, high)  y = Max(low, l)", ["Clip"]),
    ("l = Max(x, high)  y = Min(l, low)", ["Max", "Min"]),
    ("l = Max(x, x)  y = Min(l, low)", ["Max", "Min"]),
], ids=["from below first", "from above first", "bounds that cross", "no number"])  # fmt: skip
def test_two_bounds_are_one_operator(text: str, left: list[str]) -> None:
    shape = "(float[batch,4] x) => (float[batch,4] y) <float low = {-0.5}, float high = {0.5}>"
    assert apply_pass(f"{shape} {{ {text} }}", operator_rewrites.clip.apply) == left


@pytest.mark.parametrize(("text", "left"), [
    ("one = Cast<to=1>(x)  y = Relu(one)", ["Relu"]),
    ("one = Cast<to=11>(x)  two = Cast<to=1>(one)  y = Relu(two)", ["Relu"]),
    ("one = Cast<to=7>(x)  two = Cast<to=1>(one)  y = Relu(two)", ["Cast", "Cast", "Relu"]),
    ("same = Mul(x, unit)  y = Relu(same)", ["Relu"]),
    ("same = Div(unit, x)  y = Relu(same)", ["Div", "Relu"]),
    ("back = Slice(x, end, far, last, minus)  again = Slice(back, end, far, last, minus)  y = Relu(again)", ["Relu"]),
    ("back = Slice(x, end, far, first, minus)  again = Slice(back, end, far, last, minus)  y = Relu(again)",
     ["Slice", "Slice", "Relu"]),
    ("shape = Shape(x)  spread = Expand(unit, shape)  y = Add(x, spread)", ["Add"]),
], ids=["a cast to its type", "casts that lose nothing", "a cast that loses something", "a product with one",
        "one by another", "reversed twice", "reversed along two axes", "a number that is spread"])  # fmt: skip
def test_operators_without_effect_are_left_out(text: str, left: list[str]) -> None:
    shape = """(float[batch,4] x) => (float[batch,4] y) <float unit = {1.0}, int64[1] end = {-1}, int64[1] last = {1},
        int64[1] first = {0}, int64[1] minus = {-1}, int64[1] far = {-2147483648}>"""
    assert apply_pass(f"{shape} {{ {text} }}", constants.remove_no_ops) == left


@pytest.mark.parametrize(("text", "left"), [
    ("f = Reshape(x, flat)  p = MatMul(f, w)  y = Reshape(p, back)", ["MatMul"]),
    ("f = Reshape(x, flat)  p = MatMul(f, w)  s = Add(p, b)  r = Relu(s)  y = Reshape(r, back)",
     ["MatMul", "Add", "Relu"]),
    ("f = Reshape(x, flat)  p = MatMul(f, w)  s = Softmax<axis=0>(p)  y = Reshape(s, back)",
     ["Reshape", "MatMul", "Softmax", "Reshape"]),
], ids=["a product", "and what is done to each row", "and what mixes rows"])  # fmt: skip
def test_a_product_takes_any_number_of_axes(text: str, left: list[str]) -> None:
    shape = """(float[2,length,4] x, float[4,8] w, float[8] b) => (float[2,length,8] y)
        <int64[2] flat = {-1, 4}, int64[1] first = {0}, int64[1] two = {2}, int64[1] wide = {8}>"""
    sizes = "s0 = Shape(x)  lead = Slice(s0, first, two, first)  back = Concat<axis=0>(lead, wide)"
    found = apply_pass(f"{shape} {{ {sizes}  {text} }}", reshapes.remove_needless_reshapes)
    assert [name for name in found if name not in ("Shape", "Slice", "Concat")] == left


@pytest.mark.parametrize(("text", "left"), [
    ("t = Transpose<perm=[0,2,1]>(x)  u = Transpose<perm=[0,2,1]>(t)  y = Relu(u)", ["Relu"]),
    ("t = Transpose<perm=[0,2,1]>(x)  u = Transpose<perm=[1,0,2]>(t)  y = Relu(u)", ["Transpose", "Relu"]),
    ("t = Reshape(x, flat)  u = Reshape(t, full)  y = Relu(u)", ["Reshape", "Relu"]),
], ids=["turned back", "turned twice", "reshaped twice"])  # fmt: skip
def test_shapes_in_a_row_are_one_or_none(text: str, left: list[str]) -> None:
    shape = "(float[2,3,4] x) => (float[n,m,k] y) <int64[1] flat = {24}, int64[3] full = {4, 3, 2}>"
    assert apply_pass(f"{shape} {{ {text} }}", reshapes.merge_reshapes) == left


HALVES = """(float[2,4] a, float[2,4] b) => (float[2,8] y) <int64[1] axis = {%d}, int64[2] joined = {2, 8}>
    { p = Unsqueeze(a, axis)  q = Unsqueeze(b, axis)  s = Concat<axis=%d>(p, q)  y = Reshape(s, joined) }"""
PASSES: dict[str, tuple[Callable[[ir.Graph, KnownSizes], Any], str, list[str]]] = {
    "values that constants and sizes decide": (constants.compute_constants, """
        (float[batch,6] x) => (float[batch,3,2] y) <int64[1] first = {0}, int64[1] second = {1}, int64[1] two = {2}>
        { shape = Shape(x)  width = Slice(shape, second, two, first)  half = Div(width, two)
          own = Slice(shape, first, second, first)  asked = Concat<axis=0>(own, half, two)  y = Reshape(x, asked) }""",
        ["Shape", "Slice", "Concat", "Reshape"]),
    "a reduction keeps the axes that are put back": (reshapes.remove_needless_reshapes, """
        (float[batch,3,4] x) => (float[batch,3,1] y) <int64[1] last = {2}>
        { m = ReduceMean<keepdims=0>(x, last)  y = Unsqueeze(m, last) }""", ["ReduceMean"]),
    "halves that are stacked and joined": (reshapes.remove_needless_reshapes, HALVES % (1, 1), ["Concat"]),
    "halves that alternate": (
        reshapes.remove_needless_reshapes, HALVES % (2, 2), ["Unsqueeze", "Unsqueeze", "Concat", "Reshape"]),
    # Without a batch, no Reshape infers the length.
    "a single head is an axis that is added": (reshapes.merge_reshapes, """
        (float[batch,length,8] x) => (float[batch,1,length,8] y) <int64[4] heads = {0, 0, 1, 8}>
        { r = Reshape(x, heads)  y = Transpose<perm=[0,2,1,3]>(r) }""", ["Unsqueeze"]),
    "an image is transposed before it is scaled": (operator_rewrites.transpose_before_scaling.apply, """
        (float[batch,6,4,3] x, float[2,3,1,1] w) => (float[batch,2,6,4] y)
        <float[3] mean = {0.5, 0.25, 0.125}, float half = {0.5}>
        { a = Mul(x, half)  b = Sub(a, mean)  t = Transpose<perm=[0,3,1,2]>(b)  y = Conv(t, w) }""",
        ["Transpose", "Mul", "Sub", "Conv"]),
    "factors change places instead of their product": (einsum_rewrites.swap_factors.apply, """
        (float[2,3,4] x, float[5,4,2] z) => (float[2,5,3] y) { a = Transpose<perm=[0,1,2]>(x)
        b = Transpose<perm=[2,1,0]>(z)  p = MatMul(a, b)  y = Transpose<perm=[0,2,1]>(p) }""",
        ["Transpose", "Transpose", "MatMul"]),
    "two regions share one transposed negative": (image_axes.compute_channels_first, """
        (float[batch,3,6,4] x) => (float[batch,3,6,4] y, float[batch,6,4,3] z) { t = Transpose<perm=[0,2,3,1]>(x)
        n = Neg(t)  c = Transpose<perm=[0,3,1,2]>(n)  y = Tanh(c)  z = Softmax(n) }""",
        ["Neg", "Tanh", "Transpose", "Softmax"]),
    "a line is an image of one row between convolutions": (image_rows.run_1d_as_2d, """
        (float[batch,3,1,4] x, float[3,3,1,1] w) => (float[batch,3,1,4] y) <int64[1] row = {2}, float bias = {0.5}>
        { c = Conv(x, w)  s = Squeeze(c, row)  a = Add(s, bias)  r = Relu(a)  u = Unsqueeze(r, row)
          y = Conv(u, w) }""", ["Conv", "Add", "Relu", "Conv"]),
}  # fmt: skip


@pytest.mark.parametrize(("change", "text", "left"), PASSES.values(), ids=PASSES)
def test_a_pass_leaves_the_operators_that_are_needed(change: Any, text: str, left: list[str]) -> None:
    assert apply_pass(text, change) == left


ATTENDING = """(float[batch,length,4,8] q, float[batch,size,4,8] k, bool[batch,length,size] allowed)
    => (float[batch,length,4,8] y) <float half = {0.5}, float none = {0}, float low = {-1e9}, float minus = {-1},
    float lowest = {-inf}, int64[1] head = {1}> { a = Transpose<perm=[0,2,1,3]>(q)  b = Transpose<perm=[0,2,3,1]>(k)
    v = Transpose<perm=[0,2,1,3]>(k)  seen = Unsqueeze(allowed, head)  %s  o = MatMul(w, v)
    y = Transpose<perm=[0,2,1,3]>(o) }"""
SCORES = {
    "a product": "s = MatMul(a, b)  w = Softmax(s)",
    "queries times a number": "c = Mul(a, half)  s = MatMul(c, b)  w = Softmax(s)",
    "over a number": "s = MatMul(a, b)  c = Div(s, half)  w = Softmax(c)",
    "a mask added": "s = MatMul(a, b)  m = Where(seen, none, low)  c = Add(m, s)  w = Softmax(c)",
    "a mask taken away": "s = MatMul(a, b)  m = Where(seen, none, half)  c = Sub(s, m)  w = Softmax(c)",
    "a mask chosen": "s = MatMul(a, b)  c = Where(seen, s, low)  w = Softmax(c)",
    "a contraction": """s = Einsum<equation="btnh,bsnh->bnts">(q, k)  w = Softmax(s)""",
    "keys first": """r = Einsum<equation="bsnh,btnh->bnst">(k, q)  s = Transpose<perm=[0,1,3,2]>(r)  w = Softmax(s)""",
}
KEPT = {
    "a scale below zero": ("s = MatMul(a, b)  c = Mul(s, minus)  w = Softmax(c)", "not positive"),
    "minus infinity": ("s = MatMul(a, b)  c = Where(seen, s, lowest)  w = Softmax(c)", "minus infinity"),
    "another softmax": ("s = MatMul(a, b)  w = Softmax<axis=2>(s)", None),
    "capped": ("s = MatMul(a, b)  c = Tanh(s)  w = Softmax(c)", "its scores"),
    "a tensor beside": ("s = MatMul(a, b)  c = Mul(s, s)  w = Softmax(c)", "its scores"),
    "read elsewhere": ("s = MatMul(a, b)  p = Softmax(s)  w = Add(p, p)", None),
}


def fuse_attention(spelled: str, opset: int = 23) -> tuple[ir.Model, list[str]]:
    """Returns the graph after the rule, and the reason of each outcome, which is empty for a replaced pattern."""
    model = read_graph(ATTENDING % spelled, opset)
    outcomes = attend.apply(model.graph, KnownSizes(model.graph))
    drop_unneeded(model.graph)
    return model, [outcome.reason for outcome in outcomes]


@pytest.mark.parametrize("spelled", SCORES.values(), ids=SCORES)
def test_a_product_with_the_softmax_of_a_product_is_attention(spelled: str) -> None:
    found = apply_pass(ATTENDING % spelled, attend.apply, opset=23)
    assert (found.count("Attention"), found.count("MatMul"), found.count("Transpose")) == (1, 0, 0)
    assert fuse_attention(spelled)[1] == [""]
    (reason,) = fuse_attention(spelled, 18)[1]
    assert "operator set" in reason


@pytest.mark.parametrize(("spelled", "reason"), KEPT.values(), ids=KEPT)
def test_operators_that_only_look_like_attention_stay_with_a_reason(spelled: str, reason: str | None) -> None:
    model, reasons = fuse_attention(spelled)
    assert "Attention" not in operators(model)
    assert (reason is None and not reasons) or str(reason) in "; ".join(reasons)


@pytest.mark.parametrize(("inputs", "nodes"), [
    ("float[batch,2,5,4] q, float[batch,2,4,7] k, float[batch,2,7,4] v, float[batch,2,5,1] f",
     "s = MatMul(q, k)  p = Softmax<axis=2>(s)  w = Mul(p, f)  y = MatMul(w, v)"),
    ("float[batch,2,5,4] q, float[batch,2,4,7] k, float[batch,2,7,4] v, float[1] f",
     "s = MatMul(q, k)  p = Softmax(s)  w = Mul(p, f)  y = MatMul(w, v)"),
    ("float[batch,2,5,4] q, float[batch,2,4,7] k, float[batch,2,7,4] v, float[5,1] f",
     "s = MatMul(q, k)  p = Softmax(s)  w = Mul(p, f)  y = MatMul(w, v)"),
    ("float[batch,2,5,4] q, float[one,2,4,7] k, float[one,2,7,4] v",
     "s = MatMul(q, k)  w = Softmax(s)  y = MatMul(w, v)"),
    ("float[2,5,4] q, float[one,2,4,7] k, float[one,2,7,4] v",
     "s = MatMul(q, k)  w = Softmax(s)  y = MatMul(w, v)"),
], ids=["factors of a softmax over rows", "a factor", "factors of rows", "one batch for all", "no batch"])  # fmt: skip
def test_the_rule_of_attention_leaves_the_numbers_as_they_are(inputs: str, nodes: str) -> None:
    apply_pass(f"({inputs}) => (float[batch,2,5,4] y) {{ {nodes} }}", attend.apply, opset=23)


def test_numbers_in_a_chain_of_any_length_are_read_graph() -> None:
    chain = ["s0 = Relu (x)", *(f"s{n + 1} = Mul (s{n}, f)" for n in range(2000)), "w = Softmax (s2000)"]
    text = "(float[2,3,4] x, float[1] f, float[2,4,4] v) => (float[2,3,4] y)"
    model = read_graph(f"{text} {{\n{chr(10).join([*chain, 'y = MatMul (w, v)'])}\n}}", 23)
    (outcome,) = attend.apply(model.graph, KnownSizes(model.graph))
    assert (outcome.operator, bool(outcome.reason)) == ("Attention", True)


@pytest.mark.timeout(20)  # seconds: 2**40 ways would take years
@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_a_long_chain_of_sums_or_products_before_a_softmax_takes_no_time(operator: str) -> None:
    chain = ["s0 = Relu (x)", *(f"s{n + 1} = {operator} (s{n}, s{n})" for n in range(40)), "w = Softmax (s40)"]
    text = "(float[b,h,n,m] x, float[b,h,m,4] v) => (float[b,h,n,4] y)"
    model = read_graph(f"{text} {{\n{chr(10).join([*chain, 'y = MatMul(w, v)'])}\n}}", 23)
    (outcome,) = attend.apply(model.graph, KnownSizes(model.graph))
    assert (outcome.operator, bool(outcome.reason)) == ("Attention", True)


def test_scores_that_are_returned_stay_with_a_reason() -> None:
    text = ATTENDING.replace("[batch,length,4,8] y)", "[batch,length,4,8] y, float[batch,4,length,size] w)")
    model = read_graph(text % SCORES["a product"], 23)
    (outcome,) = attend.apply(model.graph, KnownSizes(model.graph))
    assert (outcome.operator, outcome.reason) == ("Attention", "its scores are returned")


@pytest.mark.parametrize(("equation", "left", "right", "result", "wanted"), [
    ("abc,cde->abde", "2,length,4", "4,3,5", "2,length,3,5", ["Reshape", "MatMul", "Reshape"]),
    ("abc,abd->acd", "2,length,4", "2,length,5", "2,4,5", ["Transpose", "MatMul"]),
    ("abc,acd->dab", "2,length,4", "2,4,5", "5,2,length", ["Transpose", "Transpose", "MatMul", "Transpose"]),
    ("ab,c->cba", "2,3", "4", "4,3,2", ["Transpose", "Unsqueeze", "Unsqueeze", "Mul"]),
    ("nh,bhw->bnw", "5,6", "2,6,4", "2,5,4", ["Einsum"]),
    ("adb,abc->adc", "2,3,4", "2,4,5", "2,3,5", ["MatMul"]),
], ids=["to heads", "one turned", "all turned", "nothing summed", "without a batch", "as it is"])  # fmt: skip
def test_a_contraction_is_one_product(equation: str, left: str, right: str, result: str, wanted: list[str]) -> None:
    text = f"""(float[{left}] x, float[{right}] z) => (float[{result}] y)
        {{ y = Einsum<equation="{equation}">(x, z) }}"""
    assert apply_pass(text, einsum_rewrites.multiply_matrices.apply) == wanted


@pytest.mark.parametrize(("mask", "left"), [
    ("bool[batch,1,1,1]", ["Cast", "MatMul", "Mul"]), ("bool[batch,1,1,6]", ["Cast", "Mul", "MatMul"]),
    ("float[batch,1,1,1]", ["Cast", "Mul", "MatMul"]),
], ids=["of rows", "of columns", "of factors"])  # fmt: skip
def test_the_rows_of_attention_are_masked_after_the_product(mask: str, left: list[str]) -> None:
    text = f"""(float[batch,2,5,6] weights, {mask} mask, float[batch,2,6,3] values) => (float[batch,2,5,3] y)
        {{ factor = Cast<to = 1>(mask)  masked = Mul(weights, factor)  y = MatMul(masked, values) }}"""
    assert apply_pass(text, einsum_rewrites.mask_rows_of_product.apply) == left


CONVOLUTIONS = """(float[batch,6,4,3] x, float[3,3,1,1] w) => (float[batch,6,4,3] y)
    <float[3] bias = {0.5, 0.25, 0.125}, int64[2] image = {1, 2}, int64[8] ends = {0, 1, 0, 0, 0, 0, 0, 0},
     int64[1] one = {1}, int64[1] far = {99}> { t = Transpose<perm=[0,3,1,2]>(x)  c = Conv(t, w)
    u = Transpose<perm=[0,2,3,1]>(c)  %s  v = Transpose<perm=[0,3,1,2]>(z)  d = Conv(v, w)
    y = Transpose<perm=[0,2,3,1]>(d) }"""


@pytest.mark.parametrize(("between", "turns"), [
    ("a = Add(u, bias)  z = Relu(a)", 2),
    ("m = ReduceMean(u, image)  s = Sigmoid(m)  z = Mul(u, s)", 2),
    ("z = Concat<axis=1>(u, u)", 2),
    ("p = Pad(u, ends)  z = Slice(p, one, far, one)", 2),
    ("z = Softmax(u)", 4),
], ids=["a bias", "attention to channels", "images joined", "padded and cut", "along the channels"])  # fmt: skip
def test_no_image_is_turned_between_two_convolutions(between: str, turns: int) -> None:
    text = CONVOLUTIONS.replace("[batch,6,4,3] y", "[batch,n,4,3] y") % between
    assert apply_pass(text, image_axes.compute_channels_first).count("Transpose") == turns


def test_a_weight_is_stored_as_the_operator_reads_it() -> None:
    model = read_graph("""(float[batch,3,6,4] x, float[1,1,3,2] kernel) => (float[batch,2,6,4] y)
        { k = Transpose<perm=[3,2,0,1]>(kernel)  y = Conv(x, k) }""")
    kernel = model.graph.inputs[1]
    kernel.meta[WEIGHT] = weight_layouts.Weight("kernel", "", np.zeros((1, 1, 3, 2), "float32"))
    weight_layouts.store_as_read(model.graph)
    assert operators(model) == ["Conv"]
    assert kernel.meta[WEIGHT].shape == (2, 3, 1, 1)
    assert list(kernel.shape) == [2, 3, 1, 1]


def test_equal_operators_are_computed_once() -> None:
    model = read_graph("""(float[batch,3] x) => (float[batch,3] y) <float one = {1.5}, float same = {1.5}>
        { a = Add(x, one)  b = Add(x, same)  c = Neg(b)  y = Mul(a, c) }""")
    merge_equal(model.graph)
    assert operators(model) == ["Add", "Neg", "Mul"]
    assert len(model.graph.initializers) == 1


def test_nodes_stand_in_the_order_in_which_the_outputs_need_them() -> None:
    model = read_graph("""(float[batch,3] x) => (float[batch,3] y)
        { b = Neg(x)  a = Abs(x)  lost = Exp(x)  y = Sub(a, b) }""")
    order_needed(model.graph)
    assert operators(model) == ["Abs", "Neg", "Sub"]


@pytest.mark.parametrize(("heads", "tokens", "dtype"), [
    (2, 1, "float"), (4, 1, "float"), (4, 3, "float"), (4, 1, "float16"),
], ids=["one token", "half as many heads of keys", "several tokens", "float16"])  # fmt: skip
def test_a_step_reads_a_shared_cache_in_place_and_returns_the_same_numbers(heads: int, tokens: int, dtype: str) -> None:
    groups, back = heads // 2, 10 if dtype == "float16" else 1
    text = f"""({dtype}[batch,count,{heads * 8}] x, {dtype}[batch,2,new,8] k, {dtype}[batch,2,new,8] v, int64[batch] at,
        bool[batch,1,rows,total] seen, {dtype}[batch,2,16,8] past_k, {dtype}[batch,2,16,8] past_v)
        => ({dtype}[batch,2,rows,8] y, {dtype}[batch,2,16,8] new_k, {dtype}[batch,2,16,8] new_v)
        <int64[4] split = {{0, -1, 2, 8}}, int64[1] zero = {{0}}, int64[1] end = {{7}}, int64[1] two = {{2}},
         float half = {{0.5}}, float none = {{0}}, float hidden = {{-1e30}}> {{
        q = Reshape(x, split)  heads = Transpose<perm = [0, 2, 1, 3]>(q)
        new_k = TensorScatter<axis = 2>(past_k, k, at)  new_v = TensorScatter<axis = 2>(past_v, v, at)
        keys = Slice(new_k, zero, end, two)  values = Slice(new_v, zero, end, two)
        turned = Transpose<perm = [0, 1, 3, 2]>(keys)  products = MatMul(heads, turned)
        wide = Cast<to = 1>(products)  scaled = Mul(wide, half)  mask = Where(seen, none, hidden)
        scores = Add(scaled, mask)  weights = Softmax(scores)
        narrow = Cast<to = {back}>(weights)  y = MatMul(narrow, values) }}"""
    model = read_graph(text, opset=24)
    inputs = dict(
        zip(["x", "k", "v", "at", "seen", "past_k", "past_v"], draw_cached_inputs(heads, groups, tokens), strict=True)
    )
    narrow = np.float16 if dtype == "float16" else np.float32
    inputs = {name: each.astype(narrow) if each.dtype == np.float32 else each for name, each in inputs.items()}
    expected = run(model, inputs)
    shared_cache.attend_in_place.apply(model.graph, KnownSizes(model.graph))
    assert "If" in operators(model)
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
    new = [rng.normal(size=(2, 2, tokens, 8)).astype("float32") for _ in range(2)]
    x = rng.normal(size=(2, tokens, heads * 8)).astype("float32")
    rows = np.arange(7 - tokens, 7).repeat(groups)
    seen = np.broadcast_to(np.arange(7) <= rows[:, None], (2, 1, tokens * groups, 7)) | False
    seen[1, :, :, 0] = False  # padding
    return [x, *new, np.full(2, 7 - tokens), seen, *past]


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the outputs of a graph in ONNX Runtime."""
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    return list(session.run(None, inputs))
