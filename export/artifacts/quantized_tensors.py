"""The tensors that an ONNX or LiteRT file holds or computes as integers with a scale."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.litert_file import read_scales
from keras_pe.export.artifacts.onnx_model import all_graphs, layer_of, read_without_weights
from keras_pe.export.artifacts.onnx_quantization import Array, Quantized, quantized_constants
from keras_pe.export.results import QuantizedRole, QuantizedTensor

COLUMNS = ("quantized", "role", "type", "scales", "step", "zero point", "range")

_SUFFIXES = ("_QuantizeLinear_Output", "_QuantizeLinear_Input", "_quantized")
"""The suffixes that ONNX Runtime's quantizers append to the names of tensors."""

_RESULT_SCALES = {"QGemm": 7, "QLinearAdd": 6, "QLinearConv": 6, "QLinearMatMul": 6, "QLinearMul": 6}
"""The place of the scale of an operator's result. The zero point is the next input. Other operators: see `_values`."""

_LIMITS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def count_quantized(tensors: Iterable[QuantizedTensor]) -> str:
    """Returns the numbers of quantized tensors, such as "12 weights (11 int8, 1 int32) and 9 values (9 uint8)"."""
    dtypes: dict[str, Counter[str]] = {}
    for each in tensors:
        dtypes.setdefault(each.role, Counter())[each.dtype] += 1
    parts = []
    for role, counts in dtypes.items():
        total, types = counts.total(), ", ".join(f"{n} {dtype}" for dtype, n in counts.items())
        parts.append(f"{total} {role}{'s' * (total > 1)} ({types})")
    return " and ".join(parts)


def quantization_rows(tensors: Iterable[QuantizedTensor]) -> tuple[tuple[str, ...], ...]:
    """Returns the cells of a table with the columns `COLUMNS`. Tensors of a layer with equal scales share a row."""
    groups: dict[Any, list[str]] = {}
    for each in tensors:
        groups.setdefault(replace(each, name=""), []).append(each.name)
    rows = []
    for each, names in groups.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        ends = (_show_ends(each_ends) for each_ends in (each.steps, each.zero_points, each.limits))
        rows.append((names[0] + more, each.role, each.dtype, str(each.scales or ""), *ends))
    return tuple(rows)


def _show_ends(ends: tuple[float, float] | None) -> str:
    """Returns two numbers with three digits; one number if they are equal."""
    if ends is None:
        return "each call"
    return " to ".join(dict.fromkeys(f"{end:.3g}" for end in ends))


def read_quantization(artifact: Artifact) -> tuple[QuantizedTensor, ...]:
    """Returns the weights, then the values, that an artifact has as integers with a scale; none for a SavedModel.

    Raises:
        ValueError: If the file cannot be read any more.
    """
    readers = {Format.ONNX: _read_onnx, Format.LITERT: _read_litert}
    try:
        return readers[artifact.format](artifact.path) if artifact.format in readers else ()
    except OSError as error:
        raise ValueError(f"{artifact.path} {error}") from error
    except Exception as error:  # whatever a damaged scale or entry makes of its reader
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{artifact.path} has scales that cannot be read ({reason}).") from error


def _read_onnx(path: Path) -> tuple[QuantizedTensor, ...]:
    from onnx import numpy_helper

    model = read_without_weights(path)
    weights, values = dict[str, QuantizedTensor](), dict[str, QuantizedTensor]()
    for graph in all_graphs(model.graph):
        constants = {tensor.name: tensor for tensor in graph.initializer}

        def read(name: str, constants: Mapping[str, Any] = constants) -> Array:
            return numpy_helper.to_array(constants[name], str(path.parent))

        for name, each in quantized_constants(graph).items():
            weights.setdefault(name, _describe_weight(name, each, _dtype(constants[name]), read))
        for name, dtype, step, zero in _keras_weights(graph, constants, read):
            weights.setdefault(name, _describe(name, "weight", dtype, step, zero))
        for name, dtype, scale, zero in _values(graph, constants, read):
            if name in constants:
                weights.setdefault(name, _describe(name, "weight", dtype, scale, zero))
            else:
                values.setdefault(name, _describe(name, "value", dtype, scale, zero))
    return (*weights.values(), *values.values())


def _read_litert(path: Path) -> tuple[QuantizedTensor, ...]:
    found = [
        _describe(name.partition(";")[0], "weight" if is_constant else "value", dtype, scale, zero)
        for name, dtype, is_constant, scale, zero in read_scales(path)
    ]
    return tuple(sorted(found, key=lambda each: each.role, reverse=True))


def _describe_weight(name: str, found: Quantized, dtype: str, read: Callable[[str], Array]) -> QuantizedTensor:
    scale = np.prod(np.broadcast_arrays(*(read(scale) for scale in found.scales)), axis=0)
    zero = read(found.zero_point) if found.zero_point else None
    if found.packed is not None:
        # Packed integers are unsigned. Without a zero point, or with several in a byte, the middle is near 0.
        dtype = f"uint{found.bits}"
        zero = zero if zero is not None and zero.dtype.kind == "f" else np.full(1, 2.0 ** (found.bits - 1))
    return _describe(name, "weight", dtype, scale, zero)


def _keras_weights(
    graph: Any, constants: Mapping[str, Any], read: Callable[[str], Array]
) -> Iterator[tuple[str, str, Array, Array | None]]:
    """Yields the name, the type, the steps and the zero points of each weight that Keras quantized.

    Source:
        keras 3.15, quantizers/quantizers.py: `abs_max_quantize` returns the inverse of the step for `<weight>_scale`.
        `abs_max_quantize_grouped_with_zero_point` returns the step, and the zero points for `<weight>_zero`.
    """
    packed = {name for node in graph.node if node.op_type == "BitwiseAnd" for name in node.input}
    products = (node.input for node in graph.node if node.op_type == "MatMulInteger")
    shifts = {names[1]: names[3] for names in products if len(names) > 3}  # the exporter moves int8 to uint8
    for name, tensor in constants.items():
        scale, zero = f"{name}_scale", f"{name}_zero"
        if scale in constants and _dtype(tensor) in ("int8", "uint8"):
            dtype = "int4" if name in packed else _dtype(tensor)
            step = read(scale) if zero in constants else 1 / read(scale)
            offset = zero if zero in constants else shifts.get(name, "")
            yield name, dtype, step, read(offset) if offset in constants else None


def _values(
    graph: Any, constants: Mapping[str, Any], read: Callable[[str], Array]
) -> Iterator[tuple[str, str, Array | None, Array | None]]:
    """Yields the name, the type, the scale and the zero point of each result in integers; None if it is computed."""
    for node in graph.node:
        names = [*node.input, "", ""]
        if node.op_type == "DynamicQuantizeLinear":
            yield node.input[0], "uint8", None, None
        elif node.op_type == "QuantizeLinear":
            kinds = {each.name: each.i for each in node.attribute}
            dtype = _dtype(constants[names[2]]) if names[2] in constants else _dtype_name(kinds.get("output_dtype", 2))
            if names[1] in constants:
                yield names[0], dtype, read(names[1]), read(names[2]) if names[2] in constants else None
        elif node.op_type.startswith(("QLinear", "QGemm")):
            at = _RESULT_SCALES.get(node.op_type, len(node.input) - 2)
            if all(name in constants for name in names[at : at + 2]):
                yield node.output[0], _dtype(constants[names[at + 1]]), read(names[at]), read(names[at + 1])


def _dtype(tensor: Any) -> str:
    return _dtype_name(tensor.data_type)


def _dtype_name(number: int) -> str:
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(number).name)


def _describe(name: str, role: QuantizedRole, dtype: str, scale: Array | None, zero: Array | None) -> QuantizedTensor:
    plain = plain_name(name)
    layer = layer_of(plain)
    if scale is None:
        return QuantizedTensor(layer, plain, role, dtype, 0, None, None, None)
    steps = np.abs(scale.astype(np.float64)).ravel()
    zeros = np.zeros(1) if zero is None else zero.astype(np.float64).ravel()
    zeros = zeros if zeros.size == steps.size else np.broadcast_to(zeros[:1], steps.shape)
    ends = value_limits(dtype, steps, zeros)
    limits = None if ends is None else (float(ends[0].min()), float(ends[1].max()))
    return QuantizedTensor(layer, plain, role, dtype, steps.size, _ends_of(steps), limits, _ends_of(zeros))


def plain_name(name: str) -> str:
    """Returns the name of a tensor without the suffixes of quantizers."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def value_limits(dtype: str, scales: Array, zeros: Array) -> tuple[Array, Array] | None:
    """Returns the least and the greatest number of each scale; None for a type without integers."""
    ends = _LIMITS.get(dtype) or ((np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype[0] in "iu" else None)
    return None if ends is None else (scales * (ends[0] - zeros), scales * (ends[1] - zeros))


def _ends_of(values: Array) -> tuple[float, float]:
    return float(values.min()), float(values.max())
