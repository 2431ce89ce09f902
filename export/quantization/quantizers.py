"""The quantizers of each format, and calls of them in a subprocess, since a quantizer may crash."""

from collections.abc import Mapping, Sequence

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.quantization.litert_quantizers import LITERT_QUANTIZERS
from keras_pe.export.quantization.onnx_quantizers import ONNX_QUANTIZERS
from keras_pe.export.quantization.quantizer import Options, Quantizer

QUANTIZERS: Mapping[Format, Mapping[str, Quantizer]] = {Format.ONNX: ONNX_QUANTIZERS, Format.LITERT: LITERT_QUANTIZERS}
METHODS = tuple(ONNX_QUANTIZERS)
"""The names of the quantizers, which each format has."""


def calibrate(format: Format, method: str, source: str, cache: str, feeds: Sequence[str]) -> None:
    """Adds the ranges of the values in some batches to the calibration cache.

    Args:
        format: The format of the file.
        method: A name in `QUANTIZERS` of a quantizer that needs ranges.
        source: The float file.
        cache: The calibration cache.
        feeds: The files of the batches.
    """
    function = QUANTIZERS[format][method].calibrate
    assert function is not None
    function(source, cache, feeds)


def write_quantized(format: Format, method: str, source: str, target: str, options: Options, cache: str) -> None:
    """Writes a quantized file.

    Args:
        format: The format of the file.
        method: A name in `QUANTIZERS`.
        source: The float file.
        target: The destination.
        options: Keyword arguments of the quantizer, as JSON values.
        cache: The calibration cache of a quantizer that needs one.
    """
    QUANTIZERS[format][method].write(source, target, options, cache)


def quantized_operators(format: Format, method: str) -> tuple[str, ...]:
    """Returns the operators that a quantizer takes."""
    return tuple(sorted(QUANTIZERS[format][method].operators()))
