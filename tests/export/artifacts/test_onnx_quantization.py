"""Integer constants of an ONNX graph are read as the numbers that they stand for, wherever their scale is."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.artifacts.onnx_quantization import quantized_constants

TABLE = np.random.default_rng(0).integers(-128, 127, (6, 4)).astype(np.int8)
ARRAYS = {
    "table": TABLE,
    "scale": np.float32(0.5),
    "zero": np.int8(3),
    "other": np.int8(np.arange(4)),
    "shape": np.int64([-1, 4]),
}
READS = {
    "at once": [("DequantizeLinear", ["table", "scale", "zero"])],
    "after a lookup": [("Gather", ["table", "ids"]), ("DequantizeLinear", ["", "scale", "zero"])],
    "in a sum after a lookup": [
        ("Gather", ["table", "ids"]),
        ("QLinearAdd", ["", "scale", "zero", "other", "scale", "zero", "scale", "zero"]),
    ],
    "in a product after a lookup and a reshape": [
        ("Gather", ["table", "ids"]),
        ("Reshape", ["", "shape"]),
        ("QLinearMul", ["other", "scale", "zero", "", "scale", "zero", "scale", "zero"]),
    ],
}


@pytest.mark.parametrize("read", READS)
def test_a_table_that_is_looked_into_has_the_scale_of_the_operator_behind(read: str) -> None:
    nodes, last = [], ""
    for number, (operator, inputs) in enumerate(READS[read]):
        nodes.append(helper.make_node(operator, [name or last for name in inputs], [f"value {number}"]))
        last = f"value {number}"
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in ARRAYS.items()],
    )
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    numbers, steps = quantized_constants(graph)["table"].numbers(stored.__getitem__)
    assert np.array_equal(numbers, 0.5 * (TABLE.astype(np.float64) - 3))
    assert np.array_equal(steps, np.full((6, 4), 0.5))
