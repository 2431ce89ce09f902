"""Folds a normalization into the convolution before it, as every runtime does when it opens a file.

Kernel and bias keep their names in Keras, and the file says of which normalization they hold a part. They are computed
in float64 from what Keras has, and rounded once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes
from keras_pe.export.graph.tracing import Weight
from keras_pe.export.model.folding import ComputedWeight, Folding, is_foldable, is_linear

_CLOSE = 1e-5  # of what TensorFlow has computed in float32, in a few roundings


@dataclass(frozen=True)
class Folded:
    """What was folded.

    Attributes:
        weights: What the file holds, by name: kernels in place of others, and biases.
        layers: The path of each normalization by that of the layer before it.
        results: What the convolution returns, by what the normalization returned.
        paths: The path of the convolution by what it returns.
    """

    weights: dict[str, Weight] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _AffineMap:
    """A convolution and what multiplies its channels and adds to them: the nodes, and the numbers of all of them."""

    nodes: tuple[Any, ...]
    scale: Any
    shift: Any

    def is_of(self, folding: Folding) -> bool:
        """Whether the numbers are those of Keras' formula, but for how they were rounded."""
        scale, shift = folding.scale(), folding.bias()
        terms = np.abs(shift) + np.abs(np.asarray(folding.norm.moving_mean) * scale)  # one may cancel another
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
    of_kernels = {id(layer.kernel): path for path, layer in layers.items() if is_linear(layer)}
    ranks = {name: len(weight.shape) for name, weight in weights.items() if weight.dtype == np.float32}
    outputs = {value.name for value in graph.output}
    folded = Folded()
    for each in reversed(list(_affine_maps(graph, ranks))):  # first what is longest
        kernel, end = each.nodes[0].input[1], each.nodes[-1].output[0]
        path, after = of_kernels.get(id(weights[kernel].value), ""), path_of(end)
        if path in folded.layers or not is_foldable(layers.get(path), layers.get(after)):
            continue
        folding = Folding(layers[path], layers[after])
        bias = folding.bias_owner.path
        if bias in weights or bias in folded.weights or not each.is_of(folding):
            continue
        result = end if end in outputs else f"folded_{len(folded.paths)}"
        stored = ComputedWeight(tuple(folding.layer.kernel.shape), folding.kernel)
        folded.weights[kernel] = replace(weights[kernel], value=stored)
        folded.weights[bias] = Weight(bias, "", ComputedWeight(folding.scale().shape, folding.bias))
        folded.layers[path], folded.paths[result], folded.results[end] = after, path, result
        _become_one(graph, each.nodes, bias, result)
    return folded


def _affine_maps(graph: Any, ranks: Mapping[str, int]) -> Iterator[_AffineMap]:
    """Yields each convolution with the node after it, and with the two after it, as far as each alone reads the one
    before and only adds a constant to each channel or multiplies it by one.

    Args:
        graph: The graph.
        ranks: The number of axes of each kernel, by name.
    """
    uses = Counter(name for node in all_nodes(graph) for name in node.input)
    uses.update(value.name for value in graph.output)
    readers = {name: node for node in graph.node for name in node.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for convolution in [node for node in graph.node if node.op_type == "Conv" and uses[node.input[1]] == 1]:
        nodes = [convolution]
        scale: Any = np.float64(1.0)
        shift: Any = np.float64(0.0)
        axes = ranks.get(convolution.input[1], 0) - 2  # those of the image
        if len(convolution.input) > 2:
            shift = _of_channels(convolution.input[2:], constants, 0)
        while axes > 0 and shift is not None and uses[nodes[-1].output[0]] == 1:
            reader = readers.get(nodes[-1].output[0])
            if reader is None or reader.op_type not in ("Add", "Mul"):
                break
            number = _of_channels(reader.input, constants, axes)
            if number is None:
                break
            scale, shift = (scale, shift + number) if reader.op_type == "Add" else (scale * number, shift * number)
            nodes.append(reader)
            yield _AffineMap(tuple(nodes), scale, shift)


def _of_channels(names: Sequence[str], constants: Mapping[str, Any], axes: int) -> Any | None:
    """Returns the constant of two operands that has a number for each channel, and so many axes of the image behind."""
    from onnx import numpy_helper

    values = (numpy_helper.to_array(constants[name]) for name in names if name in constants)
    shaped = (value for value in values if value.shape[-1 - axes :] == (value.size, *[1] * axes))
    value = next(shaped, None)
    return None if value is None else value.astype(np.float64).ravel()


def _become_one(graph: Any, nodes: Sequence[Any], bias: str, result: str) -> None:
    """Lets the first node return what the last one returned, with another bias."""
    old = nodes[-1].output[0]
    nodes[0].input[2:] = [bias]
    nodes[0].output[0] = result
    for node in nodes[1:]:
        graph.node.remove(node)
    for node in all_nodes(graph):
        node.input[:] = [result if name == old else name for name in node.input]
