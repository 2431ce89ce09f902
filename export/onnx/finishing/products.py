"""Products of two tensors, `Einsum` and `MatMul` in one form, and the constant that scales a tensor."""

import math
from dataclasses import dataclass, replace

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import array, attribute, order_of, producer
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_MOST_STEPS = 6  # operators that compute a number from constants or sizes, such as 1 / sqrt(size)


@dataclass(frozen=True)
class Product:
    """A contraction of two tensors: the labels of the axes of each, and those of the result."""

    left: tuple[str, ir.Value]
    right: tuple[str, ir.Value]
    output: str

    @classmethod
    def of(cls, value: ir.Value, sizes: KnownSizes) -> "Product | None":
        """Returns the product that computes a value, with its transpositions; None for other values.

        Returns None, too, if the two tensors have different numbers of matrices.
        """
        node = producer(value, "Einsum", "MatMul", "Transpose")
        if node is not None and node.op_type == "Transpose":
            product = cls.of(node.inputs[0], sizes)
            if product is None:
                return None
            return replace(product, output="".join(product.output[i] for i in order_of(node)))
        if node is None or len(node.inputs) != 2:
            return None
        first, second = node.inputs
        if node.op_type == "Einsum":
            sides, _, output = attribute(node, "equation").replace(" ", "").partition("->")
            terms = (*sides.split(","), output)
            is_plain = not any("." in term or len(set(term)) < len(term) for term in terms)
            return cls((terms[0], first), (terms[1], second), output) if is_plain else None
        shape, other = (sizes.shape(each) or () for each in (first, second))
        if min(len(shape), len(other)) < 2 or shape[:-2] != other[:-2]:
            return None
        batch = "abcdefghijklmnopqrstuvw"[: len(shape) - 2]
        return cls((f"{batch}xy", first), (f"{batch}yz", second), f"{batch}xz")


def number_of(value: ir.Value | None, sizes: KnownSizes, steps: int = _MOST_STEPS) -> float | None:
    """Returns the value of a scalar that at most this many operators compute from constants; None for other tensors."""
    numbers, vector = array(value), sizes.vector(value)
    if numbers is not None:
        return None if numbers.size != 1 or numbers.dtype.kind not in "fiu" else float(numbers.item())
    if vector is not None:
        return float(vector[0]) if len(vector) == 1 and isinstance(vector[0], int) else None
    node = producer(value, "Cast", "Div", "Mul", "Reciprocal", "Sqrt") if steps else None
    given = [] if node is None else [number_of(each, sizes, steps - 1) for each in node.inputs]
    first, last = (given[0], given[-1]) if given else (None, None)
    if node is None or first is None or last is None:
        return None
    if node.op_type == "Cast":
        return first if node.outputs[0].dtype == ir.DataType.FLOAT else None
    if node.op_type == "Sqrt":
        return math.sqrt(first) if first > 0 else None
    if node.op_type == "Reciprocal":
        return 1 / first if first else None
    return first * last if node.op_type == "Mul" else first / last if last else None


def split_scale(value: ir.Value, sizes: KnownSizes) -> tuple[ir.Value, float]:
    """Returns the tensor that a value is a multiple of, and the factor."""
    factor = 1.0
    while (node := producer(value, "Mul", "Div")) is not None:
        pairs = [*node.inputs], [*node.inputs][:: -1 if node.op_type == "Mul" else 1]
        found = next(((each, n) for each, other in pairs if (n := number_of(other, sizes)) is not None), None)
        if found is None or (node.op_type == "Div" and not found[1]):
            break
        value = found[0]
        factor = factor * found[1] if node.op_type == "Mul" else factor / found[1]
    return value, factor
