"""The rules that infer the sizes of a node's result, by operator, and the arithmetic of sizes.

A rule that needs a size which the graph does not hold raises `UnknownSizeError`. Any other error of a rule is a bug and
reaches the caller.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice, zip_longest
from operator import add, eq, mul
from typing import Any, NoReturn

from onnx_ir import DataType

from keras_pe.export.onnx.finishing.operator_kinds import ALONG_AXES, BROADCASTING, BY_CHANNEL, ELEMENTWISE, REDUCTIONS

Size = int | str | tuple[Any, ...]
"""A number, a name, `("least", size, number)`, `("most", *sizes)`, `("product", *sizes)`, or a tensor and its axis."""
Sizes = tuple[Size, ...]
_Found = Sequence[Any]  # sizes, with None for an unknown one

# Keras counts in float32, which represents the sizes of all masks exactly.
COUNTING = (DataType.INT32, DataType.INT64, DataType.BOOL, DataType.FLOAT)
_END = 10**9  # the least end that tf2onnx writes for a Slice up to the end


class UnknownSizeError(Exception):
    """A rule needs a size that the graph does not hold."""


def _unknown() -> NoReturn:
    raise UnknownSizeError


@dataclass(frozen=True)
class Inputs:
    """The inputs of a node as rules read them. The methods raise `UnknownSizeError` for unknown sizes.

    Attributes:
        known_shapes: The shape of each input; None if its rank is unknown.
        known_vectors: The entries of each input that is a vector of sizes; None for other inputs.
        attributes: The values of the node's attributes, by name.
    """

    known_shapes: Sequence[Sizes | None]
    known_vectors: Sequence[Sizes | None]
    attributes: Mapping[str, Any]

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(self.known_shapes)

    def shape(self, index: int = 0) -> Sizes:
        """Returns the shape of an input."""
        return _unknown() if (found := self.known_shapes[index]) is None else found

    def vector(self, index: int = 0) -> Sizes:
        """Returns the entries of an input that is a vector of sizes."""
        return _unknown() if (found := self.known_vectors[index]) is None else found

    def shapes(self) -> list[Sizes]:
        """Returns the shapes of all inputs."""
        return [self.shape(index) for index in range(self.count)]

    def axes(self) -> list[int]:
        """Returns the axes in the attribute or in the second input of the node."""
        return self.attributes.get("axes") or (self.count > 1 and _integers(self.vector(1))) or _unknown()


_Rule = Callable[[Inputs], _Found]


def apply_rule(rules: Mapping[str, _Rule], operator: str, node: Inputs) -> _Found | None:
    """Returns the result of an operator's rule; None without a rule, or if the rule needs an unknown size."""
    try:
        return rules[operator](node) if operator in rules else None
    except UnknownSizeError:
        return None


def _integers(sizes: Sequence[Size]) -> list[int]:
    """Returns sizes that must be numbers, such as axes."""
    return [size if isinstance(size, int) else _unknown() for size in sizes]


def _sum(left: Size, right: Size) -> Size | None:
    return right if left == 0 else left if right == 0 else None


def _product(left: Size, right: Size) -> Size | None:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return 0 if 0 in (left, right) else right if left == 1 else left if right == 1 else None


def _most(left: Size, right: Size) -> Size:
    return left if left == right else ("most", *sorted((left, right), key=repr))


def _equality(left: Size, right: Size) -> Size | None:
    return 0 if any(isinstance(each, int) and each < 0 for each in (left, right)) else None  # no size is negative


def _elementwise(of_numbers: Callable[..., int], of_sizes: Callable[..., Size | None], node: Inputs) -> Sizes:
    left, right = (node.vector(0), node.vector(1)) if node.count == 2 else _unknown()
    pairs = islice(zip(cycle(left), cycle(right), strict=False), max(len(left), len(right)))
    found = [int(of_numbers(*each)) if {*map(type, each)} == {int} else of_sizes(*each) for each in pairs]
    is_beyond = any(isinstance(each, int) and abs(each) >= 2**31 for each in found)  # it may wrap around
    return tuple(_unknown() if each is None or is_beyond else each for each in found)


def _cast_vector(node: Inputs) -> Sizes:
    kind, vector = node.attributes["to"], node.vector()
    return vector if kind in COUNTING and (kind != DataType.BOOL or set(vector) <= {0, 1}) else _unknown()


def _gather_vector(node: Inputs) -> Sizes:
    vector = node.vector()
    return tuple(vector[i] if -len(vector) <= i < len(vector) else _unknown() for i in _integers(node.vector(1)))


def _slice_vector(node: Inputs) -> Sizes:
    bounds = [node.vector(index) for index in range(1, node.count) if index != 3]  # a vector has one axis
    return node.vector()[slice(*_integers([*chain(*bounds)]))]


def _choose(node: Inputs) -> Sizes:
    vectors = _integers(node.vector(0)), node.vector(1), node.vector(2)
    rows = islice(zip(*map(cycle, vectors), strict=False), max(map(len, vectors)))
    return tuple(first if chosen else second for chosen, first, second in rows)


VECTOR_RULES: dict[str, _Rule] = {
    "Add": partial(_elementwise, add, _sum),
    "Cast": _cast_vector,
    "Concat": lambda node: [*chain(*(node.vector(index) for index in range(node.count)))],
    "Equal": partial(_elementwise, eq, _equality),
    "Gather": _gather_vector,
    "Max": partial(_elementwise, max, _most),
    **dict.fromkeys(("Identity", "Squeeze", "Unsqueeze"), Inputs.vector),
    "Mul": partial(_elementwise, mul, _product),
    "Shape": lambda node: node.shape()[slice(node.attributes.get("start"), node.attributes.get("end"))],
    "Slice": _slice_vector,
    "Where": _choose,
}
"""The entries of a vector that a node computes from vectors of sizes, by operator."""


def _broadcast(shapes: Iterable[Sizes]) -> list[Size | None]:
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return [_common(set(column) - {1}) for column in columns][::-1]


def _common(sizes: set[Size]) -> Size | None:
    """Returns the broadcast size of sizes other than 1; None if it is unknown."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if numbers or not sizes:
        return max(numbers, default=1)
    # min(s, n) broadcasts with s only if s <= n or one of them is 1.
    limits = [size[2] for size in sizes if isinstance(size, tuple) and size[0] == "least"]
    wider = sizes - {("least", size, number) for size in sizes for number in limits}
    return next(iter(wider)) if len(wider) == 1 else None


def _attention(node: Inputs) -> _Found:
    queries, values = node.shape(0), node.shape(2)
    if len(queries) != 3:  # the heads are an axis
        return [*queries[:3], values[3]]
    [width] = _integers(values[2:])
    return [*queries[:2], node.attributes["q_num_heads"] * (width // node.attributes["kv_num_heads"])]


def _replace(shape: _Found, axis: int, size: Size | None) -> _Found:
    result = [*shape]
    result[axis] = size
    return result


def _concat(node: Inputs) -> _Found:
    axis = node.attributes["axis"]
    sizes = [shape[axis] for shape in node.shapes()]
    return _replace(_broadcast(node.shapes()), axis, sum(sizes) if {*map(type, sizes)} == {int} else None)


def _dft(node: Inputs) -> _Found:
    [axis] = _integers(node.vector(2)) if node.count > 2 else [node.attributes["axis"]]
    return _replace((*node.shape()[:-1], 2), axis, (node.known_vectors[1] or [None])[0])  # the last axis has pairs


def _einsum(node: Inputs) -> _Found:
    operands, _, result = node.attributes["equation"].replace(" ", "").partition("->")
    if "." in result:
        return _unknown()
    terms = zip(operands.split(","), node.shapes(), strict=True)
    sizes = {label: size for term, shape in terms for label, size in zip(term, shape, strict=True)}
    return [sizes[label] for label in result]


def _gather(node: Inputs) -> _Found:
    shape, axis = node.shape(), node.attributes.get("axis", 0)
    return [*shape[:axis], *node.shape(1), *shape[axis:][1:]]


def _matmul(node: Inputs) -> _Found:
    left, right = node.shapes()
    if len(left) < 2 or len(right) < 2:
        return _unknown()
    return [*_broadcast([left[:-2], right[:-2]]), left[-2], right[-1]]


def _pad(node: Inputs) -> _Found:
    shape, pads = node.shape(), node.vector(1) if node.count < 4 else _unknown()  # a fourth input names axes
    return [size if {*pads[axis :: len(shape)]} == {0} else None for axis, size in enumerate(shape)]


def _drop_axes(node: Inputs, keeps: int) -> _Found:
    shape = node.shape()
    axes = {axis % len(shape) for axis in node.axes()}
    return [1 if axis in axes else size for axis, size in enumerate(shape) if keeps or axis not in axes]


def _reshape(node: Inputs) -> _Found:
    requested = node.vector(1)
    if node.attributes.get("allowzero") and 0 in requested:
        return _unknown()
    wanted = [node.shape()[axis] if size == 0 else size for axis, size in enumerate(requested)]
    if -1 not in wanted or node.known_shapes[0] is None:
        return [None if size == -1 else size for size in wanted]
    given, rest = Counter(node.shape()), Counter(size for size in wanted if size != -1)
    left, over = given - rest, rest - given
    symbols = [size for size in left.elements() if not isinstance(size, int)]
    above, below = (math.prod(size for size in each.elements() if isinstance(size, int)) for each in (left, over))
    is_known = all(isinstance(size, int) for size in over) and below > 0
    missing: Size | None = None
    if is_known and not symbols and above % below == 0:
        missing = above // below
    elif is_known and symbols and above == below:
        missing = symbols[0] if len(symbols) == 1 else ("product", *sorted(symbols, key=repr))
    return [missing if size == -1 else size for size in wanted]


def _slice(node: Inputs) -> _Found:
    result: list[Size | None] = [*node.shape()]
    starts, ends = node.vector(1), node.vector(2)
    axes = _integers(node.vector(3)) if node.count > 3 else range(len(starts))
    steps = node.vector(4) if node.count > 4 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        result[axis] = _cut(start, end, node.shape()[axis]) if step == 1 else None
    return result


def _cut(start: Size, end: Size, size: Size) -> Size | None:
    if isinstance(start, int) and isinstance(end, int) and isinstance(size, int):
        return len(range(size)[start:end])
    if start == 0 and (end == size or (isinstance(end, int) and end >= _END)):
        return size
    return ("least", end, size) if start == 0 and isinstance(size, int) and not isinstance(end, int) else None


def _unsqueeze(node: Inputs) -> _Found:
    rank = len(node.shape()) + len(node.axes())
    added, rest = {axis % rank for axis in node.axes()}, iter(node.shape())
    return [1 if axis in added else next(rest) for axis in range(rank)]


def _image(node: Inputs, channels: Size | None) -> _Found:
    """Returns the sizes of an image of unknown height and width."""
    return [node.shape()[0], channels, *[None] * (len(node.shape()) - 2)]


SHAPE_RULES: dict[str, _Rule] = {
    "Attention": _attention,
    **dict.fromkeys((*ELEMENTWISE, *ALONG_AXES, "TensorScatter"), Inputs.shape),
    **dict.fromkeys(BROADCASTING, lambda node: _broadcast(node.shapes())),
    **dict.fromkeys(REDUCTIONS, lambda node: _drop_axes(node, node.attributes.get("keepdims", 1))),
    **dict.fromkeys(BY_CHANNEL, lambda node: _image(node, node.shape()[1])),
    "Concat": _concat,
    "Conv": lambda node: _image(node, node.shape(1)[0]),
    "ConvTranspose": lambda node: _image(node, _product(node.shape(1)[1], node.attributes.get("group", 1))),
    "ConstantOfShape": Inputs.vector,
    "DFT": _dft,
    "Einsum": _einsum,
    "Expand": lambda node: _broadcast([node.shape(), node.vector(1)]),
    "Gather": _gather,
    "MatMul": _matmul,
    "Pad": _pad,
    "Range": lambda node: node.vector(1) if (node.vector(0), node.vector(2)) == ((0,), (1,)) else _unknown(),
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": lambda node: _replace(node.shape(), node.attributes.get("axis", 0), None),
    "Squeeze": lambda node: _drop_axes(node, 0),
    "Tile": lambda node: [_product(*pair) for pair in zip(node.shape(), node.vector(1), strict=True)],
    "Transpose": lambda node: [node.shape()[i] for i in node.attributes.get("perm") or range(len(node.shape()))[::-1]],
    "Unsqueeze": _unsqueeze,
}
"""The sizes of the result of a node, by operator; None for an unknown size. All results of a Split have these sizes."""
