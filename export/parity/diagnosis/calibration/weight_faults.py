"""Weights whose one scale leaves some of their channels, or most of a bias, too few steps."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_pe.export.artifacts import litert_file
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.artifacts.onnx_model import layer_of, read_without_weights
from keras_pe.export.artifacts.onnx_quantization import quantized_constants
from keras_pe.export.artifacts.quantized_tensors import plain_name
from keras_pe.export.results import Array, Cause, Finding, OtherValue

_FEW_STEPS = 4.0  # largest value of a channel, or usual value of a bias, in steps, of which rounding takes a tenth
_MANY_STEPS = 64.0  # a scale that leaves the largest channel fewer steps is too coarse for all
_LEAST = np.finfo(np.float64).tiny
_LARGEST_BIAS = 2**31 - 1
_FIRST_AXIS = frozenset({"Conv", "ConvInteger", "QLinearConv"})
_TABLES = frozenset({"Gather", "GatherND"})


@dataclass(frozen=True)
class _Weight:
    """A stored tensor of integers with one scale, or a bias with several scales.

    Attributes:
        name: The name.
        layer: The names that lead to the layer, joined by "/".
        dtype: The type of the integers.
        integers: The integers.
        steps: The absolute numbers that the integers stand for, in steps.
        channels: The axis of the channels; None for a table of rows.
    """

    name: str
    layer: str
    dtype: str
    integers: Array
    steps: Array
    channels: int | None


def find_weight_faults(path: Path, layers: Iterable[str] = ()) -> Iterator[Finding]:
    """Yields the weights with channels of unlike size on one scale, and biases that integers do not hold.

    Args:
        path: An ONNX or LiteRT file.
        layers: The paths of the model's layers, if they are known.
    """
    weights = _litert_weights(path, layers) if Format.detect(path) is Format.LITERT else _onnx_weights(path)
    for each in weights:
        if each.steps.ndim > 1 and each.channels is not None:
            yield from _small_channels(each)
        elif each.steps.ndim == 1:
            yield from _coarse_bias(each)


def _onnx_weights(path: Path) -> Iterator[_Weight]:
    from onnx import numpy_helper

    graph = read_without_weights(path).graph
    constants = {each.name: each for each in graph.initializer}

    def read(name: str) -> Array:
        return numpy_helper.to_array(constants[name], str(path.parent))

    for name, each in quantized_constants(graph).items():
        shape = constants[name].dims
        has_one = len(shape) == 1 or all(read(scale).size == 1 for scale in each.scales)
        if each.packed is not None or not has_one or not math.prod(shape):
            continue
        integers, (numbers, steps) = read(name), each.numbers(read)
        readers = _readers(graph, name)
        is_table = bool({operator for operator, _ in readers} & _TABLES)
        is_first = any(operator in _FIRST_AXIS or is_transposed for operator, is_transposed in readers)
        plain, axis = plain_name(name), 0 if is_first else numbers.ndim - 1
        in_steps = np.abs(numbers) / np.maximum(steps, _LEAST)
        yield _Weight(plain, layer_of(plain), integers.dtype.name, integers, in_steps, None if is_table else axis)


def _litert_weights(path: Path, layers: Iterable[str]) -> Iterator[_Weight]:
    from keras_pe.export.runtimes.litert_layers import operator_layers

    operators = read_operators(litert_file.read_whole(path))
    floats = {each.outputs[0].name: each.inputs[0] for each in operators if each.kind == "DEQUANTIZE"}
    stored, seen = litert_file.quantized_constants(path), set[str]()
    for operator, layer in zip(operators, operator_layers(operators, layers), strict=True):
        for tensor in operator.inputs if operator.kind != "DEQUANTIZE" else ():
            source = floats.get(tensor.name, tensor)
            if (name := source.name) not in stored or name in seen:
                continue
            seen.add(name)
            numbers, steps = (each.astype(np.float64) for each in stored[name])
            if not numbers.size or not steps.all() or (numbers.ndim > 1 and steps.min() != steps.max()):
                continue
            # A kernel has its output channels on the first axis, one of a depthwise convolution on the last.
            axis = {"GATHER": None, "DEPTHWISE_CONV_2D": numbers.ndim - 1}.get(operator.kind, 0)
            integers = np.rint(numbers / steps)
            yield _Weight(name.partition(";")[0], layer, source.dtype, integers, np.abs(numbers / steps), axis)


def _readers(graph: object, name: str) -> list[tuple[str, bool]]:
    """Returns the operators that take a constant, or its floats, and whether they transpose it."""
    names, found = {name}, []
    for node in graph.node:  # type: ignore[attr-defined]
        if names.isdisjoint(node.input):
            continue
        if node.op_type in ("DequantizeLinear", "Identity"):
            names.update(node.output)
        else:
            found.append((node.op_type, any(each.name == "transB" and each.i for each in node.attribute)))
    return found


def _small_channels(weight: _Weight) -> Iterator[Finding]:
    largest = weight.steps.max(axis=tuple(i for i in range(weight.steps.ndim) if i != weight.channels))
    few = np.flatnonzero((largest > 0) & (largest < _FEW_STEPS))
    if not few.size or largest.max() < _MANY_STEPS:
        return
    text = (
        f"Weight {weight.name!r} has one scale for {len(largest)} channels. {len(few)} of them, the first {few[0]}, "
        f"have at most {largest[few].max():.0f} steps on a side, and the largest has {largest.max():.0f}."
    )
    values = (OtherValue("channels", None, len(few)), OtherValue("channel", None, int(few[0])))
    yield Finding(Cause.CHANNELS_OF_ONE_SCALE, text, weight.layer or None, parameters=values)


def _coarse_bias(weight: _Weight) -> Iterator[Finding]:
    layer, integers, steps = weight.layer or None, weight.integers, weight.steps
    cut = int((np.abs(integers.astype(np.float64)) >= _LARGEST_BIAS).sum())  # no integer of another type is as large
    # The scale of int32 is that of the sums that the bias is added to, so small values with few steps are accurate.
    is_coarse = weight.dtype != "int32" and steps.size > 1 and steps.any() and np.median(steps) < _FEW_STEPS
    if cut:
        text = f"{cut} of {integers.size} values of {weight.name!r} are cut at the end of int32."
        yield Finding(Cause.COARSE_BIAS, text, layer, parameters=(OtherValue("cut", None, cut),))
    elif is_coarse:
        text = f"Half of the values of {weight.name!r} have less than {_FEW_STEPS:.0f} steps of {weight.dtype}."
        yield Finding(Cause.COARSE_BIAS, text, layer, parameters=(OtherValue("steps", None, float(np.median(steps))),))
