"""The survey's rows that have no sound form, and what the refusal says."""

_TRACE = "Keras cannot trace it"
_DECOMPOSITION = "ONNX has no decompositions"
_IMAGE = "Leave this preparation of images"
_TEXT = "Leave the vocabulary"
_RANDOM = "draws random numbers"

REFUSED = {
    # Keras' own code asks a traced tensor for its value or its size.
    **dict.fromkeys(("isin", "isin float", "corrcoef", "kron", "bartlett"), _TRACE),
    **dict.fromkeys(("nanmedian", "nanpercentile", "nanquantile"), _TRACE),
    **dict.fromkeys(
        ("cholesky", "cholesky_inverse", "eig", "eigh", "inv", "pinv", "logdet", "slogdet"), _DECOMPOSITION
    ),
    **dict.fromkeys(("lstsq", "matrix_rank", "qr", "solve", "solve_triangular"), _DECOMPOSITION),
    **dict.fromkeys(("svd", "norm nuc"), _DECOMPOSITION),
    **dict.fromkeys(("polar", "view_as_complex"), "'output' is complex"),
    **dict.fromkeys(("image.affine_transform", "image.hsv_to_rgb", "image.rgb_to_hsv"), _IMAGE),
    **dict.fromkeys(("image.perspective_transform", "image.resize lanczos", "image.resize antialias"), _IMAGE),
    "image.resize bicubic": "ONNX Runtime does not open the file",
    "image.elastic_transform": _RANDOM,
    "i0": "'BesselI0'",
    "erfinv": "'Erfinv'",
    "nextafter": "'NextAfter'",
    "view": "Only the sign bit can be had",
    "trace dynamic": "ONNX Runtime does not open the file",
    "ctc_decode": "decode outside the model",
    "ctc_loss": "'Empty'",
    "switch": "nested keras.ops.cond",
    "scan": "'StatelessWhile'",
    "jvp": "'BroadcastGradientArgs'",
    "Hashing": _TEXT,
    "HashedCrossing": "'SparseCross'",
    **dict.fromkeys(("IntegerLookup", "StringLookup", "TextVectorization"), _TEXT),
    # These draw the numbers in inference as well, and throw them away.
    **dict.fromkeys(("RandomGrayscale", "RandomColorDegeneration", "RandomHue", "RandomSaturation"), _RANDOM),
    **dict.fromkeys(("RandomSharpness", "RandomPosterization", "MixUp"), _RANDOM),
    "RandomCrop": "the graph is not valid ONNX",  # a branch for each size, of shapes that differ
}
