"""A constant in a graph that is being finished."""

from typing import Any

import numpy as np


def add_constant(graph: Any, name: str, value: Any) -> str:
    """Adds an array to an `onnx.GraphProto` and returns its name."""
    from onnx import numpy_helper

    graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name
