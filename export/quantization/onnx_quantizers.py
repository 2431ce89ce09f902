"""The quantizers of ONNX Runtime."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.quantization.feeds import read_feed
from keras_pe.export.quantization.quantizer import Options, Quantizer
from keras_pe.export.runtimes.runtime import Arrays

_WITH_BODIES = frozenset({"If", "Loop", "Scan"})
_STATIC: Options = {"per_channel": True, "reduce_range": False}
"""One scale for each channel of a weight, in 8 bits. All else is the default of `quantize_static`: QDQ and MinMax."""
_LARGEST_SUM = """<ir_version: 8, opset_import: ["": 13]>
sum (uint8[1, 2] x) => (int32[1, 1] y) <int8[2, 1] w = {127, 127}> { y = MatMulInteger(x, w) }"""


class _StoredFeeds:
    """A reader of calibration batches in `.npz` files, one at a time."""

    def __init__(self, files: Iterable[str]) -> None:
        """Stores the paths."""
        self._files = iter(files)

    def __iter__(self) -> Iterator[Arrays]:
        """Yields the batches."""
        return iter(self.get_next, None)

    def get_next(self) -> Arrays | None:
        """Returns the inputs of the next batch by name; None after the last batch."""
        file = next(self._files, None)
        return None if file is None else read_feed(file)


def _calibrate(source: str, cache: str, feeds: Sequence[str]) -> None:
    from onnxruntime.quantization import quantize_static

    scratch, part = Path(cache).with_suffix(".onnx"), Path(cache).with_suffix(".part")
    part.unlink(missing_ok=True)
    quantize_static(source, str(scratch), _StoredFeeds(feeds), calibration_cache_path=part, **_STATIC)
    scratch.unlink()
    if Path(cache).exists():
        part.write_text(json.dumps(_merge(json.loads(Path(cache).read_text()), json.loads(part.read_text()))))
    part.replace(cache)


def _merge(ranges: dict[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a calibration cache with the wider range of each tensor."""
    for name, other in others["data"].items():
        own = ranges["data"].setdefault(name, other)
        for end, extreme in (("lowest", min), ("highest", max)):
            own[end]["data"] = list(map(extreme, own[end]["data"], other[end]["data"]))
    return ranges


def _write_static(source: str, target: str, options: Options, cache: str) -> None:
    from onnxruntime.quantization import quantize_static

    quantize_static(source, target, None, calibration_cache_path=cache, **options)


def _write_dynamic(source: str, target: str, options: Options, cache: str) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    weights = QuantType.from_string(options["weight_type"])
    quantize_dynamic(source, target, **{**options, "weight_type": weights})


def _write_blocks(source: str, target: str, options: Options, cache: str) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(source), **options)
    quantizer.process()
    quantizer.model.save_model_to_file(target, False)


def _write_float16(source: str, target: str, options: Options, cache: str) -> None:
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    model = onnx.load(source)
    del model.graph.value_info[:]  # the converter rounds each value that has a type here
    converted = OnnxModel(convert_float_to_float16(model, **options))
    converted.topological_sort()  # the converter appends its casts at the end, which ONNX does not allow
    onnx.save(converted.model, target)


def _static_operators() -> Iterable[str]:
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return {*QDQRegistry, *QLinearOpsRegistry}


def _dynamic_operators() -> Iterable[str]:
    from onnxruntime.quantization.registry import IntegerOpsRegistry

    return tuple(IntegerOpsRegistry)


def _float16_operators() -> Iterable[str]:
    from onnx import defs

    return {schema.name for schema in defs.get_all_schemas()}


def _exclude(options: Options, names: Sequence[str]) -> Options:
    return {**options, "nodes_to_exclude": sorted(names)}


def _compute_in_float(options: Options, operators: Sequence[str]) -> Options:
    if not _WITH_BODIES.isdisjoint(operators):  # the converter does not convert the weights that a body takes
        return {"keep_io_types": True}
    return {**options, "op_block_list": sorted(operators)}


def _fit_sums(options: Options) -> Options:
    """Returns options for weights of 7 bits if a sum of two products of 8 bits saturates at 16 bits.

    ONNX Runtime's products of int8 weights do this on x86 processors without VNNI.
    """
    from onnx.parser import parse_model
    from onnxruntime import InferenceSession

    session = InferenceSession(parse_model(_LARGEST_SUM).SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.full((1, 2), 255, np.uint8)})
    return options if found.item() == 2 * 255 * 127 else {**options, "reduce_range": True}


def _weights(bits: int) -> Quantizer:
    return Quantizer(
        function="onnxruntime.quantization.matmul_nbits_quantizer.MatMulNBitsQuantizer",
        options={"bits": bits, "block_size": 32, "is_symmetric": True},
        leave_in_float=_exclude,
        write=_write_blocks,
        operators=lambda: ("MatMul",),
    )


ONNX_QUANTIZERS: Mapping[str, Quantizer] = {
    "static": Quantizer(
        function="onnxruntime.quantization.quantize_static",
        options=_STATIC,
        leave_in_float=_exclude,
        write=_write_static,
        operators=_static_operators,
        calibrate=_calibrate,
        for_processor=_fit_sums,
    ),
    "dynamic": Quantizer(
        function="onnxruntime.quantization.quantize_dynamic",
        options={"weight_type": "QUInt8"},  # ONNX Runtime has no kernel of ConvInteger for int8 weights
        leave_in_float=_exclude,
        write=_write_dynamic,
        operators=_dynamic_operators,
    ),
    "int8-weights": _weights(8),
    "int4-weights": _weights(4),
    "float16": Quantizer(
        function="onnxruntime.transformers.float16.convert_float_to_float16",
        # Most processors have no kernels of 16 bits, so the weights alone have 16 bits.
        options={"keep_io_types": True, "force_fp16_initializers": True, "disable_shape_infer": True},
        leave_in_float=None,
        write=_write_float16,
        operators=_float16_operators,
        for_operators=_compute_in_float,
    ),
}
