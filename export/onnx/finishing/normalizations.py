"""Folds a normalization into the convolution or product before it, as runtimes do when they open a file, and writes
any other in an operator or two.

What is stored keeps a name that it has in Keras, and the file says of which normalization it holds a part. It is
computed in float64 from what Keras has, and rounded once.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keras_pe.export.graph.tracing import Weight
from keras_pe.export.model.stored_weights import (
    ComputedWeight,
    Folding,
    Layout,
    affine_map,
    is_foldable,
    is_linear,
    kernel_of,
)
from keras_pe.export.onnx.finishing.graph_edits import GraphEditor, become
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes, Sizes

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_COMPUTED: dict[str, Callable[..., Any]] = {
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide},
    **{"Sqrt": np.sqrt, "Reciprocal": np.reciprocal, "Neg": np.negative},
}
_CLOSE = 1e-5  # of what TensorFlow has computed in float32, in a few roundings


@dataclass(frozen=True)
class Folded:
    """What was folded.

    Attributes:
        weights: What the file holds, by name: kernels in place of others, and biases.
        layers: The path of each normalization by that of the layer before it.
        results: What the layer before it returns, by what the normalization returned.
        paths: The path of the layer before it by what that returns.
    """

    weights: dict[str, Weight] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _AffineMap:
    """What multiplies channels and adds to them, behind a linear operator or none: the nodes, and their numbers."""

    nodes: tuple[Any, ...]
    scale: Any
    shift: Any

    def is_of(self, norm: Any, bias: Any = 0.0) -> bool:
        """Whether the numbers are those of Keras' formula behind a bias, but for how they were rounded."""
        scale, shift = affine_map(norm, bias)
        if np.shape(self.scale) not in ((), scale.shape):
            return False
        terms = np.abs(shift) + np.abs(np.asarray(norm.moving_mean) * scale)  # one may cancel another
        is_scale = np.all(np.abs(self.scale - scale) <= _CLOSE * np.abs(scale))
        return bool(is_scale and np.all(np.abs(self.shift - shift) <= _CLOSE * terms))


def fold_normalizations(
    graph: Any, weights: Mapping[str, Weight], layers: Mapping[str, Any], path_of: Callable[[str], str]
) -> Folded:
    """Rewrites an `onnx.GraphProto` in place.

    What a graph computes must be what Keras' formula gives: a layer of somebody's own may compute something else.

    Args:
        graph: The graph, whose weights are no initializers yet.
        weights: By name, with their layouts.
        layers: The layers of the model, by path.
        path_of: Returns the path of the layer that an operator of TensorFlow's belongs to, by what it returns.
    """
    of_kernels = {id(kernel_of(layer)): path for path, layer in layers.items() if is_linear(layer)}
    outputs = {value.name for value in graph.output}
    editor, folded = _Known(graph, weights), Folded()
    for each in reversed(list(_affine_maps(editor))):  # first what is longest
        kernel, end = each.nodes[0].input[1], each.nodes[-1].output[0]
        path, after = of_kernels.get(id(weights[kernel].value), ""), path_of(end)
        if path in folded.layers or not is_foldable(layers.get(path), layers.get(after)):
            continue
        folding = Folding(layers[path], layers[after])
        bias = folding.bias_owner.path
        is_free = bias not in folded.weights and editor.are_read_alone(bias, each.nodes)
        if not is_free or not each.is_of(folding.norm, folding.own_bias):
            continue
        result = end if end in outputs else f"folded_{len(folded.paths)}"
        stored = ComputedWeight(tuple(kernel_of(folding.layer).shape), folding.kernel)
        folded.weights[kernel] = replace(weights[kernel], value=stored)
        folded.weights[bias] = Weight(bias, "", ComputedWeight(tuple(folding.norm.moving_mean.shape), folding.bias))
        folded.layers[path], folded.paths[result], folded.results[end] = after, path, result
        folded.paths[f"{result}_product"] = path
        _become_one(editor, each.nodes, bias, result)
    editor.apply()
    editor = _Known(graph, weights)
    for each in list(_affine_maps(editor)):
        first, second, *others = each.nodes
        channels = weights[first.input[1]].shape[int(first.op_type == "ConvTranspose")]
        is_bias = second.op_type == "Add" and np.size(each.shift) == channels
        if is_bias and not others and first.op_type in _CONVOLUTIONS and len(first.input) == 2:
            bias = editor.add_constant(f"{second.output[0]}/bias", np.asarray(each.shift, np.float32))
            _become_one(editor, each.nodes, bias, second.output[0])
    editor.apply()
    return folded


def store_normalizations(
    graph: Any,
    sizes: KnownSizes,
    weights: Mapping[str, Weight],
    layers: Mapping[str, Any],
    path_of: Callable[[str], str],
) -> Folded:
    """Writes the normalizations that no other layer holds, in an `onnx.GraphProto` in place, in an operator or two.

    With channels first that is `BatchNormalization`: ONNX Runtime keeps its own order of axes past it, but not past a
    sum with a number for each channel, and would reorder an image twice between two convolutions. Elsewhere it is a
    product and a sum, whose numbers are computed once and stored under the names of the scale and the shift.

    Args:
        graph: The graph, whose weights are no initializers yet, and whose convolutions hold what they can.
        sizes: Those of its tensors.
        weights: By name, with their layouts.
        layers: The layers of the model, by path.
        path_of: As in `fold_normalizations`.
    """
    import keras

    editor, stored = _Known(graph, weights), Folded()
    found: dict[str, list[tuple[str, tuple[int, ...], _AffineMap]]] = {}
    for product in editor.nodes("Mul"):
        last = editor.only_reader(product.output[0], "Add")
        path = "" if last is None else path_of(last.output[0])
        if isinstance(layers.get(path), keras.layers.BatchNormalization):
            of_product = _maps_of_channels(editor, product, last)
            found.setdefault(path, []).extend(each for each in of_product if each[-1].is_of(layers[path]))
    for path, maps in found.items():
        norm, nodes = layers[path], [node for *_, each in maps for node in each.nodes]
        own = {variable.path: Weight(variable.path, "", variable) for variable in norm.variables}
        if any(
            weight.dtype != np.float32
            or weights.get(name, weight).value is not weight.value
            or not editor.are_read_alone(name, nodes)
            for name, weight in own.items()
        ):
            continue
        shapes = {shape for _, shape, _ in maps}
        if all(_is_image(shape, sizes.shape(tensor)) for tensor, shape, _ in maps):
            stored.weights.update(own)
            for tensor, _, each in maps:
                _become_operator(editor, norm, tensor, *each.nodes)
        elif len(shapes) == 1:
            folding, (shape,) = Folding(norm, norm), shapes
            factor, term = kernel_of(norm).path, folding.bias_owner.path
            for name, numbers in ((factor, folding.kernel), (term, folding.bias)):
                value = ComputedWeight(tuple(norm.moving_mean.shape), numbers)
                layout = None if len(shape) == 1 else Layout(value.shape).then("reshape", shape)
                stored.weights[name] = Weight(name, "", value, layout)
            stored.layers[path] = path
            for tensor, _, each in maps:
                product, last = each.nodes
                product.input[:], last.input[:] = [tensor, factor], [product.output[0], term]
    editor.apply()
    return stored


def _is_image(shape: tuple[int, ...], of_tensor: Sizes | None) -> bool:
    """Whether the numbers of channels have as many axes as what they scale, whose channels come before others."""
    return len(shape) > 2 and 1 < shape[1] == math.prod(shape) and len(of_tensor or shape) == len(shape)


def _become_operator(editor: GraphEditor, norm: Any, image: str, product: Any, last: Any) -> None:
    result, count = last.output[0], norm.moving_mean.shape[0]
    ones, zeros = np.ones(count, np.float32), np.zeros(count, np.float32)
    gamma = norm.gamma.path if norm.scale else editor.add_constant(f"{result}/gamma", ones)
    beta = norm.beta.path if norm.center else editor.add_constant(f"{result}/beta", zeros)
    read = [image, gamma, beta, norm.moving_mean.path, norm.moving_variance.path]
    become(last, "BatchNormalization", read, epsilon=norm.epsilon)
    editor.remove(product)


class _Known(GraphEditor):
    """A graph and the numbers in it that are certain: constants, weights that are vectors, and what is made of them."""

    def __init__(self, graph: Any, weights: Mapping[str, Weight]) -> None:
        super().__init__(graph)
        self.ranks = {name: len(weight.shape) for name, weight in weights.items() if weight.dtype == np.float32}
        self._vectors = {name: weights[name] for name in self.ranks if len(weights[name].value.shape) == 1}
        self._numbers: dict[str, Any] = {}

    def number(self, name: str) -> Any | None:
        """Returns the numbers of a tensor in float64; None where they are not certain. Each is computed once."""
        waiting = [name]
        while waiting:
            tensor = waiting[-1]
            node = self.producer(tensor, *_COMPUTED)
            missing = [] if node is None else [each for each in node.input if each not in self._numbers]
            if tensor not in self._numbers and missing:
                waiting += missing
                continue
            self._numbers.setdefault(tensor, None)
            if self._numbers[tensor] is None:
                self._numbers[tensor] = self._computed(tensor, node)
            waiting.pop()
        return self._numbers[name]

    def _computed(self, name: str, node: Any | None) -> Any | None:
        """Returns the numbers of a tensor whose node, if it has one, reads known tensors."""
        if name in self.constants:
            return np.asarray(self.value(name), np.float64)
        if name in self._vectors:
            return self._vectors[name].read().astype(np.float64)
        numbers = [] if node is None else [self._numbers[each] for each in node.input]
        if node is None or any(number is None for number in numbers):
            return None
        return _COMPUTED[node.op_type](*numbers)

    def are_read_alone(self, name: str, nodes: Sequence[Any]) -> bool:
        """Whether nobody but these nodes reads a tensor, or what is made of it and constants."""
        own = {id(node) for node in nodes}
        waiting, seen = [name], set[str]()
        while waiting:
            tensor = waiting.pop()
            if tensor in self.outputs:
                return False
            seen.add(tensor)
            made = {reader.output[0] for reader in self.readers.get(tensor, ()) if id(reader) not in own}
            if any(self.number(each) is None for each in made):
                return False
            waiting += made - seen
        return True


def _affine_maps(editor: _Known) -> Iterator[_AffineMap]:
    """Yields each linear operator with the node after it, and with those after it, as far as each alone reads the one
    before and only adds a constant to each channel or multiplies it by one."""
    for first in editor.nodes(*_CONVOLUTIONS, "MatMul"):
        nodes = [first]
        scale: Any = np.float64(1.0)
        shift: Any = np.float64(0.0)
        axes = editor.ranks.get(first.input[1], 0) - 2  # those of the image
        if len(first.input) > 2:
            shift = _of_channels(first.input[2:], editor, 0)
        if editor.uses(first.input[1]) != 1 or axes < 0 or (axes > 0) != (first.op_type in _CONVOLUTIONS):
            continue
        while shift is not None and (reader := editor.only_reader(nodes[-1].output[0], "Add", "Mul")) is not None:
            number = _of_channels([name for name in reader.input if name != nodes[-1].output[0]], editor, axes)
            if number is None:
                break
            scale, shift = (scale, shift + number) if reader.op_type == "Add" else (scale * number, shift * number)
            nodes.append(reader)
            yield _AffineMap(tuple(nodes), scale, shift)


def _maps_of_channels(editor: _Known, product: Any, last: Any) -> Iterator[tuple[str, tuple[int, ...], _AffineMap]]:
    """Yields what a product with a number for each channel is of, the shape of the numbers, and what it is with the sum
    that alone reads it."""
    (number,) = (name for name in last.input if name != product.output[0])
    for tensor, factor in (product.input, product.input[::-1]):
        scale, shift = editor.number(factor), editor.number(number)
        if scale is not None and shift is not None and scale.shape == shift.shape and scale.size in scale.shape:
            yield tensor, scale.shape, _AffineMap((product, last), scale.ravel(), shift.ravel())


def _of_channels(names: Sequence[str], editor: _Known, axes: int) -> Any | None:
    """Returns the constant that has a number for each channel, and so many axes of the image behind; None without."""
    values = (editor.number(name) for name in names)
    shaped = (x for x in values if x is not None and x.shape[-1 - axes :] == (x.size, *[1] * axes))
    value = next(shaped, None)
    return None if value is None else value.ravel()


def _become_one(editor: GraphEditor, nodes: Sequence[Any], bias: str, result: str) -> None:
    """Lets a convolution return what the last node returned, with another bias, or a product and a sum of that."""
    first, second, *others = nodes
    old = nodes[-1].output[0]
    if first.op_type in _CONVOLUTIONS:
        first.input[2:] = [bias]
        first.output[0] = result
        others = [second, *others]
    else:
        first.output[0] = f"{result}_product"  # it is not what the layer returned
        become(second, "Add", [first.output[0], bias], result)
    for node in others:
        editor.remove(node)
    editor.replace(old, result)
