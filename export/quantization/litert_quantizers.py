"""The recipes of the LiteRT quantizer, the package `ai-edge-quantizer`."""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.litert_file import chosen_signature
from keras_pe.export.quantization.feeds import read_feed
from keras_pe.export.quantization.quantizer import Options, Quantizer

_FLOAT = "no_quantize"
_FLOAT_ENDS = [{"regex": ".*", "operation": end, "algorithm_key": _FLOAT} for end in ("INPUT", "OUTPUT")]
"""Inputs and outputs stay float32, so that callers need no change."""


def _calibrate(source: str, cache: str, feeds: Sequence[str]) -> None:
    from ai_edge_quantizer.calibrator import CalibrationMode, Calibrator
    from ai_edge_quantizer.recipe_manager import RecipeManager
    from ai_edge_quantizer.utils.qsv_utils import min_max_update

    # The other mode reads no loop, and its ranges are moving averages, which cut values.
    mode = CalibrationMode.CALIBRATION_PROFILER_BASED
    calibrator = Calibrator(source, num_threads=1, mode=mode, qsv_update_func=min_max_update)
    if Path(cache).exists():
        calibrator.load_model_qsvs(cache)
    for feed in feeds:
        calibrator.calibrate({chosen_signature(Path(source)): [read_feed(feed)]}, RecipeManager())
    part = Path(cache).with_suffix(".part")
    calibrator.save_calibration_result(str(part))
    part.replace(cache)


def _write(source: str, target: str, options: Options, cache: str) -> None:
    from ai_edge_quantizer import Quantizer as LiteRTQuantizer
    from ai_edge_quantizer.utils.calibration_utils import load_calibration_results

    ranges = load_calibration_results(cache)[0] if Path(cache).exists() else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its interpreter keeps all tensors
        done = LiteRTQuantizer(source, **options).quantize(ranges, enable_progress_report=False)
    assert done.quantized_model is not None
    Path(target).write_bytes(done.quantized_model)


def _leave_in_float(options: Options, names: Sequence[str]) -> Options:
    rules = [{"regex": f"^{re.escape(name)}$", "operation": "*", "algorithm_key": _FLOAT} for name in sorted(names)]
    return {"quantization_recipe": [*options["quantization_recipe"], *rules]}


def _operators(algorithm: str, config: Mapping[str, Any]) -> Iterable[str]:
    """Returns the operators for which the quantizer accepts a configuration."""
    from ai_edge_quantizer.algorithm_manager import check_op_quantization_config
    from ai_edge_quantizer.qtyping import OpQuantizationConfig, TFLOperationName

    given = OpQuantizationConfig.from_dict(dict(config))
    for operator in TFLOperationName:
        try:
            check_op_quantization_config(algorithm, operator, given)
        except ValueError:
            continue
        yield str(operator.value)


def _recipe(
    config: Mapping[str, Any], algorithm: str = "min_max_uniform_quantize", is_calibrated: bool = False
) -> Quantizer:
    """Returns the quantizer with one configuration for all operators that it takes."""
    rule = {"regex": ".*", "operation": "*", "algorithm_key": algorithm, "op_config": config}
    return Quantizer(
        function="ai_edge_quantizer.Quantizer",
        options={"quantization_recipe": [rule, *_FLOAT_ENDS]},
        leave_in_float=_leave_in_float,
        write=_write,
        operators=partial(_operators, algorithm, config),
        calibrate=_calibrate if is_calibrated else None,
        takes_bodies=not is_calibrated,  # a loop needs equal types of its values before and after the body
    )


def _channels(bits: int) -> Mapping[str, Any]:
    """Returns the configuration of a weight with one scale for each channel."""
    return {"num_bits": bits, "symmetric": True, "granularity": "CHANNELWISE", "dtype": "INT"}


def _weights(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the configuration of operators that compute in float32, with weights of another type."""
    return {"weight_tensor_config": config, "compute_precision": "FLOAT", "explicit_dequantize": True}


_INT8_VALUES = {"num_bits": 8, "symmetric": False, "granularity": "TENSORWISE", "dtype": "INT"}
_STATIC = {
    "activation_tensor_config": _INT8_VALUES,
    "weight_tensor_config": _channels(8),
    "compute_precision": "INTEGER",
}
_HALF = {"num_bits": 16, "symmetric": True, "granularity": "TENSORWISE", "dtype": "FLOAT"}

LITERT_QUANTIZERS: Mapping[str, Quantizer] = {
    "static": _recipe(_STATIC, is_calibrated=True),
    "dynamic": _recipe({"weight_tensor_config": _channels(8), "compute_precision": "INTEGER"}),
    "int8-weights": _recipe(_weights(_channels(8))),
    "int4-weights": _recipe(_weights(_channels(4))),
    "float16": _recipe(_weights(_HALF), "float_casting"),
}
