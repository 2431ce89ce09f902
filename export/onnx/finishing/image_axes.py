"""The pass that computes with channels first between convolutions, to remove transpositions.

TensorFlow has the channels last, so tf2onnx transposes images before and after each convolution. Most of these
transpositions undo each other. A Reshape transposes a scale for each channel, and constants and weights are transposed
before they are stored. Squeeze-and-excitation, gates and activations with weights then need no transposition in a run.
"""

from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.canonical_form import order_needed
from keras_pe.export.onnx.finishing.graph_edits import (
    WEIGHT,
    Node,
    array,
    attribute,
    constant,
    copy,
    count_uses,
    insert,
    order_of,
    producer,
    remove,
    replace,
    sizes_constant,
    stand_for,
    transpose_constant,
)
from keras_pe.export.onnx.finishing.operator_kinds import ALIKE, REDUCTIONS
from keras_pe.export.onnx.finishing.operator_sizes import Sizes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_ORDERS = ([0, 3, 1, 2], [0, 4, 1, 2, 3], [1, 0, 2])  # the orders of images, of volumes and of sequences


def compute_channels_first(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Transposes regions of a graph to channels first if this removes transpositions."""
    for order in _ORDERS:
        while _transpose_regions(graph, sizes, order):
            order_needed(graph)


def _transpose_regions(graph: ir.Graph, sizes: KnownSizes, order: list[int]) -> bool:
    """Transposes the regions that lose transpositions; returns False without such a region.

    If several regions share a value, only the first is transposed.
    """
    met = set[ir.Value]()
    for region in _regions(graph, sizes, order):
        if not met.isdisjoint(region.values):  # its nodes may be removed
            continue
        if region.gain > 0 or (region.gain == 0 and region.follows_convolutions):
            met |= region.values
            region.transpose()
    return bool(met)


def _regions(graph: ir.Graph, sizes: KnownSizes, order: list[int]) -> list["_Region"]:
    """Returns the connected sets of nodes that compute the same in any order of axes, the largest ones.

    Sets that are connected by results come first, then sets that are connected by the images that they read, too.
    """
    images = _Images(graph, sizes, order)
    regions = []
    for are_joined in (False, True):
        seen = set[Node]()
        for node in graph:
            if images.can_transpose(node) and node not in seen:
                found = _connected_set(node, images, are_joined)
                seen |= found
                regions.append(_Region(images, sorted(found, key=images.place.__getitem__)))
    return regions


def _connected_set(node: Node, images: "_Images", are_joined: bool) -> set[Node]:
    """Returns the set of a node, see `_regions`."""
    found, waiting = set[Node](), [node]
    while waiting:
        each = waiting.pop()
        if each not in found and images.can_transpose(each):
            found.add(each)
            makers = [maker for value in each.inputs if images.is_one(value) and (maker := producer(value)) is not None]
            shared = [maker.outputs[0] for maker in makers if are_joined and order_of(maker) == images.to_last]
            waiting += makers
            for value in (*shared, *filter(images.is_one, each.outputs)):
                waiting += value.consumers()
    return found


class _Images:
    """The images of a graph: its values with a certain number of axes."""

    def __init__(self, graph: ir.Graph, sizes: KnownSizes, order: list[int]) -> None:
        self.graph, self.sizes, self.rank = graph, sizes, len(order)
        self.place = {node: index for index, node in enumerate(graph)}
        self.to_first, self.to_last = order, [order.index(axis) for axis in range(len(order))]

    def is_one(self, value: ir.Value | None) -> bool:
        """Whether a value is an image."""
        return len(self.sizes.shape(value) or ()) == self.rank

    def is_free(self, value: ir.Value) -> bool:
        """Whether no run needs a Transpose of a value: a Reshape can do it, or it happens before the file is stored.

        Constants and weights with one reader, or the negative of such a weight, are transposed when they are stored.
        """
        shape = self.sizes.shape(value)
        if shape is None or len(shape) > self.rank:
            return False
        return array(value) is not None or _is_read_once(value) or _reshape_to(shape, self.to_first) is not None

    def can_transpose(self, node: Node) -> bool:
        """Whether a node computes the same from images in another order, apart from the names of its axes."""
        if node.graph is not self.graph or len(node.outputs) != 1:
            return False
        read = [node.inputs[index] for index in _image_inputs(node)]
        if any(not self.is_one(value) and not self.is_free(value) for value in read):
            return False
        if node.op_type in REDUCTIONS:
            axes = self.reduction_axes(node)
            left = [axis for axis in self.to_first if axis not in axes]
            return bool(axes) and (self.is_one(node.outputs[0]) or left == sorted(left))
        if node.op_type == "Pad" and (len(node.inputs) > 3 or array(node.inputs[1]) is None):
            return False
        if node.op_type == "Slice" and (len(node.inputs) < 4 or array(node.inputs[3]) is None):
            return False
        return node.op_type in ("Concat", "Pad", "Slice", *ALIKE) and self.is_one(node.outputs[0])

    def reduction_axes(self, node: Node) -> list[int]:
        """Returns the axes that a reduction of an image is over; an empty list if they are unknown."""
        return self.sizes.axes(node) if self.is_one(node.inputs[0]) else []

    def transpose(self, value: ir.Value, order: list[int], place: Node) -> ir.Value:
        """Returns a value in another order of axes, computed before a node."""
        if array(value) is not None:
            return transpose_constant(self.graph, value, order)
        shape = self.sizes.shape(value) or ()
        full = (*[1] * (self.rank - len(shape)), *shape)
        ordered = [full[axis] for axis in order]
        negative = producer(value, "Neg")
        if negative is not None and _is_read_once(value):
            return insert(place, "Neg", [self.transpose(negative.inputs[0], order, place)])
        if (reshaped := _reshape_to(shape, order)) is not None:
            if ordered == list(shape) or set(ordered) == {1}:
                return value
            return insert(place, "Reshape", [value, sizes_constant(self.graph, reshaped)])
        if len(shape) < self.rank:
            value = insert(place, "Reshape", [value, sizes_constant(self.graph, full)])
        return insert(place, "Transpose", [value], perm=order)


def _image_inputs(node: Node) -> list[int]:
    """Returns the indices of the inputs of a node that are images: of some operators only the first."""
    if node.op_type in (*REDUCTIONS, "Pad", "Slice"):
        return [0]
    return [index for index, value in enumerate(node.inputs) if value is not None]


def _is_read_once(value: ir.Value) -> bool:
    """Whether a value is a weight that is read once, or the negative of one."""
    negative = producer(value, "Neg")
    weight = value if negative is None else negative.inputs[0]
    return WEIGHT in weight.meta and count_uses(weight) == 1 and not value.is_graph_output()


def _reshape_to(shape: Sizes, order: list[int]) -> list[int] | None:
    """Returns the shape of a Reshape that transposes a tensor, with a 0 for each copied size.

    Returns None if no Reshape transposes it, or a size is unknown.
    """
    full = (*[1] * (len(order) - len(shape)), *shape)
    moved = [axis for axis in order if full[axis] != 1]
    sizes = [full[axis] for axis in order]
    result = [size if isinstance(size, int) else 0 for size in sizes]
    is_copied = all(isinstance(size, int) or shape[axis : axis + 1] == (size,) for axis, size in enumerate(sizes))
    return result if moved == sorted(moved) and is_copied and 0 not in shape else None


class _Region:
    """A connected set of nodes that compute the same in any order of axes, with the transpositions around them.

    Attributes:
        values: All values that the nodes and the transpositions read or return.
    """

    def __init__(self, images: _Images, members: list[Node]) -> None:
        self._images, self._nodes = images, members
        own, inside = dict.fromkeys(node.outputs[0] for node in members), set(members)
        self._results = [value for value in own if images.is_one(value)]
        read = dict.fromkeys(x for node in members for x in node.inputs if images.is_one(x) and x not in own)
        producers = {value: producer(value) for value in read}
        self._undone = {
            value: node.inputs[0]
            for value, node in producers.items()
            if node is not None and order_of(node) == images.to_last
        }
        self._sources = [value for value in read if value not in self._undone and not images.is_free(value)]
        inputs = {value for node in members for value in node.inputs if value is not None}
        self.values = inputs.union(own, self._undone.values())
        self._transposes: list[tuple[Node, ir.Value]] = []  # the Transposes of results, each with the result
        self._wanted: list[ir.Value] = []  # the results that other nodes read in the old order
        for result in self._results:
            others = [node for node in result.consumers() if node not in inside]
            after = [x for x in others if order_of(x) == images.to_first and not x.outputs[0].is_graph_output()]
            self._transposes += [(node, result) for node in after]
            if len(after) < len(others) or result.is_graph_output():
                self._wanted.append(result)
        self.values |= {node.outputs[0] for node, _ in self._transposes}

    @property
    def gain(self) -> int:
        """The number of transpositions that the graph loses if the region is transposed."""
        images, members = self._images, set(self._nodes)
        alone = [x for x in self._undone if members.issuperset(x.consumers()) and not x.is_graph_output()]
        costly = [x for x in self._wanted if not images.is_free(x)]
        return len(alone) + len(self._transposes) - len(self._sources) - len(costly)

    @property
    def follows_convolutions(self) -> bool:
        """Whether a runtime may fuse the region with convolutions: only numbers for channels meet transposed images."""
        shapes = [self._images.sizes.shape(value) or () for value in self.values if array(value) is not None]
        return bool(self._undone) and not self._sources and all(set(shape[:-1]) <= {1} for shape in shapes)

    def transpose(self) -> None:
        """Replaces the nodes by nodes that compute with channels first."""
        images, new_values = self._images, dict(self._undone)
        for value, source in self._undone.items():
            stand_for(value, source)
        for node in self._nodes:
            read: list[ir.Value | None] = [*node.inputs]
            for index in _image_inputs(node):
                value = node.inputs[index]
                if value not in new_values:
                    new_values[value] = images.transpose(value, images.to_first, node)
                read[index] = new_values[value]
            if node.op_type == "Pad":
                ends = np.asarray(array(read[1])).reshape(2, images.rank)
                read[1] = sizes_constant(images.graph, ends[:, images.to_first].reshape(-1))
            if node.op_type == "Slice":
                old = np.asarray(array(read[3]))
                axes = [images.to_first.index(axis % images.rank) for axis in old.tolist()]
                read[3] = constant(images.graph, np.asarray(axes, old.dtype))  # Slice has one type of bounds
            changed: dict[str, Any] = {}
            if node.op_type == "Concat":
                changed["axis"] = images.to_first.index(attribute(node, "axis") % images.rank)
            if node.op_type in REDUCTIONS:
                axes = sorted(images.to_first.index(axis) for axis in images.reduction_axes(node))
                if len(read) > 1:
                    read[1] = sizes_constant(images.graph, axes)
                else:
                    changed["axes"] = axes
            new_values[node.outputs[0]] = copy(node, read, **changed)
        for transpose, result in self._transposes:
            replace(transpose.outputs[0], new_values[result])
            remove(transpose)
        for node in self._nodes:
            old, new = node.outputs[0], new_values[node.outputs[0]]
            if old in self._results and old not in self._wanted:
                stand_for(old, new)
            else:
                replace(old, images.transpose(new, images.to_last, node) if old in self._wanted else new)
        remove(*reversed(self._nodes))
