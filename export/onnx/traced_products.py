"""Products of two tensors of a graph that is traced, and what their factors were made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Product:
    """A contraction of two tensors, each with a label for each of its axes, and the labels of the result."""

    left: tuple[str, Any]
    right: tuple[str, Any]
    output: str


def contraction(subscripts: str, operands: Sequence[Any]) -> Product | None:
    """Returns a contraction of two tensors of the graph that is traced; None of any other."""
    sides, _, output = subscripts.replace(" ", "").partition("->")
    terms = sides.split(",")
    if len(operands) != 2 or len(terms) != 2 or not output or "." in subscripts:
        return None
    if not _are_traced(*operands) or any(
        each.shape.rank != len(term) for each, term in zip(operands, terms, strict=True)
    ):
        return None
    return Product((terms[0], operands[0]), (terms[1], operands[1]), output)


def product_of_matrices(x: Any, y: Any, adj_x: bool, adj_y: bool) -> Product | None:
    """Returns a product of matrices in a batch as a contraction; None where one has fewer matrices."""
    if not _are_traced(x, y) or None in (x.shape.rank, y.shape.rank) or [*x.shape[:-2]] != [*y.shape[:-2]]:
        return None
    batch = "abcdefghijklmnopqrstuvw"[: x.shape.rank - 2]
    return Product((batch + ("yx" if adj_x else "xy"), x), (batch + ("zy" if adj_y else "yz"), y), f"{batch}xz")


def _are_traced(*tensors: Any) -> bool:
    import tensorflow as tf

    return all(tf.is_tensor(each) and tf.is_symbolic_tensor(each) and each.dtype == "float32" for each in tensors)


def without_shuffle(product: Product) -> Product:
    """Leaves out a shuffle that both factors have of the channels over which they are summed."""
    (left, first), (right, second) = product.left, product.right
    if left[-1] != right[-1] or left[-1] in product.output:
        return product
    before, other = _before_shuffle(first), _before_shuffle(second)
    if before is None or other is None or before[1] != other[1]:
        return product
    return Product((left, before[0]), (right, other[0]), product.output)


def _before_shuffle(tensor: Any) -> tuple[Any, int] | None:
    """Returns a tensor without the last shuffle of its channels, which laid so many parts of them side by side."""
    import tensorflow as tf

    for first, second in permutations(operands_of(tensor, "Mul"), 2):
        found = _before_shuffle(first) if number_of(second) is not None else None
        if found is not None:
            return found[0] * second, found[1]
    if tensor.op.type == "Reshape":
        source, shape = tensor.op.inputs
        found = _before_stack(source) if source.op.type == "Pack" else _before_shuffle(source)
        if found is not None and found[0].shape[-1] == tensor.shape[-1]:
            return tf.reshape(found[0], shape), found[1]
    return None


def _before_stack(stacked: Any) -> tuple[Any, int] | None:
    """Returns the tensor whose channels were split into parts that lie side by side now, and how many these are."""
    parts = list(stacked.op.inputs)
    split, last = parts[0].op, len(stacked.shape) - 1
    if split.type != "Split" or [part.name for part in parts] != [output.name for output in split.outputs]:
        return None
    axis, whole = split.inputs
    lies_so = stacked.op.get_attr("axis") in (-1, last) and number_of(axis) in (-1, last - 1)
    return (whole, len(parts)) if lies_so else None


def turned(tensor: Any, labels: Sequence[str], wanted: Sequence[str]) -> tuple[Any, float]:
    """Returns a tensor with its axes in another order, before it was turned and multiplied by a number; and the number.

    Args:
        tensor: Any.
        labels: Of its axes.
        wanted: The labels in the order of the result.
    """
    import tensorflow as tf

    labels, factor = [*labels], 1.0
    while True:
        tensor, number = scaled(tensor)
        factor *= number
        order = tf.get_static_value(tensor.op.inputs[1]) if tensor.op.type == "Transpose" else None
        if order is None:
            break
        tensor, labels = tensor.op.inputs[0], [labels[[*order].index(axis)] for axis in range(len(labels))]
    places = [labels.index(label) for label in wanted]
    return tensor if places == sorted(places) else tf.transpose(tensor, places), factor


def scaled(tensor: Any) -> tuple[Any, float]:
    """Returns what a tensor is a multiple of, and the number."""
    for first, second in permutations(operands_of(tensor, "Mul"), 2):
        if (factor := number_of(second)) is not None:
            source, scale = scaled(first)
            return source, scale * factor
    for first, second in [operands_of(tensor, "RealDiv")] if tensor.op.type == "RealDiv" else []:
        if divisor := number_of(second):
            source, scale = scaled(first)
            return source, scale / divisor
    return tensor, 1.0


def operands_of(tensor: Any, operator: str) -> list[Any]:
    """Returns what the operator took that returned a tensor of the traced graph; nothing where it was another."""
    return list(tensor.op.inputs) if tensor.op.type == operator else []


def number_of(tensor: Any) -> float | None:
    """Returns the number that a tensor is; None where it is none, or not known while the graph is traced."""
    import tensorflow as tf

    if isinstance(tensor, float):
        return tensor
    value = tf.get_static_value(tensor)
    if value is not None:
        return None if np.ndim(value) else value.item()
    operator, inputs = tensor.op.type, tensor.op.inputs
    if operator == "StridedSlice" and inputs[0].op.type == "Shape" and len(tensor.shape) == 0:
        place = tf.get_static_value(inputs[1])
        return None if place is None else inputs[0].op.inputs[0].shape[place.item()]
    number = number_of(inputs[0]) if operator in ("Cast", "Sqrt", "Rsqrt") else None
    if number is None or operator == "Cast":
        return number
    return None if number <= 0 else math.sqrt(number) if operator == "Sqrt" else 1 / math.sqrt(number)


def key_of(tensor: Any) -> Any:
    """Returns what no other tensor has in common with this one."""
    return tensor.graph, tensor.name
