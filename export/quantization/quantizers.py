"""The quantizers of each format, and calls of them in a subprocess, since a quantizer may crash."""

from collections.abc import Mapping, Sequence

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.quantization.litert_quantizers import LITERT_QUANTIZERS
from keras_pe.export.quantization.onnx_quantizers import ONNX_QUANTIZERS
from keras_pe.export.quantization.quantizer import Options, Quantizer


def _leave_layers(options: Options, paths: Sequence[str]) -> Options:
    return {**options, "layers_in_float": sorted({*paths})}


def _keras(mode: str) -> Mapping[str, Quantizer]:
    return {f"keras-{mode}": Quantizer("keras.Model.quantize", {"mode": mode}, _leave_layers)}


QUANTIZERS: Mapping[Format, Mapping[str, Quantizer]] = {
    Format.ONNX: {**ONNX_QUANTIZERS, **_keras("int8"), **_keras("int4")},
    Format.LITERT: {**LITERT_QUANTIZERS, **_keras("int8")},  # the converter makes floats of Keras' 4-bit weights
}
METHODS = tuple(QUANTIZERS[Format.ONNX])
"""The names of all quantizers."""


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
        method: A name in `QUANTIZERS` of a quantizer that takes files.
        source: The float file.
        target: The destination.
        options: Keyword arguments of the quantizer, as JSON values.
        cache: The calibration cache of a quantizer that needs one.
    """
    function = QUANTIZERS[format][method].write
    assert function is not None
    function(source, target, options, cache)


def quantizer_options(format: Format, method: str, operators: Sequence[str]) -> Options:
    """Returns the options with which everything is quantized in a file with some operators, for this processor."""
    quantizer = QUANTIZERS[format][method]
    return quantizer.for_processor(quantizer.for_operators(quantizer.options, operators))


def quantized_operators(format: Format, method: str) -> tuple[str, ...]:
    """Returns the operators that a quantizer takes."""
    return tuple(sorted(QUANTIZERS[format][method].operators()))
