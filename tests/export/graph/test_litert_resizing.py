"""Images resized in the forms of LiteRT hold what TensorFlow's do."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.export.graph.traced_forms import assert_traced_agrees, operator_types, trace_forms

METHODS = ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "area")
SIZES = [(5, 6), (16, 24), (1, 9)]
_OWN = ("ResizeArea", "ResizeBicubic", "ScaleAndTranslate")


@pytest.mark.quick_rows(1)
@pytest.mark.slow_rows(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_an_image_is_resized_as_tensorflow_does(method: str, dtype: str) -> None:
    def resize_images(images: Any) -> list[Any]:
        by = [(size, antialias) for size in SIZES for antialias in (False, True)]
        results = [tf.image.resize(images, size, method, antialias=antialias) for size, antialias in by]
        return [*results, tf.image.resize(images, tf.shape(images)[1:3] * 2, method)]

    random = np.random.default_rng(0)
    for shape, sizes in (((None, 9, 12, 3), [(9, 12)]), ((None, None, None, 3), [(9, 12), (6, 31), (2, 2)])):
        traced = trace_forms(resize_images, [tf.TensorSpec(shape, dtype)])
        types = operator_types(traced)
        assert types.isdisjoint(_OWN)
        assert dtype == "float32" or "ResizeNearestNeighbor" not in types
        for height, width in sizes:
            images = random.uniform(-9, 9, (2, height, width, 3)).astype(dtype)
            # A sum of products of up to eleven pixels and a weight, along each of two axes, of values up to 9. The
            # weights of Lanczos are sines over small numbers. The place of a pixel, up to 31, rounds to 2**-20.
            assert_traced_agrees(traced, resize_images, [images], atol=128 * 9 * 2**-24)
