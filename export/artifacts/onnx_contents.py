"""Contents of an ONNX file by layer, and its number of multiplications.

Exporters call a node `path/of/its/layer/Operator`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes, bodies, layer_of, read_without_weights
from keras_pe.export.artifacts.rewrite import read_unfused

Term = tuple[int, tuple[str, ...]]
"""A product: its factor, and its dynamic dimensions, with repetitions."""


@dataclass(frozen=True)
class LayerContents:
    """Contents of one layer of a file, without the layers inside it.

    Attributes:
        layer: The names that lead to the layer, joined by "/"; empty for what stands between layers.
        operators: How often each operator stands there, those in branches and loops once.
        parameters: The numbers stored for it: weights, tables and other constants. A constant with several readers
            counts for the first. Integers of 32 and 64 bits, which hold shapes and places, do not count.
        nbytes: Bytes of all that is stored for it, these integers included.
        multiplications: Multiplications of its matrix products, convolutions and recurrences, as a sum:
            `((32, ("batch",)),)` is 32 for each row of a batch. Elementwise ones are left out. None where their number
            does not follow from the sizes of the inputs, as in a loop.
        unfused: Reasons, by the name of the operator, if several operators stand for one that ONNX has.
    """

    layer: str
    operators: Mapping[str, int]
    parameters: int
    nbytes: int
    multiplications: tuple[Term, ...] | None
    unfused: Mapping[str, str]


@dataclass
class _Found:
    """Partial result for one layer."""

    operators: Counter[str] = field(default_factory=Counter)
    terms: list[Term | None] = field(default_factory=list)
    parameters: int = 0
    nbytes: int = 0


def read_contents(path: Path) -> tuple[LayerContents, ...]:
    """Returns what a file holds of each layer, in the order in which they are computed.

    Raises:
        ValueError: With the end of a sentence about the file, if it cannot be read.
    """
    model = read_without_weights(path)
    try:
        return _contents(model)
    except Exception as error:  # whatever a damaged name or entry makes of its reader
        raise ValueError(f"has contents that cannot be read ({type(error).__name__}: {error}).") from error


def _contents(model: Any) -> tuple[LayerContents, ...]:
    counts = count_multiplications(model)
    stored = {tensor.name: tensor for graph in all_graphs(model.graph) for tensor in graph.initializer}
    found: dict[str, _Found] = {}
    for node in all_nodes(model.graph):
        layer = found.setdefault(layer_of(node.name), _Found())
        layer.operators[node.op_type] += 1
        layer.terms += [counts[name] for name in node.output[:1] if name in counts]
        for tensor in [stored.pop(name) for name in dict.fromkeys(node.input) if name in stored]:
            _add(layer, tensor)
    texts = {each.key: each.value for each in model.metadata_props}
    unfused = read_unfused(texts)
    return tuple(
        LayerContents(
            path, dict(layer.operators), layer.parameters, layer.nbytes, add_terms(layer.terms), unfused.get(path, {})
        )
        for path, layer in found.items()
    )


def _add(layer: _Found, tensor: Any) -> None:
    from onnx import TensorProto, helper

    count = math.prod(tensor.dims)
    if tensor.data_type not in (TensorProto.INT32, TensorProto.INT64):
        layer.parameters += count
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    layer.nbytes += count * dtype.itemsize if dtype.kind != "O" else sum(map(len, tensor.string_data))


_SIZE = 960  # a size for each dynamic dimension: even after the strides, patches and heads that models have

Shapes = Mapping[str, Sequence[int | None]]


def count_multiplications(model: Any) -> dict[str, Term | None]:
    """Returns those of each product, convolution and recurrence, by its first output; one in a body counts for that.

    Shapes are inferred twice: with a size for each dynamic dimension, and with that size doubled. A number that then
    doubles, or doubles twice, has the dimension once or twice as a factor.

    Args:
        model: An `onnx.ModelProto`; its large weights need not be there.

    Returns:
        A term for each; None if the number is not a term, as in a loop, or if sizes are unknown.
    """
    dims = dict.fromkeys(
        dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim if dim.dim_param
    )
    plain = dict.fromkeys(dims, _SIZE)
    counts = _counts(model, plain)
    doubled = {name: _counts(model, plain | {name: 2 * _SIZE}) for name in dims}
    return {result: _term(count, {name: doubled[name][result] for name in dims}) for result, count in counts.items()}


def _term(count: int | None, doubled: Mapping[str, int | None]) -> Term | None:
    if not count:
        return None if count is None else (0, ())
    names: list[str] = []
    for name, other in doubled.items():
        power = (other or 0) // count
        if other != power * count or power not in (1, 2, 4):
            return None
        names += [name] * (power.bit_length() - 1)
    factor, rest = divmod(count, _SIZE ** len(names))
    return None if rest else (factor, tuple(sorted(names)))


def _counts(model: Any, sizes: Mapping[str, int]) -> dict[str, int | None]:
    shapes = _shapes(model, sizes)
    return {node.output[0]: _count(node, shapes) for node in model.graph.node if _multiplies(node)}


def _multiplies(node: Any) -> bool:
    inner = any(_multiplies(each) for body in bodies(node) for each in body.node)
    return inner or node.op_type in _FACTORS or node.op_type in _UNCOUNTED


def _shapes(model: Any, sizes: Mapping[str, int]) -> Shapes:
    from onnx import shape_inference

    sized = type(model)()
    sized.CopyFrom(model)
    del sized.graph.value_info[:]
    for value in (*sized.graph.input, *sized.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    graph = shape_inference.infer_shapes(sized, data_prop=True).graph
    known = {
        value.name: [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return {**known, **{tensor.name: list(tensor.dims) for tensor in graph.initializer}}


def _count(node: Any, shapes: Shapes) -> int | None:
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    try:
        sizes = _FACTORS[node.op_type](
            [shapes.get(name, ()) for name in node.input], shapes[node.output[0]], attributes
        )
    except (IndexError, KeyError, TypeError, ValueError):  # the shape is unknown
        return None
    return None if None in sizes else math.prod(sizes)


def _matrix_product(operands: Any, result: Any, attributes: Mapping[str, int]) -> Any:
    return *result, operands[0][-1]


def _general_product(operands: Any, result: Any, attributes: Mapping[str, int]) -> Any:
    return *result, operands[0][0 if attributes.get("transA") else 1]


def _convolution(operands: Any, result: Any, attributes: Mapping[str, int]) -> Any:
    return *result, *operands[1][1:]


def _transposed_convolution(operands: Any, result: Any, attributes: Mapping[str, int]) -> Any:
    return *operands[0], *operands[1][1:]


def _recurrence(operands: Any, result: Any, attributes: Mapping[str, int]) -> Any:
    """The kernels `(directions, units, channels)` and `(directions, units, state)` at each step of each row."""
    (*units, channels), (*_, state) = operands[1], operands[2]
    return *operands[0][:2], *units, channels + state


_FACTORS: Mapping[str, Callable[[Any, Any, Mapping[str, int]], Any]] = {
    "Conv": _convolution,
    "ConvInteger": _convolution,
    "ConvTranspose": _transposed_convolution,
    "GRU": _recurrence,
    "Gemm": _general_product,
    "LSTM": _recurrence,
    "MatMul": _matrix_product,
    "MatMulInteger": _matrix_product,
    "RNN": _recurrence,
}
# Matrix operators whose multiplications do not follow from their sizes alone.
_UNCOUNTED = frozenset({"Attention", "DeformConv", "Einsum", "QLinearConv", "QLinearMatMul"})


def add_terms(terms: Iterable[Term | None]) -> tuple[Term, ...] | None:
    """Returns the sum, its largest power first; None if one of the terms is unknown."""
    total: Counter[tuple[str, ...]] = Counter()
    for term in terms:
        if term is None:
            return None
        total[term[1]] += term[0]
    return tuple((total[names], names) for names in sorted(total, key=lambda each: (-len(each), each)) if total[names])
