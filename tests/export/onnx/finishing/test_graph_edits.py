"""Edits of a graph take a time that grows with the graph, and keep its results."""

import time

import onnx_ir as ir
import pytest

from keras_pe.export.onnx.finishing.constants import compute_constants
from keras_pe.export.onnx.finishing.graph_edits import replace, standing_for
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from tests.export.onnx.graph_text import read_graph


def _chain(count: int) -> ir.Graph:
    step = "s{0} = Add(two, three)  c{0} = Cast<to = 1>(s{0})  p{1} = Mul(p{0}, c{0})"
    nodes = "  ".join(step.format(number, number + 1) for number in range(count))
    shapes = f"(float[n,4] p0) => (float[n,4] p{count}) <int64[1] two = {{2}}, int64[1] three = {{3}}>"
    return read_graph(f"{shapes} {{ {nodes} }}").graph


@pytest.mark.slow
def test_constants_are_computed_in_a_time_that_grows_with_the_graph() -> None:
    def seconds(count: int) -> float:
        graph = _chain(count)
        start = time.process_time()
        assert compute_constants(graph, KnownSizes(graph))
        assert [node.op_type for node in graph] == ["Mul"] * count
        return time.process_time() - start

    small, large = (min(seconds(count) for _ in range(3)) for count in (400, 3200))
    assert large < 24 * small  # 8 times the nodes; the square of that is 64


def test_sizes_in_a_deep_branch_are_known() -> None:
    nodes = " ".join(f"x{number + 1} = Sin(x{number})" for number in range(2000))
    deep = f"deep () => (float[N, 8] x2000) {{ {nodes} }}"
    flat = "flat () => (float[N, 8] z) { z = Neg(x0) }"
    graph = ir.from_onnx_text(
        f"""<ir_version: 8, opset_import: ["" : 18]> agraph (bool b, float[N, 8] x0) => (float[N, 8] y)
        {{ y = If(b) <then_branch = {deep}, else_branch = {flat}> }}"""
    ).graph
    branch = next(iter(graph.subgraphs()))
    assert KnownSizes(graph).shape(branch.outputs[0]) == ("N", 8)  # deeper than Python's stack


def test_an_output_keeps_its_name_whatever_makes_it_and_is_made_once() -> None:
    text = "(float[N] x) => (float[N] y, float[N] z) { y = Relu(x)  z = Relu(y)  unused = Neg(x) }"
    graph = read_graph(text).graph
    first, last = graph.outputs
    (unused,) = (value for node in graph for value in node.outputs if value.name == "unused")
    replace(first, unused)
    replace(last, graph.outputs[0])
    assert [value.name for value in graph.outputs] == ["y", "z"]
    assert [value.producer().op_type for value in graph.outputs] == ["Neg", "Identity"]
    graph.remove(first.producer())
    assert standing_for(first) is graph.outputs[0]
