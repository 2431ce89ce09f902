"""Averages an image's pixels by the operator that ONNX has for it: runtimes compute that in a convolution's own layout.

ONNX Runtime's adds plainly, and of many pixels it loses more digits than Keras: an average of these stays a reduction.
"""

from typing import Any

from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_MOST_PIXELS = 4096  # at 56 x 56 its largest error is 2.4 times Keras', at 224 x 224 3.4 times


def name_global_averages(graph: Any, sizes: KnownSizes) -> None:
    """Rewrites the ReduceMeans of an `onnx.GraphProto` in place that keep the axes of an image."""
    from onnx import TensorProto

    for node in [node for node in graph.node if node.op_type == "ReduceMean"]:
        shape = sizes.shape(node.input[0]) or ()
        height, width = shape[2:] if len(shape) == 4 else (0, 0)
        is_whole = sizes.shape(node.output[0]) == (*shape[:2], 1, 1) and sizes.kind(node.input[0]) == TensorProto.FLOAT
        if is_whole and isinstance(height, int) and isinstance(width, int) and 1 < height * width <= _MOST_PIXELS:
            node.op_type, node.input[:] = "GlobalAveragePool", node.input[:1]
            del node.attribute[:]
