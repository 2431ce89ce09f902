"""The weights of a graph: stored as the operators that read them want them, and named where a constant is one.

Keras has the kernel of a convolution as (height, width, in, out), ONNX as (out, in, height, width). A runtime that
folds no constants would turn it in every run, and one that does would hold it twice while a file is opened.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes
from keras_pe.export.graph.tracing import Weight
from keras_pe.export.model.stored_weights import Layout
from keras_pe.export.onnx.finishing.canonical import first_result, paths_of_results
from keras_pe.export.onnx.finishing.graph_edits import GraphEditor, attribute, make_node, read_instead, refill


def store_as_read(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
    """Takes the Transposes and Reshapes of weights out of an `onnx.GraphProto` in place.

    A weight that is read in several ways is left as it is: it would be stored twice.

    Args:
        graph: The graph, whose weights are no initializers yet.
        shapes: The shape of each weight, by its name.

    Returns:
        How each weight whose nodes are gone is to be stored.
    """
    editor = GraphEditor(graph)
    stored: dict[str, Layout] = {}
    gone: set[str] = set()
    for weight, shape in shapes.items():
        name, layout = weight, Layout(shape)
        while (reader := editor.only_reader(name)) is not None:
            step, result = _step(editor, reader, layout.shapes[-1]), reader.output[0]
            if step is None or result in editor.outputs:
                break
            layout, name = layout.then(*step), result
            gone.add(name)
        if layout.steps:
            stored[weight] = layout
            for each in editor.readers.get(name, ()):
                read_instead(each, {name: weight})
    refill(graph.node, [node for node in graph.node if not gone.intersection(node.output)])
    return stored


def _step(editor: GraphEditor, node: Any, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
    """Returns what a node does to its first input, if that is known without running it."""
    if node.op_type == "Transpose" and (order := attribute(node, "perm")):
        return "transpose", tuple(order)
    told = editor.value(node.input[1]) if len(node.input) == 2 else None
    if told is None or node.attribute or 0 in shape:
        return None
    wanted = told.tolist()
    if node.op_type == "Unsqueeze":
        rest, rank = iter(shape), len(shape) + len(wanted)
        added = {axis % rank for axis in wanted}
        return "reshape", tuple(1 if axis in added else next(rest) for axis in range(rank))
    if node.op_type == "Reshape":
        sizes = [shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
        if -1 in sizes:
            sizes[sizes.index(-1)] = math.prod(shape) // -math.prod(sizes)
        return "reshape", tuple(sizes)
    return None


_MORE = 128
_ZERO = "unsigned/zero"


def multiply_unsigned(graph: Any, weights: Mapping[str, Any], layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    """Writes the products of an `onnx.GraphProto` with int8 weights in uint8, in place.

    ONNX Runtime multiplies these many times faster, and as exactly. Keras quantizes with a zero point of 0 on both
    sides of a product. Of numbers that are 128 more, with a zero point of 128, ONNX Runtime computes the same integers.
    With one side of each kind it would be faster still, and wrong on processors without VNNI, where sums of two
    products are cut to 16 bits.

    Args:
        graph: The graph, whose weights are no initializers yet.
        weights: By name; each has a shape and a dtype.
        layouts: How weights are stored.

    Returns:
        The same, of the weights of products too.
    """
    editor, stored = GraphEditor(graph), dict(layouts)
    for name, weight in weights.items():
        products = editor.readers.get(name, [])
        if weight.dtype == np.int8 and products and all(_is_signed(editor, node, name) for node in products):
            stored[name] = layouts.get(name, Layout(weight.shape)).then("unsigned", ())
            for product in products:
                product.input[:] = [_moved(editor, product), name, _ZERO, _ZERO]
    if stored != layouts:
        editor.add_constant(_ZERO, np.uint8(_MORE))
    return stored


def _is_signed(editor: GraphEditor, node: Any, weight: str) -> bool:
    """Whether a node multiplies something that the graph computes by the weight, with zero points of 0."""
    if node.op_type != "MatMulInteger":
        return False
    first, second, *points = node.input
    values = [editor.value(point) for point in points]
    are_zero = all(value is not None and not value.any() for value in values)
    return second == weight and first in editor.producers and are_zero


def _moved(editor: GraphEditor, product: Any) -> str:
    """Returns what a product takes, made 128 more; it is the same for all that take it."""
    from onnx import TensorProto

    name, graph = product.input[0], editor.graph
    more, moved = (f"{name}/{each}" for each in ("more", "unsigned"))
    if any(moved in node.output for node in graph.node):
        return moved
    place = next(index for index, node in enumerate(graph.node) if name in node.output) + 1
    signed, made = _before_cast(editor, name), [make_node("Cast", [more], moved, to=TensorProto.UINT8)]
    if signed == name:
        signed = f"{name}/wide"
        made.append(make_node("Cast", [name], signed, to=TensorProto.INT32))
    shift = editor.add_constant(f"{moved}/shift", np.array(_MORE, np.int32 if len(made) > 1 else np.float32))
    made.insert(1, make_node("Add", [signed, shift], more))
    for node in made:
        graph.node.insert(place, node)
    return moved


def _before_cast(editor: GraphEditor, name: str) -> str:
    """Returns the whole numbers from -128 to 127 that an int8 is made of, as floats; the int8 where it is not."""
    cast = editor.producer(name, "Cast")
    clip = None if cast is None else editor.producer(cast.input[0], "Clip")
    if cast is None or clip is None or editor.producer(clip.input[0], "Round") is None:
        return name
    bounds = [number for bound in clip.input[1:] if (number := editor.value(bound)) is not None]
    is_whole = len(bounds) == 2 and all(-_MORE <= bound < _MORE and bound == np.trunc(bound) for bound in bounds)
    return str(cast.input[0]) if is_whole else name


def name_weights(
    graph: Any, taken: Collection[str], layers: Mapping[str, Any], path_of: Callable[[str], str]
) -> dict[str, Weight]:
    """Makes a constant that is a weight of the layer that reads it that weight again, under its name in Keras.

    The converter has to know the numbers of vectors where a model has convolutions, and turns and reshapes them. A
    constant stays one where its layer has no vector of these very numbers, or two. The graph is changed in place;
    constants that nothing needs any more are left behind.

    Args:
        graph: The graph, whose weights are no initializers yet.
        taken: The names of its outputs and of the weights that it has already.
        layers: The layers of the model, by path.
        path_of: Returns the path of the layer that an operator of TensorFlow's belongs to, by what it returns.

    Returns:
        The weights that constants have become, by name.
    """
    import keras

    editor = GraphEditor(graph)
    constants = {name for name, tensor in editor.constants.items() if len(tensor.dims) > 0}
    paths = paths_of_results(graph, path_of)
    found: dict[str, Weight] = {}
    for node in all_nodes(graph):
        layer = layers.get(paths[first_result(node)])
        if not isinstance(layer, keras.Layer):  # an operation of a model has a path as well, and no weights
            continue
        for name in [name for name in node.input if name in constants]:
            weight = _weight(layer, editor.value(name))
            if weight is None or weight.name in taken:
                continue
            first = found.setdefault(weight.name, weight)
            if first.value is weight.value and first.layout == weight.layout:
                read_instead(node, {name: weight.name})
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
