"""What has no ONNX form, each named with its layer and a way out: operators, and complex numbers that go in or out."""

from collections.abc import Sequence
from typing import Any

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.messages import joined
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.handlers.marked_operators import OF_COMPLEX
from keras_pe.export.onnx.tf2onnx_door import Failure


def refuse_complex_arguments(signature: Signature, model: Any) -> None:
    """Raises UnsupportedError if a model takes or returns complex numbers, which ONNX knows and no runtime takes."""
    for spec in (*signature.inputs, *signature.outputs):
        if spec.dtype.startswith("complex"):
            raise UnsupportedError(
                Format.ONNX, model.name, f"{spec.name!r} is complex, and runtimes take no such tensor. {COMPLEX}"
            )


def unsupported(failures: Sequence[Failure], trace: Trace, model: Any) -> UnsupportedError:
    """Returns the error that names the operators that were not converted, each with its layer and a way out."""
    paths = list(trace.view.operators())
    sentences = []
    places = []
    for failure in failures:
        # The body of a function has names of its own, which stand at the end of the whole path.
        found = ((path, kind) for path, kind in paths if path == failure.node or path.endswith(f"/{failure.node}"))
        path, op_type = next(found, (failure.node, failure.op_type))
        places.append((path, op_type))
        is_complex = failure.op_type.endswith(OF_COMPLEX)
        reason = failure.reason or (" for complex numbers" if is_complex else "")
        sentences.append(f"operator {op_type!r} of {trace.view.place(path)} has no ONNX form{reason}.")
        sentences += filter(None, [workaround(op_type) or (COMPLEX if is_complex else None)])
    path, op_type = places[0]
    return UnsupportedError(Format.ONNX, model.name, joined(sentences), layer=trace.view.layer(path), operator=op_type)


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
