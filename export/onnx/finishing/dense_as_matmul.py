"""Takes out the Reshapes around a MatMul that TensorFlow's `tensordot` puts there for a Dense layer.

TensorFlow flattens the leading dimensions, multiplies, and splits them again. ONNX's MatMul takes any rank, so both
Reshapes and what computes their shapes can go, once it is proven that the second undoes the first.
"""

from typing import Any

from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


def remove_flattening(graph: Any, sizes: KnownSizes) -> None:
    """Rewrites an `onnx.GraphProto` in place. Nodes that nothing needs any more are left behind."""
    producers = {output: node for node in graph.node for output in node.output}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    outputs = {value.name for value in graph.output}
    for product in [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]:
        flatten = producers.get(product.input[0])
        readers = [] if product.output[0] in outputs else users.get(product.output[0], [])
        weight = sizes.shape(product.input[1]) or ()
        if (
            len(product.input) != 2
            or product.attribute  # a Gemm that transposes or scales
            or flatten is None
            or flatten.op_type != "Reshape"
            or len(weight) != 2
            or [reader.op_type for reader in readers] != ["Reshape"]
            or readers[0].input[0] != product.output[0]
        ):
            continue
        source, split = flatten.input[0], readers[0]
        wanted = (sizes.shape(source) or ())[:-1]
        # As many elements come out as go in, so these leading sizes leave the flattened one for the last axis alone.
        if wanted and sizes.vector(split.input[1]) == (*wanted, weight[1]):
            product.op_type = "MatMul"
            product.input[0] = source
            product.output[0] = split.output[0]
            graph.node.remove(split)
