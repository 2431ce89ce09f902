"""Small graphs for tests, written as text."""

import onnx
import onnx_ir as ir


def read_graph(text: str, opset: int = 18) -> ir.Model:
    """Returns a graph written as `inputs => outputs <constants> { nodes }`, with its shapes."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> graph {text}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(model))


def operators(model: ir.Model) -> list[str]:
    """Returns the operators of a graph and of the graphs inside its nodes."""
    return [node.op_type for node in model.graph.all_nodes()]
