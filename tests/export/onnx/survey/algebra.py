"""The survey's rows of `keras.ops`: products, decompositions and transforms."""

import numpy as np
import tensorflow as tf
from keras import ops

from tests.export.onnx.survey.case import each, op
from tests.export.onnx.survey.values import COUNTS, DEFINITE, OTHER, REAL, SIGNAL, SQUARE, VECTOR, normal

PRODUCTS = {
    "cross": op(ops.cross, normal(4, 3), normal(4, 3)),
    "dot": op(ops.dot, normal(4, 3), normal(3, 5), static=True),
    "einsum": op(lambda a, b: ops.einsum("bld,bmd->blm", a, b), REAL, OTHER),
    "einsum ellipsis": op(lambda a, b: ops.einsum("...i,...i->...", a, b), REAL, OTHER),
    "einsum cases": op(lambda a, b: tf.einsum("abA,Ad->abd", a, b), normal(4, 3, 5), normal(5, 2), static=True),
    "inner": op(ops.inner, normal(4, 6), normal(4, 6)),
    "kron": op(ops.kron, normal(2, 3), normal(3, 2), static=True),
    "matmul": op(ops.matmul, REAL, normal(4, 6, 2)),
    "matmul int": op(ops.matmul, COUNTS, COUNTS.T.copy(), static=True),
    "outer": op(ops.outer, normal(3), normal(4)),
    "tensordot": op(ops.tensordot, REAL, normal(6, 2), axes=1, static=True),
    "vdot": op(ops.vdot, VECTOR, VECTOR[::-1].copy()),
    "correlate": op(ops.correlate, VECTOR, normal(4), static=True),
    "cdist": op(ops.cdist, normal(4, 3), normal(5, 3)),
    "cholesky": op(lambda x: ops.cholesky(x + 3 * np.eye(3, dtype="float32")), DEFINITE),
    "cholesky_inverse": op(ops.cholesky_inverse, np.linalg.cholesky(DEFINITE)),
    "det": op(ops.det, SQUARE),
    "eig": op(ops.eig, DEFINITE),
    "eigh": op(ops.eigh, DEFINITE),
    "inv": op(lambda x: ops.inv(x + 3 * np.eye(3, dtype="float32")), SQUARE),
    "pinv": op(ops.pinv, SQUARE),
    "logdet": op(ops.logdet, DEFINITE),
    "slogdet": op(ops.slogdet, SQUARE),
    "lstsq": op(ops.lstsq, SQUARE[0], normal(3, 2), static=True),
    "matrix_rank": op(ops.matrix_rank, SQUARE),
    "qr": op(ops.qr, SQUARE),
    "solve": op(lambda x, y: ops.solve(x + 3 * np.eye(3, dtype="float32"), y), SQUARE, normal(4, 3, 2)),
    "solve_triangular": op(ops.solve_triangular, np.tril(SQUARE), normal(4, 3, 2), lower=True),
    "svd": op(ops.svd, SQUARE),
    **each("rfft", SIGNAL),
    "fft": op(lambda x: ops.fft((x, x)), SIGNAL),
    "fft2": op(lambda x: ops.fft2((x, x)), normal(2, 4, 4)),
    "ifft2": op(lambda x: ops.ifft2((x, x)), normal(2, 4, 4)),
    "irfft": op(lambda x: ops.irfft((x, x)), SIGNAL),
    "stft": op(ops.stft, SIGNAL, sequence_length=8, sequence_stride=4, fft_length=8),
    "istft": op(lambda x: ops.istft((x, x), 8, 4, 8), normal(2, 5, 5)),
}
