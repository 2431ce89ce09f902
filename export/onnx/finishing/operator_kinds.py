"""The kinds of ONNX operators that passes treat alike."""

REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")
ELEMENTWISE = (
    *("Abs", "Cast", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("Identity", "LeakyRelu", "Log", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid"),
    *("Sign", "Sin", "Softplus", "Sqrt", "Tanh"),
)
BROADCASTING = (
    *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul"),
    *("Or", "Pow", "Sub", "Where", "Xor"),
)
ALONG_AXES = (
    *("InstanceNormalization", "LayerNormalization", "LogSoftmax", "RMSNormalization", "RotaryEmbedding", "Softmax"),
)
BY_CHANNEL = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Resize")

ALIKE = (*BROADCASTING, *ELEMENTWISE)
"""Operators that compute each entry of a result from the same entry of each broadcast input."""
