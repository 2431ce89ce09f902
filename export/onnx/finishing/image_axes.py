"""The axes of images between convolutions: one row for a line, and channels first.

TensorFlow gives a line an axis before each convolution and takes it away behind: the bias, a normalization and an
activation stand between the two, where no runtime can join them with the convolution. And it has the channels last,
so that tf2onnx turns images before and after each convolution. Most of these turns undo each other. A scale for each
channel is turned by a Reshape, and a constant or a weight before it is stored: attention to channels and to pixels,
gates, and activations with weights need no turn in any run.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.canonical import order_needed
from keras_pe.export.onnx.finishing.graph_edits import (
    WEIGHT,
    Node,
    array,
    attribute,
    can_replace,
    constant,
    copy,
    count_uses,
    insert,
    nodes,
    producer,
    remove,
    replace,
    rewrite,
    sizes_constant,
    stand_for,
    turned_constant,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import BROADCASTING, ELEMENTWISE, REDUCTIONS, KnownSizes, Sizes

_ALIKE = (*BROADCASTING, *ELEMENTWISE)
_OF_IMAGES = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
_Squeezed = tuple[ir.Value, tuple[int, ...]]


def keep_rows(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets what lies between two convolutions of a line compute on images of one row, as the convolutions do.

    A Squeeze comes after what is done to each element, a Pad, a Concat or a Transpose, and an Unsqueeze that undoes it
    goes.

    Args:
        graph: A graph whose nodes stand in the order in which they are computed.
        sizes: Those of its values.
    """
    images = {value for node in nodes(graph, *_OF_IMAGES) for value in node.outputs}
    images |= {node.outputs[0] for node in nodes(graph, "Transpose") if node.inputs[0] in images}
    squeezed: dict[ir.Value, _Squeezed] = {}  # what is squeezed, and along which axes
    for node in list[Node](graph):
        result = node.outputs[0]
        if (axes := _axes(node, sizes)) is not None:
            given = node.inputs[0]
            if node.op_type == "Squeeze" and given in images:
                stand_for(result, given)
                squeezed[result] = given, axes
            elif node.op_type == "Unsqueeze" and given in squeezed:
                wide, dropped = squeezed[given]
                if dropped == axes and can_replace(result, wide):
                    replace(result, wide)
        elif (widened := _widened(graph, node, squeezed, sizes)) is not None:
            wide, axes = widened
            narrow = rewrite(node, "Squeeze", [wide, sizes_constant(graph, axes)])
            stand_for(narrow, wide)
            squeezed[narrow] = wide, axes


def _axes(node: Node, sizes: KnownSizes) -> tuple[int, ...] | None:
    """Returns the axes that a Squeeze drops or an Unsqueeze adds, counted from the first; None of other nodes."""
    if node.op_type not in ("Squeeze", "Unsqueeze") or len(node.inputs) != 2:
        return None
    axes, shape = sizes.vector(node.inputs[1]), sizes.shape(node.outputs[0])
    if axes is None or shape is None:
        return None
    rank = len(shape) + (len(axes) if node.op_type == "Squeeze" else 0)
    return tuple(sorted(axis % rank for axis in axes if isinstance(axis, int)))


def _widened(
    graph: ir.Graph, node: Node, squeezed: Mapping[ir.Value, _Squeezed], sizes: KnownSizes
) -> _Squeezed | None:
    """Computes of what is squeezed, if a node reads nothing else but constants.

    Returns:
        What is computed, and along which axes it is to be squeezed; None if the node stays as it is.
    """
    if node.op_type not in (*_ALIKE, "Concat", "Pad", "Transpose") or len(node.inputs) > 3 or len(node.outputs) > 1:
        return None
    tensors = [value for value in node.inputs if value is not None and array(value) is None]
    found = {squeezed[value][1] if value in squeezed else () for value in tensors}
    ranks = {len(sizes.shape(value) or ()) for value in (*tensors, node.outputs[0])}
    if len(found) != 1 or len(ranks) != 1:
        return None
    (axes,), (rank,) = found, ranks
    kept = [axis for axis in range(rank + len(axes)) if axis not in axes]
    if not axes or len(kept) != rank or (node.op_type == "Transpose" and not node.attributes):
        return None
    changed: dict[str, Any] = {}
    if node.op_type == "Concat":
        changed["axis"] = kept[attribute(node, "axis")]
    read = [_wide(graph, node, value, squeezed, kept, rank + len(axes)) for value in node.inputs]
    if node.op_type == "Transpose":  # behind the batch, where TensorFlow puts the axis of a line
        first, *order = (kept[axis] for axis in attribute(node, "perm"))
        changed["perm"] = [first, *axes, *order]
        axes = tuple(range(1, 1 + len(axes)))
    return copy(node, read, **changed), axes


def _wide(
    graph: ir.Graph,
    node: Node,
    value: ir.Value | None,
    squeezed: Mapping[ir.Value, _Squeezed],
    kept: list[int],
    rank: int,
) -> ir.Value | None:
    """Returns what a node reads of images of one row in place of a value."""
    numbers = array(value)
    if value is None or numbers is None:
        return value if value is None else squeezed[value][0]
    if node.op_type == "Pad" and value is node.inputs[1]:
        ends = np.zeros((2, rank), np.int64)
        ends[:, kept] = numbers.reshape(2, len(kept))
        return constant(graph, ends.reshape(-1))
    if numbers.size == 1:
        return value
    shape = np.ones(rank, np.int64)
    shape[kept] = (1,) * (len(kept) - numbers.ndim) + numbers.shape
    return constant(graph, numbers.reshape(shape))


_ORDERS = ([0, 3, 1, 2], [0, 4, 1, 2, 3], [1, 0, 2])  # of images, of volumes and of sequences


def compute_channels_first(graph: ir.Graph, sizes: KnownSizes) -> None:
    """Lets what lies between convolutions compute in their order of axes, if fewer turns are left then."""
    for order in _ORDERS:
        while _turned_apart(graph, sizes, order):
            order_needed(graph)


def _turned_apart(graph: ir.Graph, sizes: KnownSizes, order: list[int]) -> bool:
    """Turns the regions where that leaves fewer transpositions, of those that share a value the first alone."""
    met = set[ir.Value]()
    for region in _regions(graph, sizes, order):
        is_better = region.gain > 0 or (region.gain == 0 and region.follows_convolutions)
        if is_better and met.isdisjoint(region.values):
            met |= region.values
            region.turn()
    return bool(met)


def _regions(graph: ir.Graph, sizes: KnownSizes, order: list[int]) -> list["_Region"]:
    """Returns the largest sets of nodes that hand one another images and compute alike in any order of axes, then those
    that read the same images as well."""
    images = _Images(graph, sizes, order)
    regions = []
    for are_joined in (False, True):
        seen = set[Node]()
        for node in graph:
            if images.are_alike_in(node) and node not in seen:
                found = _around(node, images, are_joined)
                seen |= found
                regions.append(_Region(images, sorted(found, key=images.place.__getitem__)))
    return regions


def _around(node: Node, images: "_Images", are_joined: bool) -> set[Node]:
    """Returns a node and those of its set."""
    found, waiting = set[Node](), [node]
    while waiting:
        each = waiting.pop()
        if each not in found and images.are_alike_in(each):
            found.add(each)
            makers = [maker for value in each.inputs if images.is_one(value) and (maker := producer(value)) is not None]
            shared = [maker.outputs[0] for maker in makers if are_joined and _is_turn(maker, images.to_last)]
            waiting += makers
            for value in (*shared, *filter(images.is_one, each.outputs)):
                waiting += value.consumers()
    return found


class _Images:
    """What is known of the values of a graph with a certain number of axes."""

    def __init__(self, graph: ir.Graph, sizes: KnownSizes, order: list[int]) -> None:
        self.graph, self.sizes, self.rank = graph, sizes, len(order)
        self.place = {node: index for index, node in enumerate(graph)}
        self.to_first, self.to_last = order, [order.index(axis) for axis in range(len(order))]

    def is_one(self, value: ir.Value | None) -> bool:
        """Whether a value has as many axes."""
        return len(self.sizes.shape(value) or ()) == self.rank

    def is_free(self, value: ir.Value) -> bool:
        """Whether a value is turned by a Reshape, or before any run: a constant, a weight that is read once, or the
        negative of one."""
        shape = self.sizes.shape(value)
        if shape is None or len(shape) > self.rank:
            return False
        return array(value) is not None or _is_read_once(value) or _asked(shape, self.to_first) is not None

    def are_alike_in(self, node: Node) -> bool:
        """Whether a node computes the same from images in another order of axes, if its axes are named so."""
        if node.graph is not self.graph or len(node.outputs) != 1:
            return False
        read = [node.inputs[index] for index in _images_of(node)]
        if any(not self.is_one(value) and not self.is_free(value) for value in read):
            return False
        if node.op_type in REDUCTIONS:
            axes = self.reduced(node)
            left = [axis for axis in self.to_first if axis not in axes]
            return bool(axes) and (self.is_one(node.outputs[0]) or left == sorted(left))
        if node.op_type == "Pad" and (len(node.inputs) > 3 or array(node.inputs[1]) is None):
            return False
        if node.op_type == "Slice" and (len(node.inputs) < 4 or array(node.inputs[3]) is None):
            return False
        return node.op_type in ("Concat", "Pad", "Slice", *_ALIKE) and self.is_one(node.outputs[0])

    def reduced(self, node: Node) -> list[int]:
        """Returns the axes of an image that a reduction is over; none if they are not told."""
        axes = [*attribute(node, "axes", ())]
        axes += (self.sizes.vector(node.inputs[1]) or ()) if len(node.inputs) > 1 else ()
        return [axis % self.rank for axis in axes] if self.is_one(node.inputs[0]) else []

    def turn(self, value: ir.Value, order: list[int], place: Node) -> ir.Value:
        """Returns a value in another order of axes, made before a node."""
        if array(value) is not None:
            return turned_constant(self.graph, value, order)
        shape = self.sizes.shape(value) or ()
        full = (*[1] * (self.rank - len(shape)), *shape)
        turned = [full[axis] for axis in order]
        negative = producer(value, "Neg")
        if negative is not None and _is_read_once(value):
            return insert(place, "Neg", [self.turn(negative.inputs[0], order, place)])
        if (asked := _asked(shape, order)) is not None:
            if turned == list(shape) or set(turned) == {1}:
                return value
            return insert(place, "Reshape", [value, sizes_constant(self.graph, asked)])
        if len(shape) < self.rank:
            value = insert(place, "Reshape", [value, sizes_constant(self.graph, full)])
        return insert(place, "Transpose", [value], perm=order)


def _images_of(node: Node) -> list[int]:
    """Returns which inputs of a node have the axes of its images: of some the first alone."""
    if node.op_type in (*REDUCTIONS, "Pad", "Slice"):
        return [0]
    return [index for index, value in enumerate(node.inputs) if value is not None]


def _is_read_once(value: ir.Value) -> bool:
    """Whether a value is a weight that is read once, or the negative of one."""
    negative = producer(value, "Neg")
    weight = value if negative is None else negative.inputs[0]
    return WEIGHT in weight.meta and count_uses(weight) == 1 and not value.is_graph_output()


def _asked(shape: Sizes, order: list[int]) -> list[int] | None:
    """Returns what a Reshape is told that turns a tensor into an order of axes, a 0 for a size that it copies; None if
    none does that, or a size is not known."""
    full = (*[1] * (len(order) - len(shape)), *shape)
    moved = [axis for axis in order if full[axis] != 1]
    sizes = [full[axis] for axis in order]
    asked = [size if isinstance(size, int) else 0 for size in sizes]
    is_copied = all(isinstance(size, int) or shape[axis : axis + 1] == (size,) for axis, size in enumerate(sizes))
    return asked if moved == sorted(moved) and is_copied and 0 not in shape else None


class _Region:
    """Nodes that compute alike in any order of axes, and what leads into them and out of them.

    Attributes:
        values: All that they read or return, turned or not.
    """

    def __init__(self, images: _Images, members: list[Node]) -> None:
        self._images, self._nodes = images, members
        own, inside = dict.fromkeys(node.outputs[0] for node in members), set(members)
        self._results = [value for value in own if images.is_one(value)]
        read = dict.fromkeys(x for node in members for x in node.inputs if images.is_one(x) and x not in own)
        turns = {value: producer(value) for value in read}
        self._undone = {
            value: node.inputs[0]
            for value, node in turns.items()
            if node is not None and _is_turn(node, images.to_last)
        }
        self._given = [value for value in read if value not in self._undone and not images.is_free(value)]
        inputs = {value for node in members for value in node.inputs if value is not None}
        self.values = inputs.union(own, self._undone.values())
        self._turns: list[tuple[Node, ir.Value]] = []  # behind the nodes, of which result
        self._wanted: list[ir.Value] = []  # as it is
        for result in self._results:
            others = [node for node in result.consumers() if node not in inside]
            behind = [x for x in others if _is_turn(x, images.to_first) and not x.outputs[0].is_graph_output()]
            self._turns += [(node, result) for node in behind]
            if len(behind) < len(others) or result.is_graph_output():
                self._wanted.append(result)
        self.values |= {turn.outputs[0] for turn, _ in self._turns}

    @property
    def gain(self) -> int:
        """How many transpositions fewer there are if it is turned."""
        images, members = self._images, set(self._nodes)
        alone = [x for x in self._undone if members.issuperset(x.consumers()) and not x.is_graph_output()]
        costly = [x for x in self._wanted if not images.is_free(x)]
        return len(alone) + len(self._turns) - len(self._given) - len(costly)

    @property
    def follows_convolutions(self) -> bool:
        """Whether all images are turned before it and meet one number a channel: runtimes join it to a convolution."""
        shapes = [self._images.sizes.shape(value) or () for value in self.values if array(value) is not None]
        return bool(self._undone) and not self._given and all(set(shape[:-1]) <= {1} for shape in shapes)

    def turn(self) -> None:
        """Lets it compute channels first."""
        images, made = self._images, dict(self._undone)
        for value, source in self._undone.items():
            stand_for(value, source)
        for node in self._nodes:
            read: list[ir.Value | None] = [*node.inputs]
            for index in _images_of(node):
                value = node.inputs[index]
                if value not in made:
                    made[value] = images.turn(value, images.to_first, node)
                read[index] = made[value]
            if node.op_type == "Pad":
                ends = np.asarray(array(read[1])).reshape(2, images.rank)
                read[1] = sizes_constant(images.graph, ends[:, images.to_first].reshape(-1))
            if node.op_type == "Slice":
                axes = [images.to_first.index(axis % images.rank) for axis in np.asarray(array(read[3])).tolist()]
                read[3] = sizes_constant(images.graph, axes)
            changed: dict[str, Any] = {}
            if node.op_type == "Concat":
                changed["axis"] = images.to_first.index(attribute(node, "axis") % images.rank)
            if node.op_type in REDUCTIONS:
                axes = sorted(images.to_first.index(axis) for axis in images.reduced(node))
                if len(read) > 1:
                    read[1] = sizes_constant(images.graph, axes)
                else:
                    changed["axes"] = axes
            made[node.outputs[0]] = copy(node, read, **changed)
        for turn, result in self._turns:
            replace(turn.outputs[0], made[result])
            remove(turn)
        for node in self._nodes:
            old, new = node.outputs[0], made[node.outputs[0]]
            if old in self._results and old not in self._wanted:
                stand_for(old, new)
            else:
                replace(old, images.turn(new, images.to_last, node) if old in self._wanted else new)
        remove(*reversed(self._nodes))


def _is_turn(node: Node, order: list[int]) -> bool:
    return node.op_type == "Transpose" and list(attribute(node, "perm", ())) == order
