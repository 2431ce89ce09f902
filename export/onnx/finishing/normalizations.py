"""Batch normalization: folded into the convolution or product before it, or else written as one or two operators.

Runtimes fold normalizations when they open a file. The stored weights keep a name that they have in Keras, and the
metadata of the file lists the folded normalizations. Folded weights are computed in float64, and rounded once.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.graph.trace_function import Weight
from keras_pe.export.model.stored_weights import (
    ComputedWeight,
    Folding,
    Layout,
    affine_map,
    is_foldable,
    is_linear,
    kernel_of,
)
from keras_pe.export.onnx.finishing.graph_edits import (
    LAYER,
    WEIGHT,
    Node,
    add_weight,
    array,
    constant,
    copy,
    count_uses,
    insert,
    nodes,
    only_reader,
    producer,
    remove,
    replace,
    set_weight,
    standing_for,
)
from keras_pe.export.onnx.finishing.operator_sizes import Sizes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_COMPUTED: dict[str, Callable[..., Any]] = {
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide},
    **{"Sqrt": np.sqrt, "Reciprocal": np.reciprocal, "Neg": np.negative},
}
_CLOSE = 1e-5  # relative: TensorFlow computes the numbers in float32, with a few roundings


@dataclass(frozen=True)
class _AffineMap:
    """Nodes that scale and shift channels, perhaps after a linear operator, with the numbers."""

    nodes: tuple[Node, ...]
    scale: Any
    shift: Any

    def matches(self, norm: Any, bias: Any = 0.0) -> bool:
        """Whether the numbers equal Keras' formula for a normalization after a bias, apart from rounding."""
        scale, shift = affine_map(norm, bias)
        if np.shape(self.scale) not in ((), scale.shape):
            return False
        terms = np.abs(shift) + np.abs(np.asarray(norm.moving_mean) * scale)  # one may cancel another
        is_scale = np.all(np.abs(self.scale - scale) <= _CLOSE * np.abs(scale))
        return bool(is_scale and np.all(np.abs(self.shift - shift) <= _CLOSE * terms))


def fold_normalizations(graph: ir.Graph, layers: Mapping[str, Any]) -> dict[str, str]:
    """Folds normalizations into the linear layers before them.

    The numbers of the graph must match Keras' formula, since a subclass may compute something else.

    Args:
        graph: The graph.
        layers: The layers of the model, by path.

    Returns:
        The path of each normalization, by the path of the layer before it.
    """
    kernel_paths = {id(kernel_of(layer)): path for path, layer in layers.items() if is_linear(layer)}
    known, folded, biases = _KnownNumbers(), dict[str, str](), set[str]()
    for each in reversed(list(_affine_maps(graph, known))):  # the longest chains come first
        if each.nodes[0].graph is None:  # a longer chain is folded already
            continue
        kernel = each.nodes[0].inputs[1]
        path, after = kernel_paths.get(id(kernel.meta[WEIGHT].value), ""), each.nodes[-1].meta[LAYER]
        if path in folded or not is_foldable(layers.get(path), layers.get(after)):
            continue
        folding = Folding(layers[path], layers[after])
        bias = folding.bias_owner.path
        own = next((value for value in graph.inputs if value.name == bias), None)
        is_free = bias not in biases and (own is None or known.are_read_alone(own, each.nodes))
        if not is_free or not each.matches(folding.norm, folding.own_bias):
            continue
        stored = ComputedWeight(tuple(kernel_of(folding.layer).shape), folding.kernel)
        set_weight(kernel, with_fields(kernel.meta[WEIGHT], value=stored))
        stored = ComputedWeight(tuple(folding.norm.moving_mean.shape), folding.bias)
        folded[path] = after
        biases.add(bias)
        _replace_chain(each.nodes, add_weight(graph, Weight(bias, "", stored)))
    known = _KnownNumbers()
    for each in list(_affine_maps(graph, known)):
        first, second, *others = each.nodes
        if others or second.op_type != "Add" or first.op_type not in _CONVOLUTIONS or len(first.inputs) > 2:
            continue
        channels = first.inputs[1].meta[WEIGHT].shape[int(first.op_type == "ConvTranspose")]
        if np.size(each.shift) == channels:
            _replace_chain(each.nodes, constant(graph, np.asarray(each.shift, np.float32)))
    return folded


def store_normalizations(graph: ir.Graph, sizes: KnownSizes, layers: Mapping[str, Any]) -> dict[str, str]:
    """Writes the normalizations that are not folded as one or two operators.

    With channels first, the operator is `BatchNormalization`: ONNX Runtime keeps its own layout of images through it.
    It would change the layout of an image around a sum with a number for each channel. Elsewhere, a Mul and an Add
    compute the normalization; their numbers are stored under the names of the scale and the shift.

    Args:
        graph: The graph, after `fold_normalizations`.
        sizes: The sizes of its values.
        layers: The layers of the model, by path.

    Returns:
        The paths of the normalizations that are a Mul and an Add, each as key and value.
    """
    import keras

    known, stored = _KnownNumbers(), dict[str, str]()
    found: dict[str, list[tuple[ir.Value, tuple[int, ...], _AffineMap]]] = {}
    for product in nodes(graph, "Mul"):
        last = only_reader(product.outputs[0], "Add")
        path = "" if last is None else last.meta[LAYER]
        if last is not None and isinstance(layers.get(path), keras.layers.BatchNormalization):
            candidates = _channel_maps(known, product, last)
            found.setdefault(path, []).extend(each for each in candidates if each[-1].matches(layers[path]))
    inputs = {value.name: value for value in graph.inputs}
    for path, maps in found.items():
        norm, own = layers[path], [Weight(variable.path, "", variable) for variable in layers[path].variables]
        between = [node for *_, each in maps for node in each.nodes]
        if not all(known.is_free(inputs.get(weight.name), weight, between) for weight in own):
            continue
        shapes = {shape for _, shape, _ in maps}
        if all(_is_image(shape, sizes.shape(value)) for value, shape, _ in maps):
            for value, _, each in maps:
                _write_operator(graph, norm, standing_for(value), *each.nodes)
        elif len(shapes) == 1:
            folding, (shape,) = Folding(norm, norm), shapes
            stored[path] = path
            numbers = list[ir.Value]()
            for name, computed in ((kernel_of(norm).path, folding.kernel), (folding.bias_owner.path, folding.bias)):
                weight = ComputedWeight(tuple(norm.moving_mean.shape), computed)
                layout = None if len(shape) == 1 else Layout(weight.shape).then("reshape", shape)
                numbers.append(add_weight(graph, Weight(name, "", weight, layout)))
            for value, _, each in maps:
                last = each.nodes[-1]
                # The value may be the result of another normalization, which this loop has replaced.
                scaled = insert(last, "Mul", [standing_for(value), numbers[0]])
                replace(last.outputs[0], insert(last, "Add", [scaled, numbers[1]]))
                remove(*reversed(each.nodes))
    return stored


def _is_image(shape: tuple[int, ...], tensor_shape: Sizes | None) -> bool:
    """Whether numbers for channels have the rank of the tensor that they scale, which has its channels first."""
    return len(shape) > 2 and 1 < shape[1] == math.prod(shape) and len(tensor_shape or shape) == len(shape)


def _write_operator(graph: ir.Graph, norm: Any, image: ir.Value | None, product: Node, last: Node) -> None:
    def weight(variable: Any) -> ir.Value:
        return add_weight(graph, Weight(variable.path, "", variable))

    count = norm.moving_mean.shape[0]
    gamma = weight(norm.gamma) if norm.scale else constant(graph, np.ones(count, np.float32))
    beta = weight(norm.beta) if norm.center else constant(graph, np.zeros(count, np.float32))
    read = [image, gamma, beta, weight(norm.moving_mean), weight(norm.moving_variance)]
    replace(last.outputs[0], insert(last, "BatchNormalization", read, epsilon=norm.epsilon))
    remove(last, product)


class _KnownNumbers:
    """The known numbers of a graph: constants, vectors of weights, and values computed from both."""

    def __init__(self) -> None:
        self._numbers: dict[ir.Value | None, Any] = {None: None}

    def number(self, value: ir.Value) -> Any | None:
        """Returns the numbers of a value in float64, which are computed once; None if they are unknown."""
        waiting = [value]
        while waiting:
            node = producer(waiting[-1], *_COMPUTED)
            missing = [] if node is None else [each for each in node.inputs if each and each not in self._numbers]
            if waiting[-1] not in self._numbers and missing:
                waiting += missing
                continue
            each = waiting.pop()
            if each not in self._numbers:
                self._numbers[each] = self._compute(each, node)
        return self._numbers[value]

    def _compute(self, value: ir.Value, node: Node | None) -> Any | None:
        """Returns the numbers of a weight, of a constant, or of a node whose inputs are computed."""
        weight = value.meta.get(WEIGHT)
        if weight is not None:
            is_vector = weight.dtype == np.float32 and len(weight.value.shape) == 1
            return weight.read().astype(np.float64) if is_vector else None
        if node is None:
            stored = array(value)
            return None if stored is None or stored.dtype.kind not in "fiub" else np.asarray(stored, np.float64)
        numbers = [self._numbers[each] for each in node.inputs]
        return None if any(number is None for number in numbers) else _COMPUTED[node.op_type](*numbers)

    def are_read_alone(self, value: ir.Value, own: Sequence[Node]) -> bool:
        """Whether only these nodes read a value, or the known numbers that are computed from it."""
        waiting, seen = [value], set[ir.Value]()
        while waiting:
            each = waiting.pop()
            if each.is_graph_output():
                return False
            seen.add(each)
            results = {node.outputs[0] for node in each.consumers() if node not in own}
            if any(self.number(result) is None for result in results):
                return False
            waiting += results - seen
        return True

    def is_free(self, value: ir.Value | None, weight: Weight, own: Sequence[Node]) -> bool:
        """Whether a float32 weight can be stored for these nodes: no other node reads an input of its name."""
        if weight.dtype != np.float32:
            return False
        return value is None or (value.meta[WEIGHT].value is weight.value and self.are_read_alone(value, own))


def _affine_maps(graph: ir.Graph, known: _KnownNumbers) -> Iterator[_AffineMap]:
    """Yields the chains of a linear operator and one or more nodes that scale or shift channels by constants.

    Each node of a chain is the only reader of the node before it.
    """
    for first in nodes(graph, *_CONVOLUTIONS, "MatMul"):
        chain = [first]
        scale: Any = np.float64(1.0)
        shift: Any = np.float64(0.0)
        kernel = first.inputs[1]
        weight = kernel.meta.get(WEIGHT)
        axes = (
            len(weight.shape) - 2 if weight is not None and weight.dtype == np.float32 else -1
        )  # the axes of the image
        if len(first.inputs) > 2:
            shift = _channel_numbers(first.inputs[2:], known, 0)
        if count_uses(kernel) != 1 or axes < 0 or (axes > 0) != (first.op_type in _CONVOLUTIONS):
            continue
        while shift is not None and (reader := only_reader(chain[-1].outputs[0], "Add", "Mul")) is not None:
            others = [value for value in reader.inputs if value is not chain[-1].outputs[0]]
            number = _channel_numbers(others, known, axes)
            if number is None:
                break
            scale, shift = (scale, shift + number) if reader.op_type == "Add" else (scale * number, shift * number)
            chain.append(reader)
            yield _AffineMap(tuple(chain), scale, shift)


def _channel_maps(
    known: _KnownNumbers, product: Node, last: Node
) -> Iterator[tuple[ir.Value, tuple[int, ...], _AffineMap]]:
    """Yields the tensor that a product scales by channels, the shape of the scale, and the map of product and sum."""
    (term,) = (value for value in last.inputs if value is not product.outputs[0])
    for value, factor in (product.inputs, product.inputs[::-1]):
        scale, shift = known.number(factor), known.number(term)
        if scale is not None and shift is not None and scale.shape == shift.shape and scale.size in scale.shape:
            yield value, scale.shape, _AffineMap((product, last), scale.ravel(), shift.ravel())


def _channel_numbers(values: Sequence[ir.Value], known: _KnownNumbers, axes: int) -> Any | None:
    """Returns the first constant with a number for each channel, followed by this many axes of the image; else None."""
    numbers = (known.number(value) for value in values)
    shaped = (x for x in numbers if x is not None and x.shape[-1 - axes :] == (x.size, *[1] * axes))
    value = next(shaped, None)
    return None if value is None else value.ravel()


def _replace_chain(chain: Sequence[Node], bias: ir.Value) -> None:
    """Replaces a chain by its convolution with another bias, or by its product and a sum."""
    first, last = chain[0], chain[-1]
    if first.op_type in _CONVOLUTIONS:
        result = copy(first, [*first.inputs[:2], bias])
    else:
        result = insert(first, "Add", [copy(first, first.inputs), bias])
    replace(last.outputs[0], result)
    remove(*reversed(chain))
