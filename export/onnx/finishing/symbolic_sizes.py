"""Which sizes in a graph are the same, told without running it: numbers, dimensions of the inputs, and what follows.

ONNX's own inference knows names of dimensions too, and loses them where a table is cut to the length of an input.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.onnx.finishing.graph_edits import attributes_of

Size = int | str | tuple[Any, ...]
"""A number, the name of a dimension, `("least", size, number)`, `("product", *sizes)`, or the tensor and axis that have
it first."""
Sizes = tuple[Size, ...]

REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")

_MOST = 16  # entries of a vector that may say the sizes of a tensor
_BOOL = 9
# ONNX's int32, int64, bool, and float32, which Keras counts in: it has each size of a mask that any memory holds.
_COUNTING = (6, 7, _BOOL, 1)
_END = 10**9  # what a Slice up to the end is given by tf2onnx, or more
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


class KnownSizes:
    """The shapes of the tensors in the outermost graph of a model, and the vectors that say sizes."""

    def __init__(self, model: Any, arguments: Mapping[str, Sequence[int | str]]) -> None:
        """Follows the graph from its inputs on.

        Args:
            model: An `onnx.ModelProto` whose nodes stand in the order in which they are computed.
            arguments: The shape of each input and weight.
        """
        from onnx import numpy_helper, shape_inference

        self._shapes: dict[str, Sizes] = {}
        self._vectors: dict[str, Sizes] = {}
        inferred = shape_inference.infer_shapes(model).graph  # the weights are inputs: it costs little
        self._inferred = {
            value.name: [
                dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim
            ]
            for value in (*inferred.value_info, *inferred.output)
            if value.type.tensor_type.HasField("shape")
        }
        self._kinds = {
            value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.input)
        }
        for tensor in model.graph.initializer:
            self._shapes[tensor.name] = tuple(tensor.dims)
            if tensor.data_type in _COUNTING and len(tensor.dims) < 2 and math.prod(tensor.dims) <= _MOST:
                values = numpy_helper.to_array(tensor).reshape(-1)
                if values.dtype.kind != "f" or (
                    (np.abs(values) < 2.0**63).all() and (values == np.floor(values)).all()
                ):
                    self._vectors[tensor.name] = tuple(map(int, values.tolist()))
        self._shapes |= {name: tuple(shape) for name, shape in arguments.items()}
        for node in model.graph.node:
            self._follow(node)

    def shape(self, tensor: str) -> Sizes | None:
        """Returns the sizes of a tensor; None where not even their number is known."""
        return self._shapes.get(tensor)

    def kind(self, tensor: str) -> int | None:
        """Returns ONNX's number of the type that a tensor's elements have; None where it is not known."""
        return self._kinds.get(tensor)

    def vector(self, tensor: str) -> Sizes | None:
        """Returns the entries of a vector, or of a scalar, of integers; None where they cannot be told."""
        return self._vectors.get(tensor)

    def array(self, tensor: str) -> Any | None:
        """Returns the entries of a vector or of a scalar as they stand in a file, if all of them are numbers."""
        from onnx import helper

        vector, kind = self.vector(tensor), self.kind(tensor)
        if vector is None or not kind or not all(isinstance(entry, int) for entry in vector):
            return None
        return np.array(vector, helper.tensor_dtype_to_np_dtype(kind)).reshape(
            [len(vector)] * len(self._shapes[tensor])
        )

    def tell(self, tensor: str, shape: Sequence[Size]) -> None:
        """Says the sizes of a tensor that is new, or another now."""
        self._shapes[tensor] = tuple(shape)

    def with_axes_kept(self, reduction: Any) -> Sizes | None:
        """Returns the sizes of what a reduction returns if it keeps its axes; None where they cannot be told."""
        attributes = {**attributes_of(reduction), "keepdims": 1}
        with contextlib.suppress(IndexError, KeyError, TypeError):
            return tuple(_reduction([self.shape(reduction.input[0])], [*map(self.vector, reduction.input)], attributes))
        return None

    def _follow(self, node: Any) -> None:
        shapes, vectors = [[known.get(name) for name in node.input] for known in (self._shapes, self._vectors)]
        attributes = attributes_of(node)
        shape, vector = None, None
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError):  # of a size that is not known
            shape = _RULES[node.op_type](shapes, vectors, attributes)
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError):
            vector = _vector(node, shapes, vectors, attributes)
        for index, name in enumerate(node.output):
            numbers = self._inferred.get(name)
            found = shape if shape is not None and (index == 0 or node.op_type == "Split") else numbers
            if name and found is not None:
                both = zip(numbers if numbers and len(numbers) == len(found) else found, found, strict=True)
                self._shapes[name] = tuple(
                    _told(size, number, (name, axis)) for axis, (number, size) in enumerate(both)
                )
        told = self._shapes.get(node.output[0])
        if vector is not None and len(vector) <= _MOST and told is not None and len(told) < 2:
            self._vectors[node.output[0]] = vector


def _told(size: Size | None, inferred: Size | None, place: Size) -> Size:
    """Returns a size: as a number if it is one, and of an Attention not as onnx 1.23 infers it, which is 0."""
    numbers = [each for each in (size, inferred) if isinstance(each, int)]
    return numbers[0] if numbers else place if size is None else size


def _vector(node: Any, shapes: Any, vectors: Any, attributes: Any) -> Sizes | None:
    """Returns what a node makes of vectors of sizes."""
    kind = node.op_type
    if kind == "Shape":
        shape: Sizes = shapes[0]
        return shape[slice(attributes.get("start"), attributes.get("end"))]
    if any(vector is None for vector in vectors) or not vectors:
        return None
    first: Sizes = vectors[0]
    if kind == "Cast":
        is_kept = attributes["to"] in _COUNTING and (attributes["to"] != _BOOL or set(first) <= {0, 1})
        return first if is_kept else None
    if kind in ("Identity", "Squeeze", "Unsqueeze"):
        return first
    if kind == "Concat":
        return tuple(entry for vector in vectors for entry in vector)
    if kind == "Gather":
        return tuple(first[index] for index in vectors[1]) if all(isinstance(i, int) for i in vectors[1]) else None
    if kind == "Slice":
        bounds = [vector[0] for vector in (*vectors[1:3], *vectors[4:])]
        return first[slice(*bounds)] if all(isinstance(each, int) for each in bounds) else None
    if kind in _ARITHMETIC and len(vectors) == 2:
        return _elementwise(_ARITHMETIC[kind], *vectors)
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


def _broadcast(shapes: Sequence[Sizes]) -> list[Size | None]:
    rank = max(map(len, shapes), default=0)
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return [_common(set(column) - {1}) for column in columns]


def _common(sizes: set[Size]) -> Size | None:
    """Returns the one size that sizes other than 1 must have where an operator takes them together."""
    numbers = [size for size in sizes if isinstance(size, int)]
    if numbers or not sizes:
        return max(numbers, default=1)
    # The least of a size and a number goes with that size only where it is no less, or where either is 1.
    wider = sizes - {("least", size, number) for size in sizes for number in _numbers(sizes)}
    return next(iter(wider)) if len(wider) == 1 else None


def _numbers(sizes: set[Size]) -> list[int]:
    return [size[2] for size in sizes if isinstance(size, tuple) and size[0] == "least"]


def _matmul(shapes: Any, vectors: Any, attributes: Any) -> Any:
    left, right = shapes
    if len(left) < 2 or len(right) < 2:
        return None
    return [*_broadcast([left[:-2], right[:-2]]), left[-2], right[-1]]


def _attention(shapes: Any, vectors: Any, attributes: Any) -> Any:
    if len(shapes[0]) != 3:  # the heads have an axis of their own
        return [*shapes[0][:3], shapes[2][3]]
    return [*shapes[0][:2], attributes["q_num_heads"] * (shapes[2][2] // attributes["kv_num_heads"])]


def _reshape(shapes: Any, vectors: Any, attributes: Any) -> Any:
    wanted = [shapes[0][axis] if size == 0 else size for axis, size in enumerate(vectors[1])]
    if "allowzero" in attributes and 0 in vectors[1]:
        return None
    if -1 not in wanted:
        return wanted
    if shapes[0] is None:
        return [None if size == -1 else size for size in wanted]
    given, rest = Counter(shapes[0]), Counter(size for size in wanted if size != -1)
    left, over = given - rest, rest - given
    symbols = [size for size in left.elements() if not isinstance(size, int)]
    above, below = (math.prod(size for size in each.elements() if isinstance(size, int)) for each in (left, over))
    is_told = all(isinstance(size, int) for size in over) and below > 0
    missing: Size | None = None
    if is_told and not symbols and above % below == 0:
        missing = above // below
    elif is_told and symbols and above == below:
        missing = symbols[0] if len(symbols) == 1 else ("product", *sorted(symbols, key=repr))
    return [missing if size == -1 else size for size in wanted]


def _pad(shapes: Any, vectors: Any, attributes: Any) -> Any:
    rank = len(shapes[0])
    if len(vectors) > 3:  # axes are named
        return None
    pads = [vectors[1][axis::rank] for axis in range(rank)]
    return [size if pair == (0, 0) else None for size, pair in zip(shapes[0], pads, strict=True)]


def _slice(shapes: Any, vectors: Any, attributes: Any) -> Any:
    result: list[Size | None] = list(shapes[0])
    starts, ends = vectors[1:3]
    axes = vectors[3] if len(vectors) > 3 else range(len(starts))
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


def _tile(shapes: Any, vectors: Any, attributes: Any) -> Any:
    return [_product(size, times) for size, times in zip(shapes[0], vectors[1], strict=True)]


def _unsqueeze(shapes: Any, vectors: Any, attributes: Any) -> Any:
    axes = attributes.get("axes") or vectors[1]
    rank = len(shapes[0]) + len(axes)
    added, rest = {axis % rank for axis in axes}, iter(shapes[0])
    return [1 if axis in added else next(rest) for axis in range(rank)]


def _squeeze(shapes: Any, vectors: Any, attributes: Any) -> Any:
    dropped = {axis % len(shapes[0]) for axis in attributes.get("axes") or vectors[1]}
    return [size for axis, size in enumerate(shapes[0]) if axis not in dropped]


def _reduction(shapes: Any, vectors: Any, attributes: Any) -> Any:
    axes = {axis % len(shapes[0]) for axis in attributes.get("axes") or vectors[1]}
    keeps = attributes.get("keepdims", 1)
    return [1 if axis in axes else size for axis, size in enumerate(shapes[0]) if keeps or axis not in axes]


def _gather(shapes: Any, vectors: Any, attributes: Any) -> Any:
    axis = attributes.get("axis", 0)
    return [*shapes[0][:axis], *shapes[1], *shapes[0][axis:][1:]]


def _concat(shapes: Any, vectors: Any, attributes: Any) -> Any:
    result, axis = _broadcast(shapes), attributes["axis"]
    sizes = [shape[axis] for shape in shapes]
    result[axis] = sum(sizes) if all(isinstance(size, int) for size in sizes) else None
    return result


def _split(shapes: Any, vectors: Any, attributes: Any) -> Any:
    axis = attributes.get("axis", 0) % len(shapes[0])
    return [None if place == axis else size for place, size in enumerate(shapes[0])]


def _einsum(shapes: Any, vectors: Any, attributes: Any) -> Any:
    operands, _, result = attributes["equation"].decode().replace(" ", "").partition("->")
    terms = zip(operands.split(","), shapes, strict=True)
    sizes = {label: size for term, shape in terms for label, size in zip(term, shape, strict=True)}
    return [sizes[label] for label in result]


def _range(shapes: Any, vectors: Any, attributes: Any) -> Any:
    return [vectors[1][0]] if (vectors[0], vectors[2]) == ((0,), (1,)) else None


_RULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Attention": _attention,
    **dict.fromkeys((*ELEMENTWISE, *_ALONG_AXES), lambda shapes, vectors, attributes: shapes[0]),
    **dict.fromkeys(BROADCASTING, lambda shapes, vectors, attributes: _broadcast(shapes)),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(_BY_CHANNEL, lambda shapes, vectors, attributes: [*shapes[0][:2], *[None] * (len(shapes[0]) - 2)]),
    "Concat": _concat,
    "Conv": lambda shapes, vectors, attributes: [shapes[0][0], shapes[1][0], *[None] * (len(shapes[0]) - 2)],
    "ConvTranspose": lambda shapes, vectors, attributes: [shapes[0][0], shapes[1][1], *[None] * (len(shapes[0]) - 2)],
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
    "Transpose": lambda shapes, vectors, attributes: [shapes[0][axis] for axis in attributes["perm"]],
    "Unsqueeze": _unsqueeze,
}
