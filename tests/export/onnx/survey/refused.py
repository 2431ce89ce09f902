"""The survey's rows that have no sound form, and what the refusal says."""

_TRACE = "Keras cannot trace it"
_DECOMPOSITION = "ONNX has no decompositions"
_IMAGE = "Prepare the images outside"
_RANDOM = "draws random numbers"

REFUSED = {
    # Keras' own code asks a traced tensor for its value or its size.
    **dict.fromkeys(("isin", "isin float", "corrcoef", "kron", "bartlett"), _TRACE),
    **dict.fromkeys(("nanmedian", "nanpercentile", "nanquantile"), _TRACE),
    **dict.fromkeys(("cholesky", "cholesky_inverse", "eigh", "inv", "pinv", "logdet", "slogdet"), _DECOMPOSITION),
    **dict.fromkeys(("lstsq", "matrix_rank", "qr", "solve", "solve_triangular"), _DECOMPOSITION),
    **dict.fromkeys(("svd", "norm nuc"), _DECOMPOSITION),
    **dict.fromkeys(("eig", "polar", "view_as_complex"), "is complex, and runtimes take no such tensor"),
    **dict.fromkeys(("image.affine_transform", "image.perspective_transform"), _IMAGE),
    "image.elastic_transform": _RANDOM,
    "nextafter": "'NextAfter'",
    "view": "sign bit",
    "trace dynamic": "no kernel of operator 'EyeLike'",
    "ctc_decode": "decode outside the model",
    "ctc_loss": "'Empty'",
    "jvp": "'BroadcastGradientArgs'",
    "Hashing": "ONNX lacks this hash",
    "HashedCrossing": "'SparseCross'",
    "TextVectorization": "Export with opset_version=20",
}
