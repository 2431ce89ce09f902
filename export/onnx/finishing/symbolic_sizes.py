"""The inference of sizes in a graph: numbers, names of input dimensions, and terms of both.

ONNX' own inference has names of dimensions too, and loses them if a table is sliced to the length of an input.
A rule that needs a size which the graph does not hold raises `_UnknownSizeError`. Any other error of a rule is a bug
and reaches the caller.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NoReturn

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import Node

Size = int | str | tuple[Any, ...]
"""A number, the name of a dimension, `("least", size, number)`, `("product", *sizes)`, or a tensor and its axis."""
Sizes = tuple[Size, ...]
_Found = Sequence[Size | None]

REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")

_MOST = 16  # entries of a vector of sizes
_BOOL = 9
# ONNX' int32, int64, bool, and float32, in which Keras counts: float32 represents the sizes of all masks exactly.
_COUNTING = (6, 7, _BOOL, 1)
_END = 10**9  # the least end that tf2onnx writes for a Slice up to the end
ELEMENTWISE = (
    *("Abs", "Cast", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("Identity", "LeakyRelu", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid"),
    *("Sign", "Sin", "Softplus", "Sqrt", "Tanh"),
)
_ALONG_AXES = (
    *("InstanceNormalization", "LayerNormalization", "LogSoftmax", "RMSNormalization", "RotaryEmbedding", "Softmax"),
)
BROADCASTING = (
    *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul"),
    *("Or", "Pow", "Sub", "Where", "Xor"),
)
_BY_CHANNEL = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Resize")


class _UnknownSizeError(Exception):
    """A rule needs a size that the graph does not hold."""


def _unknown() -> NoReturn:
    raise _UnknownSizeError


class _Known:
    """The shapes, or the vectors, of a node's inputs; reading an unknown one raises `_UnknownSizeError`."""

    def __init__(self, found: Iterable[Sizes | None]) -> None:
        self._found = [*found]

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, index: int) -> Sizes:
        return _unknown() if (found := self._found[index]) is None else found

    def __iter__(self) -> Iterator[Sizes]:
        return (self[index] for index in range(len(self)))

    def has(self, index: int) -> bool:
        return self._found[index] is not None


class KnownSizes:
    """The shapes of the values in a graph and in the graphs inside its nodes, and the values of vectors of sizes.

    The shape of a value that a pass adds is inferred when a pass reads it.

    Attributes:
        opset: The version of ONNX' operators in the graph.
    """

    def __init__(self, graph: ir.Graph) -> None:
        """Infers the sizes of a graph.

        Args:
            graph: The graph, in topological order, with shapes of its inputs.
        """
        self.opset: int = graph.opset_imports.get("", 0)
        self._shapes: dict[ir.Value, Sizes | None] = {}
        self._vectors: dict[ir.Value, Sizes] = {}
        for node in graph.all_nodes():  # a node follows the nodes that it reads
            self._follow(node)

    def shape(self, value: ir.Value | None) -> Sizes | None:
        """Returns the sizes of a value; None if the rank is unknown."""
        if value is None:
            return None
        if value not in self._shapes:
            node = value.producer()
            if node is None:
                self._start(value)
            else:
                self._follow(node)
        return self._shapes.get(value)

    def vector(self, value: ir.Value | None) -> Sizes | None:
        """Returns the entries of a vector or scalar of integers; None if they are unknown."""
        self.shape(value)
        return None if value is None else self._vectors.get(value)

    def array(self, value: ir.Value) -> Any | None:
        """Returns a vector or scalar as an array of the value's dtype; None if an entry is not a number."""
        vector, shape = self.vector(value), self.shape(value)
        if vector is None or shape is None or not value.dtype or not all(isinstance(entry, int) for entry in vector):
            return None
        return np.array(vector, value.dtype.numpy()).reshape([len(vector)] * len(shape))

    def with_axes_kept(self, reduction: Node) -> Sizes | None:
        """Returns the sizes of the result of a reduction if it kept its axes; None if they are unknown."""
        attributes = {**_attributes(reduction), "keepdims": 1}
        with contextlib.suppress(_UnknownSizeError):
            shapes, vectors = (_Known(map(read, reduction.inputs)) for read in (self.shape, self.vector))
            return tuple(_reduction(shapes, vectors, attributes))
        return None

    def _start(self, value: ir.Value) -> None:
        """Stores the sizes of an input or a constant."""
        self._shapes[value] = _declared_shape(value)
        tensor = value.const_value
        if tensor is None or tensor.dtype not in _COUNTING or len(tensor.shape) > 1 or tensor.size > _MOST:
            return
        values = tensor.numpy().reshape(-1)
        if values.dtype.kind != "f" or ((np.abs(values) < 2.0**63).all() and (values == np.floor(values)).all()):
            self._vectors[value] = tuple(map(int, values.tolist()))

    def _follow(self, node: Node) -> None:
        shapes, vectors = _Known(map(self.shape, node.inputs)), _Known(map(self.vector, node.inputs))
        attributes = _attributes(node)
        shape, vector = None, None
        with contextlib.suppress(_UnknownSizeError):
            shape = _RULES[node.op_type](shapes, vectors, attributes) if node.op_type in _RULES else None
        with contextlib.suppress(_UnknownSizeError):
            vector = _vector(node, shapes, vectors, attributes)
        for index, value in enumerate(node.outputs):
            numbers = _inferred_numbers(value)
            found = shape if shape is not None and (index == 0 or node.op_type == "Split") else numbers
            self._shapes[value] = None
            if found is not None:
                both = zip(numbers if numbers and len(numbers) == len(found) else found, found, strict=True)
                self._shapes[value] = tuple(
                    _size(size, number, (value.name, axis)) for axis, (number, size) in enumerate(both)
                )
        result = self._shapes[node.outputs[0]]
        if vector is not None and len(vector) <= _MOST and result is not None and len(result) < 2:
            self._vectors[node.outputs[0]] = vector


def _attributes(node: Node) -> dict[str, Any]:
    return {name: each.value for name, each in node.attributes.items()}


def _declared_shape(value: ir.Value) -> Sizes | None:
    """Returns the shape of an input or a constant: numbers and names of dimensions."""
    if value.shape is None:
        return None
    return tuple(size if isinstance(size, int) else size.value or (value.name, i) for i, size in enumerate(value.shape))


def _inferred_numbers(value: ir.Value) -> list[int | None] | None:
    """Returns the shape that ONNX has inferred, with None for sizes that are not numbers."""
    return None if value.shape is None else [size if isinstance(size, int) else None for size in value.shape]


def _size(size: Size | None, inferred: Size | None, place: Size) -> Size:
    """Returns the best known form of a size: a number, if one is known, preferably ours.

    onnx 1.23 infers a size of 0 for some sizes of an Attention.
    """
    numbers = [each for each in (size, inferred) if isinstance(each, int)]
    return numbers[0] if numbers else place if size is None else size


def _integers(sizes: Sequence[Size]) -> list[int]:
    """Returns sizes that must be numbers, such as axes."""
    return [size if isinstance(size, int) else _unknown() for size in sizes]


def _vector(node: Node, shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> Sizes | None:
    """Returns the vector that a node computes from vectors of sizes; None for other nodes."""
    kind = node.op_type
    if kind == "Shape":
        shape: Sizes = shapes[0]
        return shape[slice(attributes.get("start"), attributes.get("end"))]
    if not vectors:
        return None
    first, *others = vectors
    if kind == "Cast":
        is_kept = attributes["to"] in _COUNTING and (attributes["to"] != _BOOL or set(first) <= {0, 1})
        return first if is_kept else None
    if kind in ("Identity", "Squeeze", "Unsqueeze"):
        return first
    if kind == "Concat":
        return tuple(entry for vector in vectors for entry in vector)
    if kind == "Gather":
        indices = _integers(others[0])
        return tuple(first[i] if -len(first) <= i < len(first) else _unknown() for i in indices)
    if kind == "Slice":
        return first[slice(*_integers([each for bound in (*others[:2], *others[3:]) for each in bound]))]
    if kind in _ARITHMETIC:
        return _elementwise(_ARITHMETIC[kind], first, others[0])
    return None


def _elementwise(operation: Callable[[Size, Size], Size | None], left: Sizes, right: Sizes) -> Sizes | None:
    length = max(len(left), len(right))
    if not left or not right:
        return None
    pairs = zip(left * (length // len(left)), right * (length // len(right)), strict=True)
    results = [operation(*pair) for pair in pairs]
    return None if None in results else tuple(each for each in results if each is not None)


def _sum(left: Size, right: Size) -> Size | None:
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return right if left == 0 else left if right == 0 else None


def _product(left: Size, right: Size) -> Size | None:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return 0 if 0 in (left, right) else right if left == 1 else left if right == 1 else None


def _equality(left: Size, right: Size) -> Size | None:
    if isinstance(left, int) and isinstance(right, int):
        return int(left == right)
    numbers = [each for each in (left, right) if isinstance(each, int)]
    return 0 if numbers and numbers[0] < 0 else None  # no size is negative


_ARITHMETIC = {"Add": _sum, "Mul": _product, "Equal": _equality}


def _broadcast(shapes: Iterable[Sizes]) -> list[Size | None]:
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return [_common(set(column) - {1}) for column in columns][::-1]


def _common(sizes: set[Size]) -> Size | None:
    """Returns the broadcast size of sizes other than 1; None if it is unknown."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if numbers or not sizes:
        return max(numbers, default=1)
    # min(s, n) broadcasts with s only if s <= n or one of them is 1.
    wider = sizes - {("least", size, number) for size in sizes for number in _numbers(sizes)}
    return next(iter(wider)) if len(wider) == 1 else None


def _numbers(sizes: set[Size]) -> list[int]:
    return [size[2] for size in sizes if isinstance(size, tuple) and size[0] == "least"]


def _matmul(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    left, right = shapes
    if len(left) < 2 or len(right) < 2:
        return _unknown()
    return [*_broadcast([left[:-2], right[:-2]]), left[-2], right[-1]]


def _attention(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    if len(shapes[0]) != 3:  # the heads are an axis
        return [*shapes[0][:3], shapes[2][3]]
    [width] = _integers(shapes[2][2:])
    return [*shapes[0][:2], attributes["q_num_heads"] * (width // attributes["kv_num_heads"])]


def _reshape(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    if attributes.get("allowzero") and 0 in vectors[1]:
        return _unknown()
    wanted = [shapes[0][axis] if size == 0 else size for axis, size in enumerate(vectors[1])]
    if -1 not in wanted:
        return wanted
    if not shapes.has(0):
        return [None if size == -1 else size for size in wanted]
    given, rest = Counter(shapes[0]), Counter(size for size in wanted if size != -1)
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


def _pad(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    rank = len(shapes[0])
    if len(vectors) > 3:  # the Pad names its axes
        return _unknown()
    pads = [vectors[1][axis::rank] for axis in range(rank)]
    return [size if pair == (0, 0) else None for size, pair in zip(shapes[0], pads, strict=True)]


def _slice(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    result: list[Size | None] = list(shapes[0])
    starts, ends = vectors[1], vectors[2]
    axes = _integers(vectors[3]) if len(vectors) > 3 else range(len(starts))
    steps = vectors[4] if len(vectors) > 4 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        result[axis] = _cut(start, end, shapes[0][axis]) if step == 1 else None
    return result


def _cut(start: Size, end: Size, size: Size) -> Size | None:
    if isinstance(start, int) and isinstance(end, int) and isinstance(size, int):
        return len(range(size)[start:end])
    if start != 0:
        return None
    if end == size or (isinstance(end, int) and end >= _END):
        return size
    return ("least", end, size) if isinstance(size, int) and not isinstance(end, int) else None


def _tile(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    return [_product(size, times) for size, times in zip(shapes[0], vectors[1], strict=True)]


def _axes(vectors: _Known, attributes: dict[str, Any]) -> list[int]:
    """Returns the axes in the attribute or in the second input of a node."""
    return attributes.get("axes") or (len(vectors) > 1 and _integers(vectors[1])) or _unknown()


def _unsqueeze(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    axes = _axes(vectors, attributes)
    rank = len(shapes[0]) + len(axes)
    added, rest = {axis % rank for axis in axes}, iter(shapes[0])
    return [1 if axis in added else next(rest) for axis in range(rank)]


def _squeeze(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    dropped = {axis % len(shapes[0]) for axis in _axes(vectors, attributes)}
    return [size for axis, size in enumerate(shapes[0]) if axis not in dropped]


def _reduction(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> list[Size]:
    axes = {axis % len(shapes[0]) for axis in _axes(vectors, attributes)}
    keeps = attributes.get("keepdims", 1)
    return [1 if axis in axes else size for axis, size in enumerate(shapes[0]) if keeps or axis not in axes]


def _transpose(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    order = attributes.get("perm") or reversed(range(len(shapes[0])))
    return [shapes[0][axis] for axis in order]


def _gather(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    axis = attributes.get("axis", 0)
    return [*shapes[0][:axis], *shapes[1], *shapes[0][axis:][1:]]


def _concat(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    result, axis = _broadcast(shapes), attributes["axis"]
    sizes = [shape[axis] for shape in shapes]
    result[axis] = sum(sizes) if all(isinstance(size, int) for size in sizes) else None
    return result


def _split(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    axis = attributes.get("axis", 0) % len(shapes[0])
    return [None if place == axis else size for place, size in enumerate(shapes[0])]


def _einsum(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    operands, _, result = attributes["equation"].replace(" ", "").partition("->")
    if "." in result:
        return _unknown()
    terms = zip(operands.split(","), shapes, strict=True)
    sizes = {label: size for term, shape in terms for label, size in zip(term, shape, strict=True)}
    return [sizes[label] for label in result]


def _transposed_convolution(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    channels = _product(shapes[1][1], attributes.get("group", 1))
    return [shapes[0][0], channels, *[None] * (len(shapes[0]) - 2)]


def _range(shapes: _Known, vectors: _Known, attributes: dict[str, Any]) -> _Found:
    return list(vectors[1]) if (vectors[0], vectors[2]) == ((0,), (1,)) else _unknown()


_RULES: dict[str, Callable[[_Known, _Known, dict[str, Any]], _Found]] = {
    "Attention": _attention,
    **dict.fromkeys((*ELEMENTWISE, *_ALONG_AXES), lambda shapes, vectors, attributes: shapes[0]),
    **dict.fromkeys(BROADCASTING, lambda shapes, vectors, attributes: _broadcast(shapes)),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(_BY_CHANNEL, lambda shapes, vectors, attributes: [*shapes[0][:2], *[None] * (len(shapes[0]) - 2)]),
    "Concat": _concat,
    "Conv": lambda shapes, vectors, attributes: [shapes[0][0], shapes[1][0], *[None] * (len(shapes[0]) - 2)],
    "ConvTranspose": _transposed_convolution,
    "ConstantOfShape": lambda shapes, vectors, attributes: vectors[0],
    "Einsum": _einsum,
    "Expand": lambda shapes, vectors, attributes: _broadcast([shapes[0], vectors[1]]),
    "Gather": _gather,
    "MatMul": _matmul,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
