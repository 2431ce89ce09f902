"""The recipes of the LiteRT quantizer `ai-edge-quantizer`, and 16 bits for LSTM operators, which it does not take."""

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.artifacts.litert_file import chosen_signature, pack_model, read_whole
from keras_pe.export.artifacts.litert_operators import read_operators
from keras_pe.export.quantization.feeds import read_feed
from keras_pe.export.quantization.quantizer import Options, Quantizer

_FLOAT = "no_quantize"
_FLOAT_ENDS = [{"regex": ".*", "operation": end, "algorithm_key": _FLOAT} for end in ("INPUT", "OUTPUT")]
"""Inputs and outputs stay float32, so that callers need no change."""
_LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
_LSTM_KERNELS = slice(1, 9)  # among the inputs of the operator


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


def _write_half(source: str, target: str, options: Options, cache: str) -> None:
    _write(source, target, options, cache)
    rules = options["quantization_recipe"]
    floats = {rule["regex"] for rule in rules if rule["algorithm_key"] == _FLOAT and rule["operation"] == "*"}
    Path(target).write_bytes(_with_half_lstm(read_whole(Path(target)), floats))


def _with_half_lstm(content: bytes, floats: Collection[str]) -> bytes:
    """Returns a file that stores the kernels of LSTM operators in 16 bits. The interpreter makes floats of them once.

    Args:
        content: The file.
        floats: The patterns of the operators that stay in float.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    known, halves = iter(read_operators(content)), dict[int, int]()
    for graph in model.subgraphs:
        editor, originals = Editor(model, graph), list(graph.operators or ())
        for original, operator in zip(originals, known, strict=False):
            if operator.kind == _LSTM and _pattern(operator.scope) not in floats:
                for number in map(int, original.inputs[_LSTM_KERNELS]):
                    _halve(editor, graph.tensors, number, halves)
        graph.operators = [*editor.operators, *originals]
    used = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    for number in halves.keys() - used:
        model.buffers[number].data = None
    return pack_model(model) if halves else content


def _halve(editor: Editor, tensors: Sequence[Any], number: int, halves: dict[int, int]) -> None:
    """Replaces a constant by the floats of one of 16 bits.

    Args:
        editor: The editor of the subgraph.
        tensors: The tensors of the subgraph.
        number: The number of the constant. A second call changes nothing.
        halves: The buffer of 16 bits of each buffer so far. Several constants may share one buffer.
    """
    values, tensor = editor.values(number), tensors[number]
    if values is None or values.dtype != np.float32:
        return
    if tensor.buffer in halves:
        half = editor.tensor(values.shape, number, "float16")
        tensors[half].buffer = halves[tensor.buffer]
    else:
        half = editor.constant(values.astype(np.float16), number)
        halves[tensor.buffer] = tensors[half].buffer
    editor.add("DEQUANTIZE", [half], [number], "DequantizeOptions")
    tensor.buffer = 0


def _leave_in_float(options: Options, names: Sequence[str]) -> Options:
    rules = [{"regex": _pattern(name), "operation": "*", "algorithm_key": _FLOAT} for name in sorted(names)]
    return {"quantization_recipe": [*options["quantization_recipe"], *rules]}


def _pattern(name: str) -> str:
    return f"^{re.escape(name)}$"


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


def _half_operators() -> Iterable[str]:
    return *_operators("float_casting", _weights(_HALF)), _LSTM


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
    "float16": replace(_recipe(_weights(_HALF), "float_casting"), write=_write_half, operators=_half_operators),
}
