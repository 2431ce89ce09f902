"""Rules of the GPU and NPU of a phone, of browsers and of microcontrollers for LiteRT files, each with its source.

The lists of operators are those of the programs that take a file apart; `DATE` says when they were read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

DATE = "November 2026"
MOST_AXES = 4


@dataclass(frozen=True)
class OperatorList:
    """The operators that one program takes.

    Attributes:
        name: The name of the program, with the verb of a sentence before it, such as "LiteRT's GPU accelerator".
        source: The address of the list.
        operators: The types of the operators.
    """

    name: str
    source: str
    operators: frozenset[str]


@dataclass(frozen=True)
class Target:
    """A kind of device.

    Attributes:
        name: The value of the argument `target`.
        device: The device in words.
        lists: The lists of operators. An operator must be in each of them.
        sources: The address of the source of each other rule, by the name of the rule. A rule without a source is
            unknown, and does not apply.
        outside: Consequence of an operator outside the lists.
        recurrences: The form of recurrent layers, see `litert_forms`.
        has_few_kernels: Whether the kernels of some operators lack int32 or bool, and CONCATENATION joins few tensors.
        avoids_faults: Whether operators that LiteRT's GPU delegate computes wrongly get another form.
    """

    name: str
    device: str
    lists: tuple[OperatorList, ...]
    sources: Mapping[str, str]
    outside: str
    recurrences: str = "unrolled"
    has_few_kernels: bool = False
    avoids_faults: bool = False

    @property
    def operators(self) -> frozenset[str]:
        """The operators in all lists."""
        return frozenset.intersection(*(each.operators for each in self.lists))


RULES: Mapping[str, str] = MappingProxyType(
    {
        "sizes": "Every size is known.",
        "axes": f"A tensor has {MOST_AXES} axes at most.",
        "dtypes": "A computed tensor is float32, int32 or bool, and an operator on int32 is in the list.",
        "indices": "GATHER takes indices of one axis.",
        "slices": "STRIDED_SLICE keeps every axis and steps forwards.",
        "choices": "The choices of SELECT have the shape of the result, or one element.",
        "masks": "A number that masks a softmax is in the range of float16.",
        "kernels": "The kernel of the operator takes the type of its operands.",
        "parts": "CONCATENATION joins ten tensors at most.",
    }
)
"""The rules, by name."""

_INTEGERS = """
ABS ADD ARG_MAX ATAN2 BITCAST BITWISE_XOR CAST CONCATENATION COS DIV DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP EQUAL
FLOOR_DIV FLOOR_MOD GATHER GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR MAXIMUM MINIMUM MUL
NEG NOT_EQUAL ONE_HOT PACK PAD PADV2 REDUCE_MAX REDUCE_MIN REDUCE_PROD RESHAPE REVERSE_V2 RIGHT_SHIFT SELECT SELECT_V2
SIGN SIN SLICE STRIDED_SLICE SUB SUM TILE TOPK_V2 TRANSPOSE
"""
INTEGERS = frozenset(_INTEGERS.split())
"""Operators that take or return int32 on LiteRT's GPU accelerator."""

_BOOL_KERNELS = """
BROADCAST_TO CONCATENATION EQUAL LOGICAL_AND LOGICAL_NOT LOGICAL_OR NOT_EQUAL REDUCE_ALL RESHAPE REVERSE_V2 SHAPE SLICE
SQUEEZE STRIDED_SLICE
"""
_INT32_KERNELS = """
ADD BROADCAST_ARGS BROADCAST_TO CAST CONCATENATION DIV DYNAMIC_UPDATE_SLICE EQUAL EXPAND_DIMS FILL GREATER GREATER_EQUAL
LESS LESS_EQUAL MAXIMUM MINIMUM MUL NOT_EQUAL PACK PAD PADV2 RESHAPE REVERSE_V2 SHAPE SLICE SPLIT SPLIT_V
SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB UNPACK ZEROS_LIKE
"""
_INT64_KERNELS = """
BROADCAST_ARGS BROADCAST_TO CONCATENATION DYNAMIC_UPDATE_SLICE EQUAL FILL GREATER GREATER_EQUAL LESS LESS_EQUAL MAXIMUM
MINIMUM NOT_EQUAL PACK RESHAPE REVERSE_V2 SHAPE SQUEEZE ZEROS_LIKE
"""
KERNELS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "bool": frozenset(_BOOL_KERNELS.split()),
        "int32": frozenset(_INT32_KERNELS.split()),
        "int64": frozenset(_INT64_KERNELS.split()),
    }
)
"""Operators of TFLite Micro that compute or move a type. The other ones compute float32 and quantized numbers alone."""

_GPU = """
ABS ADD ADD_N ARG_MAX ATAN2 AVERAGE_POOL_2D BATCH_MATMUL BITCAST BITWISE_XOR CAST CEIL CONCATENATION CONV_2D COS
CUMSUM DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP FLOOR
FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GELU GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL LOG
LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL ONE_HOT PACK
PAD PADV2 POW PRELU QUANTIZE REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD RELU RELU6 RELU_0_TO_1
RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2 RIGHT_SHIFT ROUND RSQRT SELECT SELECT_V2 SIGN
SIN SLICE SOFTMAX SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CBRT STABLEHLO_CLAMP STABLEHLO_REMAINDER STABLEHLO_SHIFT_LEFT STRIDED_SLICE SUB SUM TANH TILE TOPK_V2
TRANSPOSE TRANSPOSE_CONV UNPACK
"""
_QUALCOMM = """
ABS ADD ARG_MAX ARG_MIN AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_TO CAST CEIL CONCATENATION CONV_2D
CONV_3D COS CUMSUM DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP
FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER GATHER_ND GELU GREATER GREATER_EQUAL HARD_SWISH L2_NORMALIZATION
L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D
MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL ONE_HOT PACK PAD PADV2 POW PRELU QUANTIZE REDUCE_ALL REDUCE_ANY REDUCE_MAX
REDUCE_MIN RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT
SCATTER_ND SELECT SELECT_V2 SIGN SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE
SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TILE TOPK_V2 TRANSPOSE TRANSPOSE_CONV UNPACK
"""
_MEDIATEK = """
ABS ADD AVERAGE_POOL_2D BATCH_MATMUL CAST CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEQUANTIZE DIV FULLY_CONNECTED GELU
GREATER HARD_SWISH L2_NORMALIZATION LEAKY_RELU LESS LOGISTIC MAXIMUM MAX_POOL_2D MEAN MINIMUM MUL PAD PADV2 PRELU
QUANTIZE REDUCE_MAX RELU RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR RSQRT SLICE SOFTMAX SPLIT SQRT
SQUARED_DIFFERENCE STRIDED_SLICE SUB SUM TANH TRANSPOSE TRANSPOSE_CONV
"""
_MICRO = """
ABS ADD ADD_N ARG_MAX ARG_MIN ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_ARGS
BROADCAST_TO CALL_ONCE CAST CEIL CONCATENATION CONV_2D COS CUMSUM DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV
DYNAMIC_UPDATE_SLICE ELU EMBEDDING_LOOKUP EQUAL EXP EXPAND_DIMS FILL FLOOR FLOOR_DIV FLOOR_MOD FULLY_CONNECTED GATHER
GATHER_ND GREATER GREATER_EQUAL HARD_SWISH IF L2_NORMALIZATION L2_POOL_2D LEAKY_RELU LESS LESS_EQUAL LOG LOGICAL_AND
LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD
PADV2 PRELU QUANTIZE READ_VARIABLE REDUCE_ALL REDUCE_MAX REDUCE_MIN RELU RELU6 RESHAPE RESIZE_BILINEAR
RESIZE_NEAREST_NEIGHBOR REVERSE_V2 ROUND RSQRT SELECT_V2 SHAPE SIN SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH
SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE SUB SUM SVDF TANH TRANSPOSE TRANSPOSE_CONV
UNIDIRECTIONAL_SEQUENCE_LSTM UNPACK VAR_HANDLE WHILE ZEROS_LIKE
"""

_LITERT = "https://github.com/google-ai-edge/LiteRT/blob/f67457790c9c2ab67347d6fe53270e8d3df20868"
_DRIFT = f"{_LITERT}/ml_drift_delegate/tflite/model_builder.cc"
_CLASSIC = f"{_LITERT}/tflite/tools/versioning/gpu_compatibility.cc"
_PRECISION = "https://tensorflow.org/lite/performance/gpu"
_OPS = "https://github.com/tensorflow/tflite-micro/blob/90b983c2b3f1480642e040bbd2ddb37b998f3424"


def _list(name: str, source: str, words: str) -> OperatorList:
    return OperatorList(name, source, frozenset(words.split()))


_ON_GPU = (_list("LiteRT's GPU accelerator", _DRIFT, _GPU),)
_RULES_OF_GPU = {
    "axes": _DRIFT,
    "dtypes": _DRIFT,
    "indices": _CLASSIC,
    "slices": _DRIFT,
    "choices": _DRIFT,
    "masks": _PRECISION,
}
TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "gpu": Target(
            "gpu",
            "GPU of a phone",
            _ON_GPU,
            {"sizes": "https://github.com/tensorflow/tensorflow/issues/38036", **_RULES_OF_GPU},
            "falls back to the CPU, or refuses the file if the app allows the GPU alone",
            avoids_faults=True,
        ),
        "npu": Target(
            "npu",
            "NPU of a phone",
            (
                _list(
                    "Qualcomm's compiler", f"{_LITERT}/litert/vendors/qualcomm/compiler/qnn_compose_graph.cc", _QUALCOMM
                ),
                _list(
                    "MediaTek's compiler", f"{_LITERT}/litert/vendors/mediatek/compiler/compiler_plugin.cc", _MEDIATEK
                ),
            ),
            {"sizes": "https://github.com/google-ai-edge/LiteRT/issues/9045"},
            "falls back to the GPU or CPU",
        ),
        "web": Target(
            "web",
            "browser, LiteRT.js on WebGPU",
            _ON_GPU,
            {"sizes": "https://developers.google.com/edge/litert/web/get_started", **_RULES_OF_GPU},
            "falls back to WebAssembly, for the whole file in a browser without JSPI",
            avoids_faults=True,
        ),
        "micro": Target(
            "micro",
            "microcontroller, TFLite Micro",
            (_list("TFLite Micro", f"{_OPS}/python/tflite_micro/python_ops_resolver.cc", _MICRO),),
            {
                "sizes": "https://github.com/tensorflow/tflite-micro/issues/3674",
                "kernels": f"{_OPS}/tensorflow/lite/micro/kernels",
                "parts": f"{_OPS}/tensorflow/lite/micro/kernels/concatenation.cc",
            },
            "does not load",
            recurrences="fused",
            has_few_kernels=True,
        ),
    }
)
"""The targets, by name."""
