"""Einsum as one MatMul: right for every kind of equation, and without operators that compute shapes."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import onnxruntime as ort
import pytest

from keras_pe.export import export_onnx

SIZES = {"a": 3, "b": 5, "c": 2, "d": 4, "e": 6, "A": 7}


class Einsum(keras.layers.Layer):
    """`keras.ops.einsum` as a layer."""

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation

    def call(self, inputs: Any) -> Any:
        return keras.ops.einsum(self.equation, *inputs)


def _export(equation: str, static: str, path: Path) -> tuple[Any, Any, list[str]]:
    """Returns what ONNX Runtime and NumPy say, and the operators of the file. Labels in `static` have a known size."""
    terms = equation.split("->")[0].split(",")
    inputs = [
        keras.Input(batch_shape=tuple(SIZES[x] if x in static else None for x in term), name=name)
        for term, name in zip(terms, ("left", "right"), strict=True)
    ]
    artifact = export_onnx(keras.Model(inputs, Einsum(equation)(inputs)), path / "m.onnx")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[SIZES[x] for x in term]).astype("float32") for term in terms]
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    actual = session.run(None, dict(zip(("left", "right"), arrays, strict=True)))[0]
    kinds = [node.op_type for node in onnx.load(artifact.path).graph.node]
    return actual, np.einsum(equation, *(array.astype("float64") for array in arrays)), kinds


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    ("equation", "static"),
    [
        ("abc,cde->abde", "cde"),  # a projection to heads
        ("abcd,cde->abe", "cde"),  # and back
        ("aecd,abcd->acbe", "cd"),  # scores
        ("acbe,aecd->abcd", "cd"),  # their use
        ("abA,Ad->abd", "A"),  # a letter in both cases
        ("abc,abd->acd", "cd"),  # the contracted axis before the kept one
        ("abc,acd->dab", "cd"),  # an output in another order
        ("abcde,aAce->acdbA", "cde"),  # scores of heads in groups
        ("acdbA,aAce->abcde", "cde"),  # their use
        ("abcde,aAce->acdbA", "e"),  # the same of any number of heads
        ("acdbA,aAce->abcde", "ce"),
    ],
)
def test_a_contraction_is_one_matrix_product_and_exact(tmp_path: Path, equation: str, static: str) -> None:
    actual, expected, kinds = _export(equation, static, tmp_path)
    # At most 8 products of values up to 4, rounded to float32 one after the other: 8 x 16 x 6e-8.
    np.testing.assert_allclose(actual, expected, atol=8e-6, rtol=0)
    assert kinds.count("MatMul") == 1
    assert set(kinds) <= {"MatMul", "Reshape", "Transpose", "Shape", "Concat"}  # the latter two read sizes


@pytest.mark.parametrize("equation", ["ab,cd->abcd", "ab,c->abc", "ab,c->cba", "ba,ab->ab", "ab,b->ba"])
def test_products_of_which_nothing_is_summed_are_one_elementwise_product(tmp_path: Path, equation: str) -> None:
    actual, expected, kinds = _export(equation, "ab", tmp_path)
    np.testing.assert_array_max_ulp(actual, expected.astype("float32"), 1)  # one rounding
    assert kinds.count("Mul") == 1
    assert set(kinds) <= {"Mul", "Unsqueeze", "Transpose"}


@pytest.mark.parametrize("equation", ["abcde,ace->abcd", "aAb,abc->aAc"])
def test_other_equations_are_exact_too(tmp_path: Path, equation: str) -> None:
    actual, expected, _ = _export(equation, "bcdeA", tmp_path)
    np.testing.assert_allclose(actual, expected, atol=8e-6, rtol=0)
