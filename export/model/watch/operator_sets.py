"""The operators of TensorFlow by what they do with values: move, join, compare, round, or read a table."""

from typing import Any

_MOVES = """
    BroadcastTo EnsureShape ExpandDims Identity MirrorPad Pad PadV2 PreventGradient Reshape ReverseV2 Slice Snapshot
    Squeeze StopGradient StridedSlice Tile Transpose Unpack
"""
_ARITHMETICS = """
    Abs Add AddN AddV2 AvgPool BiasAdd BitwiseAnd BitwiseOr BitwiseXor Cast Ceil ClipByValue Div DivNoNan Exp Expm1
    Floor FloorDiv FloorMod Inv Log Log1p Max Maximum Mean Min Minimum Mod Mul MulNoNan Neg Pow RealDiv Reciprocal Relu
    Relu6 ResizeBicubic ResizeBilinear ResizeNearestNeighbor Rint Round Rsqrt Select SelectV2 Sigmoid Sign Sqrt Square
    SquaredDifference Sub Sum Tanh TruncateDiv TruncateMod
"""
MOVING = frozenset(_MOVES.split())  # return values of their first input
JOINING = frozenset(("ConcatV2", "IdentityN", "Pack"))  # return values of all their inputs, but for the axis
PARTING = {"Split": 1, "SplitV": 0}  # return values of the input with this number
ARITHMETIC = frozenset(_ARITHMETICS.split())
_OF_ONE_INPUT = MOVING | {"Max", "Mean", "Min", "OneHot", "ResizeBicubic", "ResizeBilinear", "Sum"}
COMPARISONS = frozenset(("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "NotEqual"))
READS = frozenset(("GatherV2", "ResourceGather"))
BINS = frozenset(("Bucketize", "LowerBound", "UpperBound"))
STEPS = frozenset(("Ceil", "Floor", "Rint", "Round"))
DIVISIONS = frozenset(("FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"))
AT_ZERO = frozenset(("Abs", "Elu", "LeakyRelu", "Relu", "Relu6", "Selu", "Sign"))
# Operators of integers that neither make a tensor of the size that a value says, nor loop as often as it says.
_HARMLESS = frozenset(("AsString", "LookupTableFindV2", "NoOp", "OnesLike", "Rank", "Shape", "Size", "ZerosLike"))
KNOWN = MOVING | JOINING | PARTING.keys() | ARITHMETIC | COMPARISONS | READS | BINS | AT_ZERO | _HARMLESS
# Operators that return the exact result of short floats, or a long one. Divisors and factors are short then.
EXACT = (
    MOVING
    | JOINING
    | PARTING.keys()
    | {"Abs", "Add", "AddN", "AddV2", "BiasAdd", "Cast", "Ceil", "ClipByValue", "Div", "Floor", "Max", "Maximum", "Min"}
    | {"Minimum", "Mul", "Neg", "RealDiv", "Relu", "Relu6", "Rint", "Round", "Select", "SelectV2", "Sign", "Square"}
    | {"Sub"}
)

PRODUCTS = frozenset(("BatchMatMulV2", "Conv2D", "DepthwiseConv2dNative", "Einsum", "MatMul"))


def values_of(operator: Any) -> list[Any]:
    """Returns the inputs with an operator's values, without the inputs with sizes, axes or positions."""
    given = list(operator.inputs)
    if operator.type in _OF_ONE_INPUT or operator.type == "ResizeNearestNeighbor":
        return given[:1]
    if operator.type == "ConcatV2":
        return given[:-1]
    if operator.type in PARTING:
        return [given[PARTING[operator.type]]]
    return given[1:2] if operator.type in READS else given


def is_widening(operator: Any) -> bool:
    """Whether an operator is a cast that every value survives, or nearly so."""
    if operator.type != "Cast":
        return False
    given, returned = operator.inputs[0].dtype, operator.outputs[0].dtype
    return bool(returned.is_floating or (given.is_integer and returned.is_integer and returned.size >= given.size))


def table_rows(operator: Any) -> int | None:
    """Returns the number of rows of the table that an operator reads; None where it is not known."""
    import tensorflow as tf

    if operator.type != "GatherV2":
        return None
    axis, shape = tf.get_static_value(operator.inputs[2]), operator.inputs[0].shape
    return None if axis is None or shape.rank is None else shape[int(axis)]
