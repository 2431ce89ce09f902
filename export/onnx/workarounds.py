"""What to do instead of the operators that have no ONNX form, for the sentence that refuses them."""

COMPLEX = "Keep real and imaginary parts as two real tensors."
_LENGTH = "Export with opset_version=17 or later, or give the transformed axis a fixed length of at most 1024."
_LINEAR_ALGEBRA = "ONNX has no decompositions: precompute it where it is of weights, or leave it to the caller."
_IMAGE = "Leave this preparation of images to the caller."
_HASH = (
    "ONNX has no such hash: take StringLookup or IntegerLookup with a vocabulary and one index for all unknown words "
    "(num_oov_indices=1), or leave it to the caller."
)
_TEXT = (
    "Export with opset_version=20 or later, which can lower texts, strip their punctuation and split them at white "
    "space. Leave any other preparation of texts to the caller, and let the model take the integers."
)

_BY_OPERATOR = {
    **dict.fromkeys(("FFT", "FFT2D", "IFFT", "IFFT2D", "IRFFT", "RFFT"), _LENGTH),
    **dict.fromkeys(
        (
            "Cholesky",
            "Eig",
            "LogMatrixDeterminant",
            "Lu",
            "MatrixInverse",
            "MatrixSolve",
            "MatrixTriangularSolve",
            "Qr",
        ),
        _LINEAR_ALGEBRA,
    ),
    **dict.fromkeys(("SelfAdjointEigV2", "Svd"), _LINEAR_ALGEBRA),
    **dict.fromkeys(("AdjustContrastv2", "ImageProjectiveTransformV3", "ScaleAndTranslate"), _IMAGE),
    **dict.fromkeys(
        (
            "LookupTableFindV2",
            "RaggedBincount",
            "RaggedTensorToTensor",
            "StaticRegexReplace",
            "StringLower",
            "StringNGrams",
            "StringSplitV2",
            "UnicodeDecode",
            "UnicodeEncode",
        ),
        _TEXT,
    ),
    **dict.fromkeys(("SparseCross", "SparseCrossHashed", "StringToHashBucketFast", "StringToHashBucketStrong"), _HASH),
    "Bitcast": "Only the sign bit can be had, with keras.ops.signbit.",
    "BitwiseAnd": "Export with opset_version=18 or later.",
    "CTCGreedyDecoder": "Return the scores and decode outside the model.",
    "Erfinv": "Keep to functions with an elementary form.",
    "UnsortedSegmentMax": "Export with opset_version=18 or later.",
    "UnsortedSegmentMin": "Export with opset_version=18 or later.",
}


def workaround(operator: str) -> str | None:
    """Returns a sentence on what to do instead of a TensorFlow operator, None where none is known."""
    return _BY_OPERATOR.get(operator)
