"""The axes of images between convolutions: one row for a line, and channels first.

TensorFlow gives a line an axis before each convolution and takes it away behind: the bias, a normalization and an
activation stand between the two, where no runtime can join them with the convolution. And tf2onnx moves a transposition
past an operator only if whatever else that reads is turned as well. But a scale for each channel is turned by a
Reshape, and a constant or a weight before it is stored: attention to channels and to pixels, gates, and activations
with weights need no turn in any run.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_pe.export.artifacts.onnx_model import all_nodes, needed_names
from keras_pe.export.onnx.finishing.graph_edits import (
    GraphEditor,
    attribute,
    make_node,
    order_needed,
    read_instead,
    refill,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import BROADCASTING, ELEMENTWISE, REDUCTIONS, KnownSizes, Sizes

_ALIKE = (*BROADCASTING, *ELEMENTWISE)
_OF_IMAGES = ("AveragePool", "Conv", "ConvTranspose", "MaxPool")
_Squeezed = tuple[str, tuple[Any, ...]]


def keep_rows(graph: Any, sizes: KnownSizes) -> dict[str, str]:
    """Lets what lies between two convolutions of a line compute on images of one row, as the convolutions do.

    A Squeeze comes after what is done to each element, a Pad, a Concat or a Transpose, and an Unsqueeze that undoes it
    goes. Nodes that nothing needs any more are left behind.

    Args:
        graph: An `onnx.GraphProto` whose nodes stand in the order in which they are computed; changed in place.
        sizes: Those of its tensors.

    Returns:
        What stands for each tensor that may be needed no more: it, or the images of one row that it is made of.
    """
    editor, nodes = GraphEditor(graph), []
    images = {name for node in editor.nodes(*_OF_IMAGES) for name in node.output}
    squeezed: dict[str, _Squeezed] = {}  # what is squeezed, and along which axes
    same: dict[str, str] = {}
    for node in graph.node:
        read_instead(node, same)
        nodes.append(node)
        if (axes := _axes(node, sizes)) is not None:
            source, dropped = squeezed.get(node.input[0], ("", ()))
            if node.op_type == "Squeeze" and node.input[0] in images:
                squeezed[node.output[0]] = node.input[0], axes
            elif node.op_type == "Unsqueeze" and dropped == axes and node.output[0] not in editor.outputs:
                same[node.output[0]] = source
        elif axes := _widened(editor, node, squeezed, sizes):
            narrow, wide = node.output[0], f"{node.output[0]}/wide"
            node.output[0] = wide
            squeezed[narrow] = wide, axes
            nodes.append(make_node("Squeeze", [wide, editor.add_sizes(f"{narrow}/axes", axes)], narrow))
    refill(graph.node, nodes)
    editor.read_instead(same)
    return same | {narrow: wide for narrow, (wide, _) in squeezed.items()}


def _axes(node: Any, sizes: KnownSizes) -> tuple[Any, ...] | None:
    """Returns the axes that a Squeeze drops or an Unsqueeze adds, counted from the first; None of other nodes."""
    if node.op_type not in ("Squeeze", "Unsqueeze") or len(node.input) != 2:
        return None
    axes, shape = sizes.vector(node.input[1]), sizes.shape(node.output[0])
    if axes is None or shape is None:
        return None
    rank = len(shape) + (len(axes) if node.op_type == "Squeeze" else 0)
    return tuple(sorted(axis % rank for axis in axes if isinstance(axis, int)))


def _widened(editor: GraphEditor, node: Any, squeezed: Mapping[str, _Squeezed], sizes: KnownSizes) -> tuple[Any, ...]:
    """Lets a node read what is squeezed, if all that it reads is, but for constants.

    Returns:
        Along which axes what it returns is to be squeezed now; none where the node is left as it was.
    """
    if node.op_type not in (*_ALIKE, "Concat", "Pad", "Transpose") or len(node.input) > 3:
        return ()
    constants = {name: value for name in node.input if (value := editor.value(name)) is not None}
    tensors = [name for name in node.input if name and name not in constants]
    found = {squeezed.get(name, ("", ()))[1] for name in tensors}
    ranks = {len(sizes.shape(name) or ()) for name in (*tensors, node.output[0])}
    if len(found) != 1 or len(ranks) != 1:
        return ()
    (axes,), (rank,) = found, ranks
    kept = [axis for axis in range(rank + len(axes)) if axis not in axes]
    if not axes or len(kept) != rank or (node.op_type == "Transpose" and not node.attribute):
        return ()
    wide = {name: squeezed[name][0] for name in tensors}
    if node.op_type == "Concat":
        node.attribute[0].i = kept[node.attribute[0].i]
    if node.op_type == "Transpose":  # behind the batch, where TensorFlow puts the axis of a line
        first, *order = (kept[axis] for axis in node.attribute[0].ints)
        node.attribute[0].ints[:] = [first, *axes, *order]
        axes = tuple(range(1, 1 + len(axes)))
    for name, value in constants.items():
        if node.op_type == "Pad" and name == node.input[1]:
            ends = np.zeros((2, rank + len(axes)), np.int64)
            ends[:, kept] = value.reshape(2, rank)
            wide[name] = editor.add_constant(f"{node.output[0]}/{name}/wide", ends.reshape(-1))
        elif value.size > 1:
            shape = np.ones(rank + len(axes), np.int64)
            shape[kept] = (1,) * (rank - value.ndim) + value.shape
            wide[name] = editor.add_constant(f"{node.output[0]}/{name}/wide", value.reshape(shape))
    read_instead(node, wide)
    return axes


_RANKS = (4, 5)  # of a batch of images, and of volumes


def compute_channels_first(graph: Any, sizes: KnownSizes, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Lets what lies between convolutions compute in their order of axes, where fewer turns are left then.

    Args:
        graph: An `onnx.GraphProto` whose weights are no initializers yet; changed in place.
        sizes: Those of its tensors; is told of what is turned.
        shapes: The shape of each weight, by its name.

    Returns:
        What stands for each tensor that is needed no more: the same in the other order of axes.
    """
    same: dict[str, str] = {}
    for rank in _RANKS:
        while turned := _turned_apart(graph, sizes, shapes, rank):
            same |= turned
            order_needed(graph)
    return same


def _turned_apart(
    graph: Any, sizes: KnownSizes, shapes: Mapping[str, tuple[int, ...]], rank: int
) -> dict[str, str] | None:
    """Turns the regions where that leaves fewer transpositions, of those that share a tensor the first alone.

    Returns:
        What stands for what is needed no more; None if no region is turned.
    """
    turned, undone, met = dict[str, str](), dict[str, str](), set[str]()
    for region in _regions(graph, sizes, shapes, rank):
        if region.gain > 0 and met.isdisjoint(region.tensors):
            met |= region.tensors
            turned |= region.turn()
            undone |= region.undone
    for node in all_nodes(graph) if turned else ():
        read_instead(node, turned)
    return turned | undone if met else None


def _regions(graph: Any, sizes: KnownSizes, shapes: Mapping[str, tuple[int, ...]], rank: int) -> list["_Region"]:
    """Returns the largest sets of nodes that hand one another images and compute alike in any order of axes, then those
    that read the same images as well."""
    images = _Images(graph, sizes, shapes, rank)
    regions = []
    for are_joined in (False, True):
        seen = set[str]()
        for node in graph.node:
            if images.are_alike_in(node) and node.output[0] not in seen:
                nodes = _around(node, images, are_joined)
                seen |= nodes.keys()
                regions.append(_Region(images, nodes))
    return regions


def _around(node: Any, images: "_Images", are_joined: bool) -> dict[str, Any]:
    """Returns a node and those of its set, by the tensor that each returns."""
    nodes, waiting = dict[str, Any](), [node]
    while waiting:
        each = waiting.pop()
        if each.output[0] not in nodes and images.are_alike_in(each):
            nodes[each.output[0]] = each
            read = [x for x in each.input if images.is_one(x) and x in images.producers]
            shared = [x for x in read if are_joined and _is_turn(images.producers[x], images.to_last)]
            waiting += [images.producers[x] for x in read]
            for result in (*shared, *filter(images.is_one, each.output)):
                waiting += images.needing.get(result, ())
    return nodes


class _Images(GraphEditor):
    """What is known of a graph, and of its tensors with a certain number of axes.

    Attributes:
        needing: The nodes of the graph that need each tensor, for those within them too.
    """

    def __init__(self, graph: Any, sizes: KnownSizes, shapes: Mapping[str, tuple[int, ...]], rank: int) -> None:
        super().__init__(graph)
        self.sizes, self.rank = sizes, rank
        self.to_first, self.to_last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
        self.needing: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in dict.fromkeys(needed_names(node)):
                self.needing.setdefault(name, []).append(node)
        self._alone = {name for name in shapes if len(self.needing.get(name, ())) == 1 and name not in self.outputs}
        negated = [node for node in self.nodes("Neg") if node.input[0] in self._alone]
        self._alone |= {node.output[0] for node in negated if node.output[0] not in self.outputs}

    def is_one(self, name: str) -> bool:
        """Whether a tensor has as many axes."""
        return len(self.shape(name) or ()) == self.rank

    def is_free(self, name: str) -> bool:
        """Whether a tensor is turned by a Reshape, or before any run: a constant, a weight that is read once, or the
        negative of one."""
        shape = self.shape(name)
        if shape is None or len(shape) > self.rank:
            return False
        return name in self.constants or name in self._alone or _told(shape, self.to_first) is not None

    def shape(self, name: str) -> Sizes | None:
        """Returns the sizes of a tensor; None where not even their number is known."""
        return tuple(self.constants[name].dims) if name in self.constants else self.sizes.shape(name)

    def are_alike_in(self, node: Any) -> bool:
        """Whether a node computes the same from images in another order of axes, if its axes are named so."""
        if len(node.output) != 1 or any(not self.is_one(x) and not self.is_free(x) for x in node.input if x):
            return False
        if node.op_type in REDUCTIONS:
            axes = self.reduced(node)
            left = [axis for axis in self.to_first if axis not in axes]
            return bool(axes) and (self.is_one(node.output[0]) or left == sorted(left))
        return node.op_type in ("Concat", *_ALIKE) and self.is_one(node.output[0])

    def reduced(self, node: Any) -> list[int]:
        """Returns the axes of an image that a reduction is over; none where they are not told."""
        axes = [*attribute(node, "axes", ())]
        axes += (self.sizes.vector(node.input[1]) or ()) if len(node.input) > 1 else ()
        return [axis % self.rank for axis in axes] if self.is_one(node.input[0]) else []

    def turn(self, name: str, order: list[int], result: str) -> str:
        """Returns the name of what a tensor is in another order of axes: that of the result, if it has to be made."""
        if name in self.constants:
            return self.add_turned(result, name, order)
        shape = self.shape(name) or ()
        full = (*[1] * (self.rank - len(shape)), *shape)
        turned = [full[axis] for axis in order]
        if name in self._alone and name in self.producers:
            weight = self.turn(self.producers[name].input[0], order, f"{result}/weight")
            self._add("Neg", [weight], result)
        elif (told := _told(shape, order)) is not None:
            if turned == list(shape) or set(turned) == {1}:
                return name
            self._add("Reshape", [name, self.add_sizes(f"{result}/sizes", told)], result)
        else:
            if len(shape) < self.rank:
                name = self._add("Reshape", [name, self.add_sizes(f"{result}/sizes", full)], f"{result}/full")
            self._add("Transpose", [name], result, perm=order)
        self.sizes.tell(result, turned)
        return result

    def _add(self, operator: str, inputs: list[str], result: str, **attributes: Any) -> str:
        self.graph.node.append(make_node(operator, inputs, result, **attributes))
        return result


def _told(shape: Sizes, order: list[int]) -> list[int] | None:
    """Returns what a Reshape is told that turns a tensor into an order of axes, a 0 for a size that it copies; None
    where none does that, or a size is not known."""
    full = (*[1] * (len(order) - len(shape)), *shape)
    moved = [axis for axis in order if full[axis] != 1]
    sizes = [full[axis] for axis in order]
    told = [size if isinstance(size, int) else 0 for size in sizes]
    is_copied = all(isinstance(size, int) or shape[axis : axis + 1] == (size,) for axis, size in enumerate(sizes))
    return told if moved == sorted(moved) and is_copied and 0 not in shape else None


class _Region:
    """Nodes that compute alike in any order of axes, and what leads into them and out of them.

    Attributes:
        undone: What stands, channels first, for each tensor that is turned before them.
        tensors: Every tensor that they read or return, turned or not.
    """

    def __init__(self, images: _Images, nodes: dict[str, Any]) -> None:
        self._images, self._nodes = images, nodes
        self._results = [result for result in nodes if images.is_one(result)]
        read = dict.fromkeys(x for node in nodes.values() for x in node.input if images.is_one(x) and x not in nodes)
        undoing = {x: images.producers[x] for x in read if x in images.producers}
        self.undone = {x: node.input[0] for x, node in undoing.items() if _is_turn(node, images.to_last)}
        self._given = [x for x in read if x not in self.undone and not images.is_free(x)]
        self.tensors = {*nodes, *self.undone.values(), *(name for node in nodes.values() for name in node.input)}
        self._turned: dict[str, str] = {}  # by what it is then
        self._wanted: list[str] = []  # as it is
        for result in self._results:
            others = [node for node in images.needing.get(result, ()) if node.output[0] not in nodes]
            turns = [x for x in others if _is_turn(x, images.to_first) and x.output[0] not in images.outputs]
            self._turned |= {node.output[0]: result for node in turns}
            if len(turns) < len(others) or result in images.outputs:
                self._wanted.append(result)
        self.tensors |= self._turned.keys()

    @property
    def gain(self) -> int:
        """How many transpositions fewer there are if it is turned."""
        images, nodes = self._images, self._nodes
        alone = [x for x in self.undone if all(reader.output[0] in nodes for reader in images.needing[x])]
        costly = [x for x in self._wanted if not images.is_free(x)]
        return len({*alone} - images.outputs) + len(self._turned) - len(self._given) - len(costly)

    def turn(self) -> dict[str, str]:
        """Lets it compute channels first, and returns what is read instead of each tensor that was turned behind it."""
        images = self._images
        names = {x: f"{x}/channels_first" if x in self._wanted else x for x in self._results}
        shapes = {x: images.shape(x) or () for x in self._results}
        made = self.undone | names
        for result, node in self._nodes.items():
            read = node.input[:1] if node.op_type in REDUCTIONS else list(node.input)
            for name in read:
                if name and name not in made:
                    made[name] = images.turn(name, images.to_first, f"{result}/{name}/channels_first")
            _name_axes(node, images)
            node.input[: len(read)] = [made.get(name, name) for name in read]
            node.output[0] = names.get(result, result)
        for result, shape in shapes.items():
            images.sizes.tell(names[result], [shape[axis] for axis in images.to_first])
            if result in self._wanted:
                images.turn(names[result], images.to_last, result)
        return {turned: names[result] for turned, result in self._turned.items()}


def _is_turn(node: Any, order: list[int]) -> bool:
    return bool(node.op_type == "Transpose" and node.attribute and list(node.attribute[0].ints) == order)


def _name_axes(node: Any, images: _Images) -> None:
    """Names the axes that a node joins or reduces as they are counted channels first."""
    if node.op_type == "Concat":
        node.attribute[0].i = images.to_first.index(node.attribute[0].i % images.rank)
    if node.op_type in REDUCTIONS:
        axes = sorted(images.to_first.index(axis) for axis in images.reduced(node))
        for each in node.attribute:
            if each.name == "axes":
                each.ints[:] = axes
        if len(node.input) > 1:
            node.input[1] = images.add_sizes(f"{node.output[0]}/axes", axes)
