"""Calls ONNX Runtime's quantizers with plain options. A subprocess makes the calls, since a quantizer may crash."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Quantizer:
    """One of ONNX Runtime's quantizers.

    Attributes:
        function: The import path of the quantizer.
        options: The keyword arguments of a file in which everything is quantized, as JSON values.
        excluded: The keyword argument with the names of the nodes to leave in float.
        needs_calibration: Whether the quantizer reads rows.
        write: Writes a file. Its arguments are the float file, the destination, the options and the calibration cache.
        operators: Returns the operators that the quantizer takes.
    """

    function: str
    options: Options
    excluded: str
    needs_calibration: bool
    write: Callable[[str, str, Options, str], None]
    operators: Callable[[], Iterable[str]]


class StoredFeeds:
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


def write_feed(path: Path, inputs: Mapping[str, Array]) -> None:
    """Writes the inputs of a batch to an `.npz` file."""
    texts = {name: array.astype(str) if array.dtype.kind == "O" else array for name, array in inputs.items()}
    np.savez(path, **texts)  # type: ignore[arg-type]  # a name may not be "allow_pickle" in the stubs of NumPy


def read_feed(path: str | Path) -> Arrays:
    """Returns the arrays of a file of `write_feed`, texts as objects."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return {name: array.astype(object) if array.dtype.kind == "U" else array for name, array in arrays.items()}


def calibrate_ranges(source: str, cache: str, feeds: Iterable[str], target: str) -> None:
    """Writes the calibration cache of `quantize_static`: the range of each value over the batches of some files."""
    from onnxruntime.quantization import quantize_static

    quantize_static(source, target, StoredFeeds(feeds), calibration_cache_path=cache, **STATIC)


def write_quantized(method: str, source: str, target: str, options: Options, cache: str) -> None:
    """Writes a quantized file.

    Args:
        method: A name in `QUANTIZERS`.
        source: The float file.
        target: The destination.
        options: Keyword arguments of the quantizer, as JSON values.
        cache: The calibration cache of a quantizer that needs one.
    """
    QUANTIZERS[method].write(source, target, options, cache)


def quantized_operators(method: str) -> tuple[str, ...]:
    """Returns the operators that a quantizer takes."""
    return tuple(sorted(QUANTIZERS[method].operators()))


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

    converted = OnnxModel(convert_float_to_float16(onnx.load(source), **options))
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
    from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST

    return {schema.name for schema in defs.get_all_schemas()} - {*DEFAULT_OP_BLOCK_LIST}


STATIC: Options = {"per_channel": True}
"""One scale for each channel of a weight. All else is the default of `quantize_static`: int8, QDQ and MinMax."""


def _weights(bits: int) -> Quantizer:
    return Quantizer(
        function="onnxruntime.quantization.matmul_nbits_quantizer.MatMulNBitsQuantizer",
        options={"bits": bits, "block_size": 32, "is_symmetric": True},
        excluded="nodes_to_exclude",
        needs_calibration=False,
        write=_write_blocks,
        operators=lambda: ("MatMul",),
    )


QUANTIZERS: Mapping[str, Quantizer] = {
    "static": Quantizer(
        function="onnxruntime.quantization.quantize_static",
        options=STATIC,
        excluded="nodes_to_exclude",
        needs_calibration=True,
        write=_write_static,
        operators=_static_operators,
    ),
    "dynamic": Quantizer(
        function="onnxruntime.quantization.quantize_dynamic",
        options={"weight_type": "QUInt8"},  # ONNX Runtime has no kernel of ConvInteger for int8 weights
        excluded="nodes_to_exclude",
        needs_calibration=False,
        write=_write_dynamic,
        operators=_dynamic_operators,
    ),
    "int8-weights": _weights(8),
    "int4-weights": _weights(4),
    "float16": Quantizer(
        function="onnxruntime.transformers.float16.convert_float_to_float16",
        options={"keep_io_types": True},
        excluded="node_block_list",
        needs_calibration=False,
        write=_write_float16,
        operators=_float16_operators,
    ),
}
