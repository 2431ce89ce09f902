"""The ONNX operator sets: which an export may ask for, and which it starts from."""

DEFAULT = 18
EXPORTED = range(15, 26)  # onnx's version converter goes on from the last that is written
WRITTEN = range(15, 19)  # by tf2onnx 1.17

ML_DOMAIN = "ai.onnx.ml"
ML_VERSION = 2  # of this domain: the first whose LabelEncoder takes and returns any of texts and numbers

# Operators later than what tf2onnx writes stand in a domain of their own until the opset is the last one's.
LATER_DOMAIN = "later"
LAYER_NORMALIZATION_VERSION = 17  # of ONNX's own domain: the first that has it
TEXTS_VERSION = 20  # the first that splits and joins texts
GELU_VERSION = 20  # the first that has it
ROTARY_VERSION = 23  # the first that rotates pairs of channels
ROOT_MEAN_SQUARES_VERSION = 23  # the first that divides by them in one operator
WITH_ATTENTION = range(23, 25)  # of the one of 25 ONNX Runtime 1.32 has no kernel, and takes twice the time
