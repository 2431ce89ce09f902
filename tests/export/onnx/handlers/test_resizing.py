from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import (
    assert_agrees,
    assert_cases_agree,
    export_and_compare,
    exported_together,
    file_operators,
    onnx_results,
)

# The largest overshoot of the kernels is below 2, an axis takes some tens of products and sums of values below 4.
ATOL = 20 * np.finfo("float32").eps
# ONNX Runtime divides by the ratio where TensorFlow multiplies: a place among 301 pixels, which differ by up to 8, is
# rounded otherwise.
ATOL_OF_RESIZE = 301 * 8 * np.finfo("float32").eps
KINDS = [(kind, False) for kind in ("nearest", "bilinear", "bicubic", "lanczos3")]
ANY_SIZE = (None, None, None, 3)
KINDS += [(kind, True) for kind in ("bilinear", "bicubic", "lanczos5")]


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-4, 4, size=shape).astype("float32")


@pytest.mark.parametrize("opset", [18, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("kinds", "atol"), [(KINDS[:1] + KINDS[2:], ATOL), (KINDS[1:2], ATOL_OF_RESIZE)])
def test_images_of_any_size_are_resized_as_in_keras(kinds: Any, atol: float, opset: int, tmp_path: Path) -> None:
    def resize_images(x: Any) -> Any:
        return [ops.image.resize(x, (13, 20), interpolation=kind, antialias=antialias) for kind, antialias in kinds]

    shapes = (2, 8, 9, 3), (1, 50, 4, 3), (3, 13, 20, 3), (1, 1, 1, 3), (1, 300, 301, 3)
    cases = [[images(*shape)] for shape in shapes]
    assert_cases_agree(resize_images, [ANY_SIZE], cases, tmp_path, atol=atol, opset_version=opset)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nearest", "bicubic", "area", "lanczos3"])
def test_a_function_that_was_traced_before_the_export_is_resized_too(method: str, tmp_path: Path) -> None:
    resize = tf.function(lambda x: tf.image.resize(x, (13, 20), method=method), [tf.TensorSpec(ANY_SIZE)])
    x = images(2, 8, 9, 3)
    resize(x)
    # On each of two axes, a place among 9 pixels is rounded, and pixels differ by up to 8.
    assert_cases_agree(resize, [ANY_SIZE], [[x]], tmp_path, atol=2 * 9 * 8 * np.finfo("float32").eps)


@pytest.mark.slow
def test_a_pixel_that_is_missing_spoils_no_other_than_in_keras(tmp_path: Path) -> None:
    def resize_images(kind: str, antialias: bool) -> Callable[[Any], Any]:
        return lambda x: ops.image.resize(x, (9, 70), interpolation=kind, antialias=antialias)

    x = images(1, 40, 30, 1)
    x[0, 17, 13] = np.nan
    kinds = {str(kind): resize_images(*kind) for kind in KINDS[2:]}  # the first two need not read the pixel at all
    for kind, actual, truth in exported_together(kinds, [x], tmp_path):
        assert 0 < np.isnan(truth).sum() < truth.size / 2
        np.testing.assert_allclose(actual, truth, rtol=0, atol=ATOL, err_msg=kind)


RESIZED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "nearest": (lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=(5, 11)), 0.0),
    # In float32, 11 pixels times the ratio 13 / 11 are less than 13.
    "bilinear": (lambda x: tf.raw_ops.ResizeBilinear(images=x, size=(5, 13)), ATOL_OF_RESIZE),
    "aligned": (lambda x: tf.raw_ops.ResizeBilinear(images=x, size=(5, 11), align_corners=True), ATOL_OF_RESIZE),
    "average of areas": (lambda x: tf.image.resize(x, (4, 5), method="area"), ATOL),
    "average of larger areas": (lambda x: tf.image.resize(x, (12, 7), method="area"), ATOL),
    "black outside": (lambda x: tf.raw_ops.ScaleAndTranslate(
        images=x, size=[9, 12], scale=[0.6, 1.7], translation=[3.2, -6.1], kernel_type="lanczos3"), ATOL),
}  # fmt: skip


def test_kinds_that_only_tensorflow_offers_agree_too(tmp_path: Path) -> None:
    calls = {name: call for name, (call, _) in RESIZED.items()}
    for name, actual, truth in exported_together(calls, [images(2, 8, 11, 3)], tmp_path):
        np.testing.assert_allclose(actual, truth, rtol=0, atol=RESIZED[name][1], strict=True, err_msg=name)


def test_integers_become_floats(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (2, 8, 9, 3), "uint8")
    assert_agrees(lambda x: tf.image.resize(x, (5, 11), method="bicubic"), [x], tmp_path, atol=256 / 4 * ATOL)


@pytest.mark.parametrize(("resized", "reason"), [
    (lambda x: tf.image.resize(x, (5, 5), method="gaussian"), "kernel_type='gaussian'"),
    (lambda x: tf.raw_ops.ResizeBicubic(images=x, size=(5, 5)), "half_pixel_centers"),
    (lambda x: tf.raw_ops.ResizeNearestNeighbor(images=x, size=(5, 5), align_corners=True), "align_corners=True"),
])  # fmt: skip
def test_kernels_that_keras_does_not_offer_are_refused(resized: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=reason):
        onnx_results(resized, [images(1, 4, 4, 3)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nearest", "bilinear"])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 1), (7, 11)])
def test_images_are_enlarged_by_one_operator_at_any_size(sizes: tuple[int, int], kind: str, tmp_path: Path) -> None:
    last, first = (
        keras.layers.UpSampling2D(sizes, data_format=f"channels_{place}", interpolation=kind)
        for place in ("last", "first")
    )
    x = keras.Input((None, None, 3), name="x")
    cases = [images(batch, length, length + 1, 3) for batch, length in ((1, 1), (2, 7), (3, 50))]
    model, atol = keras.Model(x, [last(x), first(x)]), 0 if kind == "nearest" else ATOL_OF_RESIZE
    operators = file_operators(export_and_compare(model, tmp_path / "model.onnx", *cases, atol=atol).path)
    assert operators.count("Resize") == 2
    assert set(operators) == {"Resize", "Transpose"}
