"""Weights whose one scale leaves some of their channels, or most of a bias, too few steps."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_pe.export.artifacts.onnx_model import layer_of, read_without_weights
from keras_pe.export.artifacts.onnx_quantization import quantized_constants
from keras_pe.export.artifacts.quantization import plain_name
from keras_pe.export.results import Array, Cause, Finding, OtherValue

_FEW_STEPS = 4.0  # largest value of a channel, in steps, that loses a tenth of the channel or more
_MANY_STEPS = 64.0  # a scale that leaves the largest channel fewer steps is too coarse for all
_LARGEST_BIAS = 2**31 - 1
_FIRST_AXIS = frozenset({"Conv", "ConvInteger", "QLinearConv"})
_TABLES = frozenset({"Gather", "GatherND"})


def find_weight_faults(path: Path) -> Iterator[Finding]:
    """Yields the weights with channels of unlike size on one scale, and biases that integers do not hold.

    Args:
        path: An ONNX file.
    """
    from onnx import numpy_helper

    graph = read_without_weights(path).graph
    constants = {each.name: each for each in graph.initializer}

    def read(name: str) -> Array:
        return numpy_helper.to_array(constants[name], str(path.parent))

    for name, each in quantized_constants(graph).items():
        if each.packed is not None or any(read(scale).size != 1 for scale in each.scales) or not read(name).size:
            continue
        numbers, steps = each.numbers(read)
        readers = _readers(graph, name)
        steps_of = np.abs(numbers) / np.maximum(steps, np.finfo(np.float64).tiny)
        plain = plain_name(name)
        if numbers.ndim > 1 and not {operator for operator, _ in readers} & _TABLES:
            is_first = any(operator in _FIRST_AXIS or is_transposed for operator, is_transposed in readers)
            yield from _small_channels(plain, steps_of, 0 if is_first else numbers.ndim - 1)
        elif numbers.ndim == 1:
            yield from _coarse_bias(plain, steps_of, read(name))


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


def _small_channels(name: str, steps: Array, axis: int) -> Iterator[Finding]:
    largest = steps.max(axis=tuple(i for i in range(steps.ndim) if i != axis))
    few = np.flatnonzero((largest > 0) & (largest < _FEW_STEPS))
    if not few.size or largest.max() < _MANY_STEPS:
        return
    text = (
        f"Weight {name!r} has one scale for {len(largest)} channels. {len(few)} of them, the first {few[0]}, have at "
        f"most {largest[few].max():.0f} steps on a side, and the largest has {largest.max():.0f}."
    )
    values = (OtherValue("channels", None, len(few)), OtherValue("channel", None, int(few[0])))
    yield Finding(Cause.CHANNELS_OF_ONE_SCALE, text, layer_of(name) or None, parameters=values)


def _coarse_bias(name: str, steps: Array, integers: Array) -> Iterator[Finding]:
    layer = layer_of(name) or None
    cut = int((np.abs(integers.astype(np.float64)) >= _LARGEST_BIAS).sum())
    if integers.dtype == np.int32 and cut:
        text = f"{cut} of {integers.size} values of {name!r} are cut at the end of int32."
        yield Finding(Cause.COARSE_BIAS, text, layer, parameters=(OtherValue("cut", None, cut),))
    elif steps.size > 1 and steps.max() >= _MANY_STEPS and np.median(steps) < 2:
        text = f"Half of the values of {name!r} have less than 2 steps, and the largest has {steps.max():.0f}."
        yield Finding(Cause.COARSE_BIAS, text, layer, parameters=(OtherValue("steps", None, float(np.median(steps))),))
