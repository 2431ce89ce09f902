"""Constants that an ONNX graph stores as integers, as the numbers that the graph computes with."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_PASSING = ("Gather", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze", "Cast")
"""Operators after which a constant with one scale may still be integers."""

_PLACES = {
    "DynamicQuantizeMatMul": ((1, 2, 3, -1),),
    "MatMulIntegerToFloat": ((1, 3, 5, -1),),
    "QAttention": ((1, 4, 7, -1),),
    "QGemm": ((3, 4, 5, -1),),
    "QLinearAdd": ((0, 1, 2, -1), (3, 4, 5, -1)),
    "QLinearConv": ((3, 4, 5, 0),),
    "QLinearMatMul": ((3, 4, 5, -1),),
    "QLinearMul": ((0, 1, 2, -1), (3, 4, 5, -1)),
}
"""The indices of an operator's inputs with integers, their scale and their zero point, and the axis of the scales."""

_BIASES = {"QGemm": (6, 1, 4), "QLinearConv": (8, 1, 4)}
"""The indices of an operator's inputs with an integer bias, and of the two factors of its scale."""


@dataclass(frozen=True)
class Quantized:
    """A constant of integers, and the names of the constants that give it its numbers.

    Attributes:
        name: Its name.
        scales: The constants whose product is the scale.
        zero_point: The constant that stands for 0; empty where 0 does.
        axis: The axis that several scales follow.
        block: How many values along the axis have one scale; 0 where each index has its own.
        packed: The shape `(rows, columns)` of a matrix that `MatMulNBits` holds packed, by columns; else None.
        bits: The bits of a packed value.
    """

    name: str
    scales: tuple[str, ...]
    zero_point: str = ""
    axis: int = -1
    block: int = 0
    packed: tuple[int, int] | None = None
    bits: int = 8

    def numbers(self, read: Callable[[str], Array]) -> tuple[Array, Array]:
        """Returns the numbers that the integers stand for, and the step between two of them, of one shape.

        Args:
            read: Returns a constant by its name.
        """
        scale = np.prod(np.broadcast_arrays(*(read(name).astype(np.float64) for name in self.scales)), axis=0)
        zero = read(self.zero_point) if self.zero_point else None
        if self.packed is not None:
            return self._unpack(read(self.name), scale, zero)
        integers = read(self.name).astype(np.float64)
        shape = integers.shape
        steps = self._spread(scale, shape)
        zeros = 0.0 if zero is None else self._spread(zero.astype(np.float64), shape)
        return steps * (integers - zeros), np.abs(np.broadcast_to(steps, shape))

    def _spread(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Returns scales or zero points so that they stand beside the integers."""
        if values.size == 1 or not shape:
            return values.reshape(())
        axis = self.axis % len(shape)
        if self.block:
            return np.repeat(values, self.block, axis=axis).take(range(shape[axis]), axis)
        return values.reshape([-1 if place == axis else 1 for place in range(len(shape))])

    def _unpack(self, packed: Array, scale: Array, zero: Array | None) -> tuple[Array, Array]:
        """Returns the numbers and steps of a matrix whose columns are packed block by block."""
        assert self.packed is not None
        rows, columns = self.packed
        integers = _bits(packed.reshape(columns, -1), self.bits)[:, : packed.shape[1] * self.block]
        blocks = integers.shape[1] // self.block
        zeros = np.full((columns, blocks), 2.0 ** (self.bits - 1))
        if zero is not None:
            whole = zero.dtype.kind in "iu"
            zeros = (_bits(zero.reshape(columns, -1), self.bits) if whole else zero.reshape(columns, -1))[:, :blocks]
        steps = np.repeat(scale.reshape(columns, blocks), self.block, axis=1)
        numbers = steps * (integers - np.repeat(zeros.astype(np.float64), self.block, axis=1))
        return numbers[:, :rows].T, np.abs(steps[:, :rows].T)


def quantized_constants(graph: Any) -> dict[str, Quantized]:
    """Returns the integer constants of a graph whose scales are constants as well, by name.

    Args:
        graph: An `onnx.GraphProto`. The bodies of its nodes are not entered.
    """
    constants = {tensor.name for tensor in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    found: dict[str, Quantized] = {}
    for node in graph.node:
        for each in _dequantize_node(node, producers, users, constants):
            if each.name in constants and all(scale in constants for scale in each.scales):
                found.setdefault(each.name, each)
    return found


def _dequantize_node(
    node: Any, producers: Mapping[str, Any], users: Mapping[str, list[Any]], constants: set[str]
) -> Iterator[Quantized]:
    """Yields what a node takes as integers, whether or not they are constants."""
    names = [*node.input, *[""] * 12]
    numbers = {attribute.name: attribute.i for attribute in node.attribute}

    def find_constant(name: str) -> str:
        """Returns the constant that a value is taken from, if operators in between leave its integers as they are."""
        while name in producers and producers[name].op_type in _PASSING and producers[name].input:
            name = producers[name].input[0]
        return name

    if node.op_type == "DequantizeLinear":
        axis = numbers.get("axis", 1)
        yield Quantized(find_constant(names[0]), (names[1],), names[2], axis, numbers.get("block_size", 0))
    elif node.op_type in _PLACES:
        for at, scale, zero, axis in _PLACES[node.op_type]:
            axis = -2 if node.op_type == "QGemm" and numbers.get("transB") else axis
            yield Quantized(find_constant(names[at]), (names[scale],), names[zero], axis)
        if node.op_type in _BIASES:
            bias, *scales = _BIASES[node.op_type]
            yield Quantized(names[bias], tuple(names[place] for place in scales))
    elif node.op_type in ("MatMulInteger", "ConvInteger"):
        factor = _multiplied_scale(node.output[0], users, producers, constants)
        if factor:
            yield Quantized(names[1], (factor,), names[3], 0 if node.op_type == "ConvInteger" else -1)
    elif node.op_type == "MatMulNBits":
        shape = numbers["K"], numbers["N"]
        bits = numbers.get("bits", 4)
        yield Quantized(names[1], (names[2],), names[3], block=numbers["block_size"], packed=shape, bits=bits)
    elif node.op_type == "GatherBlockQuantized":
        yield Quantized(
            names[0], (names[2],), names[3], numbers.get("quantize_axis", 1), numbers.get("block_size", 128)
        )


def _multiplied_scale(
    name: str, users: Mapping[str, list[Any]], producers: Mapping[str, Any], constants: set[str]
) -> str:
    """Returns the constant by which a product of integers is multiplied once it is a float; empty without one."""
    for node in users.get(name, []):
        if node.op_type == "Cast":
            return _multiplied_scale(node.output[0], users, producers, constants)
        if node.op_type == "Mul":
            factors = [other for other in node.input if other != name]
            inner = [each for other in factors if other in producers for each in producers[other].input]
            return next((each for each in [*factors, *inner] if each in constants), "")
    return ""


def _bits(packed: Array, bits: int) -> Array:
    """Returns the values of rows of bytes, of which each holds several, the lowest bits first."""
    if bits == 8:
        return packed.astype(np.float64)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = (packed[..., np.newaxis] >> shifts) & np.uint8(2**bits - 1)
    return values.reshape(*packed.shape[:-1], -1).astype(np.float64)
