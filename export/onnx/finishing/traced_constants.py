"""Makes a constant that is a weight of the layer that reads it that weight again, under its name in Keras.

The converter has to know the numbers of vectors where a model has convolutions, and turns and reshapes them.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes
from keras_pe.export.graph.tracing import Weight
from keras_pe.export.model.stored_weights import Layout
from keras_pe.export.onnx.finishing.naming import first_result, paths_of_results


def name_weights(
    graph: Any, taken: Collection[str], layers: Mapping[str, Any], path_of: Callable[[str], str]
) -> dict[str, Weight]:
    """Rewrites an `onnx.GraphProto` in place. Constants that nothing needs any more are left behind.

    A constant stays one where its layer has no vector of these very numbers, or two.

    Args:
        graph: The graph, whose weights are no initializers yet.
        taken: The names of its outputs and of the weights that it has already.
        layers: The layers of the model, by path.
        path_of: Returns the path of the layer that an operator of TensorFlow's belongs to, by what it returns.

    Returns:
        The weights that constants have become, by name.
    """
    import keras
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) > 0}
    paths = paths_of_results(graph, path_of)
    found: dict[str, Weight] = {}
    for node in all_nodes(graph):
        layer = layers.get(paths[first_result(node)])
        if not isinstance(layer, keras.Layer):  # an operation of a model has a path as well, and no weights
            continue
        for name in [name for name in node.input if name in constants]:
            weight = _weight(layer, numpy_helper.to_array(constants[name]))
            if weight is None or weight.name in taken:
                continue
            first = found.setdefault(weight.name, weight)
            if first.value is weight.value and first.layout == weight.layout:
                node.input[:] = [weight.name if each == name else each for each in node.input]
    return found


def _weight(layer: Any, stored: Any) -> Weight | None:
    """Returns the one vector of a layer that a constant is, in whatever shape; None where there is none, or two."""
    alike = [v for v in layer.variables if len(v.shape) == 1 and v.shape[0] == stored.size]
    same = [v for v in alike if _is_same(np.asarray(v.value), stored)]
    if len(same) != 1:
        return None
    (variable,) = same
    layout = Layout((stored.size,))
    is_flat = stored.ndim == 1
    return Weight(variable.path, "", variable, None if is_flat else layout.then("reshape", stored.shape))


def _is_same(vector: Any, stored: Any) -> bool:
    return bool(vector.dtype == stored.dtype and vector.tobytes() == stored.tobytes())
