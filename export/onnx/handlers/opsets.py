"""The versions of ONNX's operator sets: the accepted ones, and the first ones with certain operators."""

DEFAULT = 18
EXPORTED = range(15, 26)  # onnx's version converter reaches the versions after `WRITTEN`
WRITTEN = range(15, 19)  # the versions that tf2onnx 1.17 writes

ML_DOMAIN = "ai.onnx.ml"
RUNTIME_DOMAIN = "com.microsoft"  # ONNX Runtime's own operators
OTHER_VERSIONS = {
    ML_DOMAIN: 2,  # the first version whose LabelEncoder maps both texts and numbers to either
    RUNTIME_DOMAIN: 1,
}

# Operators that tf2onnx cannot write have this temporary domain until the model is converted to its final opset.
LATER_DOMAIN = "later"
LAYER_NORMALIZATION_VERSION = 17  # the first version of ONNX's own domain with LayerNormalization
TEXTS_VERSION = 20  # the first version with StringSplit and StringConcat
GELU_VERSION = 20  # the first version with Gelu
ROTARY_VERSION = 23  # the first version with RotaryEmbedding
ROOT_MEAN_SQUARES_VERSION = 23  # the first version with RMSNormalization
SCATTER_VERSION = 24  # the first version with TensorScatter
WITH_ATTENTION = range(23, 25)  # ONNX Runtime 1.32 has no kernel for version 25, and takes twice the time
