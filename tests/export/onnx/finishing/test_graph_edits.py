"""Changes of a graph take a time that grows with the graph."""

import time

import numpy as np
import onnx
import pytest

from keras_pe.export.onnx.finishing.constants import compute_constants
from keras_pe.export.onnx.finishing.graph_edits import GraphEditor
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def _chain(count: int) -> onnx.ModelProto:
    nodes, last = [], "x"
    for number in range(count):
        nodes += [
            onnx.helper.make_node("Add", ["two", "three"], [f"sum_{number}"]),
            onnx.helper.make_node("Cast", [f"sum_{number}"], [f"cast_{number}"], to=1),
            onnx.helper.make_node("Mul", [last, f"cast_{number}"], [f"product_{number}"]),
        ]
        last = f"product_{number}"
    constants = [onnx.numpy_helper.from_array(np.array([n], np.int64), name) for name, n in (("two", 2), ("three", 3))]
    x, y = (onnx.helper.make_tensor_value_info(name, 1, ["n", 4]) for name in ("x", last))
    return onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y], constants))


@pytest.mark.slow
def test_constants_are_computed_in_a_time_that_grows_with_the_graph() -> None:
    def seconds(count: int) -> float:
        model = _chain(count)
        sizes = KnownSizes(model, {"x": ("n", 4)})
        start = time.process_time()
        assert compute_constants(model.graph, sizes, 18)
        assert [node.op_type for node in model.graph.node] == ["Mul"] * count
        return time.process_time() - start

    small, large = (min(seconds(count) for _ in range(3)) for count in (400, 3200))
    assert large < 24 * small  # 8 times the nodes; the square of that is 64


def test_nodes_that_are_equal_are_removed_one_by_one() -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"]) for _ in range(6)]
    graph = onnx.helper.make_graph(nodes, "g", [], [])
    for number, node in enumerate(graph.node):
        node.doc_string = str(number % 2)
    editor = GraphEditor(graph)
    for place in (0, 2, 3):
        editor.remove(graph.node[place])
    assert len(editor.nodes("Relu")) == 3
    editor.apply()
    assert [node.doc_string for node in graph.node] == ["1", "0", "1"]
