"""Rewrites the operators of an ONNX file that compute with integers as operators of floats between roundings."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from keras_pe.export.runtimes.runtime import Array

FLOAT_SUFFIX = "/float"
"""The suffix of the floats whose integers have a name in the file."""

_OPERATORS = {
    "QGemm": "Gemm",
    "QLinearAdd": "Add",
    "QLinearAveragePool": "AveragePool",
    "QLinearConv": "Conv",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearMatMul": "MatMul",
    "QLinearMul": "Mul",
    "QLinearSigmoid": "Sigmoid",
    "QLinearSoftmax": "Softmax",
}
_PAIRS = frozenset({"QGemm", "QLinearAdd", "QLinearConv", "QLinearMatMul", "QLinearMul"})
"""The operators of two tensors: each with a scale and a zero point, then those of the result, then a bias."""

_KEPT = frozenset({
    *("alpha", "auto_pad", "axis", "ceil_mode", "count_include_pad", "dilations", "group", "kernel_shape", "pads"),
    *("strides", "transA", "transB"),
})  # fmt: skip
"""The attributes that the operators of floats have as well. An integer product has its factor in `alpha`."""


def replace_integer_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model in which tensors of integers are only rounded, passed on, and made floats again.

    The results of a product of integers with scales of each call are floats before their scale is applied.

    Args:
        model: The model, which is changed.

    Raises:
        ValueError: If an operator with integers has no such form.
    """
    graph = model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    new = dict[str, onnx.TensorProto]()
    nodes: list[onnx.NodeProto] = []

    def read(name: str) -> Array:
        return numpy_helper.to_array(constants[name])

    def add(name: str, value: Any) -> str:
        new[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    dynamic = {node.output[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            nodes.append(helper.make_node(node.op_type, node.input, node.output[:1], node.name))
            add(node.output[1], np.float32(1))
            add(node.output[2], np.uint8(0))
        elif node.op_type in ("MatMulInteger", "ConvInteger"):
            nodes += _product(node, constants, dynamic, add)
        elif node.op_type in _OPERATORS:
            nodes += _float_operator(node, constants, read, add)
        elif node.op_type == "QLinearConcat":
            nodes += _concatenation(node)
        elif node.op_type.startswith(("QLinear", "QAttention", "QEmbed", "DynamicQuantizeMatMul", "MatMulIntegerTo")):
            raise ValueError(f"has the operator {node.op_type}, which has no form in floats here.")
        else:
            nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    graph.initializer.extend(new.values())
    return model


def _product(
    node: onnx.NodeProto, constants: Mapping[str, Any], dynamic: set[str], add: Callable[[str, Any], str]
) -> Iterator[onnx.NodeProto]:
    """Yields a product with the integers of a constant as floats. The file applies their scale to the result."""
    if node.input[1] not in constants:
        raise ValueError("multiplies integers that are both computed.")
    weight = numpy_helper.to_array(constants[node.input[1]]).astype(np.float32)
    zero = numpy_helper.to_array(constants[node.input[3]]) if len(node.input) > 3 and node.input[3] else np.zeros(())
    is_conv = node.op_type == "ConvInteger"
    zero = zero.reshape([-1] + [1] * (weight.ndim - 1)) if is_conv and zero.ndim else zero
    name = add(f"{node.output[0]}/weight", (weight - zero.astype(np.float32)).astype(np.float32))
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    kind = "Conv" if is_conv else "MatMul"
    yield helper.make_node(kind, [node.input[0], name], node.output, node.name, **attributes)


def _float_operator(
    node: onnx.NodeProto, constants: Mapping[str, Any], read: Callable[[str], Array], add: Callable[[str, Any], str]
) -> Iterator[onnx.NodeProto]:
    """Yields an operator between the roundings of its inputs and of its result."""
    names = [*node.input, *[""] * 9]
    result, kind = node.output[0], _OPERATORS[node.op_type]
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    given, place = [], 0
    for place in (0, 3) if node.op_type in _PAIRS else (0,):
        name = f"{result}/given {place}"
        axis = 0 if node.op_type == "QLinearConv" or attributes.get("transB") else 1
        integers, scale, zero = names[place : place + 3]
        yield helper.make_node("DequantizeLinear", [integers, scale, *([zero] if zero else [])], [name], axis=axis)
        given.append(name)
    bias, at = ("", place + 3)
    if node.op_type == "QGemm":
        bias, at = names[6], 7
    elif node.op_type == "QLinearConv":
        bias = names[8]
    if bias:
        scales = read(names[1]).astype(np.float64) * read(names[4]).astype(np.float64)
        given.append(add(f"{result}/bias", (read(bias) * scales).astype(np.float32)))
    kept = {name: value for name, value in attributes.items() if name in _KEPT}
    if not names[at]:  # a product whose result stays a float
        yield helper.make_node(kind, given, [result], node.name, **kept)
        return
    yield helper.make_node(kind, given, [f"{result}{FLOAT_SUFFIX}"], node.name, **kept)
    yield helper.make_node("QuantizeLinear", [f"{result}{FLOAT_SUFFIX}", *names[at : at + 2]], [result])


def _concatenation(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    result, given = node.output[0], []
    for place in range(2, len(node.input), 3):
        name = f"{result}/given {place}"
        yield helper.make_node("DequantizeLinear", list(node.input[place : place + 3]), [name])
        given.append(name)
    axis = next(each.i for each in node.attribute if each.name == "axis")
    yield helper.make_node("Concat", given, [f"{result}{FLOAT_SUFFIX}"], node.name, axis=axis)
    yield helper.make_node("QuantizeLinear", [f"{result}{FLOAT_SUFFIX}", *node.input[:2]], [result])
