"""Values that depend on weights alone are computed at export if an operator has no ONNX form."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export import ExportError
from keras_pe.export.onnx.precomputed_operators import precompute_nodes
from tests.export.onnx.exported import exported_together

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
WEIGHT = np.random.default_rng(1).normal(size=(4, 4)).astype("float32") / 8 + np.eye(4, dtype="float32")
TRIANGLE = np.tril(WEIGHT)


def apply_to_weight(function: Callable[[Any, Any], Any], value: np.ndarray = WEIGHT) -> Callable[[Any], Any]:
    weight = keras.Variable(value)
    return lambda x: function(x, ops.convert_to_tensor(weight))


FUNCTIONS = {
    "inverse": apply_to_weight(lambda x, w: x @ ops.inv(w)),
    "inverse of a product": apply_to_weight(lambda x, w: x @ ops.inv(w @ ops.transpose(w))),
    "decomposition": apply_to_weight(lambda x, w: x @ ops.cholesky(w @ ops.transpose(w))),
    "several results": apply_to_weight(lambda x, w: x @ ops.qr(w)[0] @ ops.qr(w)[1]),
    "one of several results": apply_to_weight(lambda x, w: x + tf.linalg.slogdet(w)[1]),
    "largest singular value": apply_to_weight(lambda x, w: x @ (w / ops.svd(w, compute_uv=False)[0])),
    "orthogonal by an exponential, in a branch": apply_to_weight(lambda x, w: x @ tf.linalg.expm(w - ops.transpose(w))),
    "system": apply_to_weight(lambda x, w: ops.transpose(ops.solve(w, ops.transpose(x)))),
    "transposed system": apply_to_weight(lambda x, w: tf.linalg.solve(w, tf.transpose(x), adjoint=True)),
    "triangular system": apply_to_weight(lambda x, w: ops.solve_triangular(w, ops.transpose(x), lower=True), TRIANGLE),
    "upper triangular system": apply_to_weight(lambda x, w: ops.solve_triangular(w, ops.transpose(x))),
    "system of a decomposition": apply_to_weight(
        lambda x, w: tf.linalg.cholesky_solve(tf.linalg.cholesky(w @ tf.transpose(w)), tf.transpose(x))
    ),
}


def test_linear_algebra_of_weights_arrives(tmp_path: Path) -> None:
    # Matrices of condition below 4 and sums of four terms: some ten roundings to 2**-24 of values up to some five.
    for name, actual, truth in exported_together(FUNCTIONS, [X], tmp_path):
        np.testing.assert_allclose(actual, truth, rtol=0, atol=1e-5, err_msg=name, strict=True)
    (file,) = tmp_path.glob("*.onnx")
    assert {node.domain for node in onnx.load(file).graph.node} == {""}


def test_linear_algebra_of_an_input_is_refused_still(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"operator 'MatrixInverse' .* has no ONNX form"):
        dict(exported_together({"inverse": lambda x: ops.inv(x)}, [WEIGHT[None]], tmp_path))


def test_a_constant_without_an_onnx_form_is_not_computed_again() -> None:
    with tf.Graph().as_default() as graph:
        tf.negative(tf.constant(1.0, name="one"))
    assert precompute_nodes(graph.as_graph_def(), [], ["one"]) is None
