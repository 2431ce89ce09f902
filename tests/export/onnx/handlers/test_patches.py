"""Patches of images of any size, as TensorFlow cuts them."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.export.onnx.exported import open_session


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize(
    ("size", "strides", "rates"), [((2, 2), (2, 2), (1, 1)), ((3, 2), (1, 2), (1, 1)), ((2, 3), (3, 1), (2, 2))]
)
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("dims", [(None, None), (8, 8)])
def test_patches_are_cut_as_tensorflow_cuts_them(
    size: Any, strides: Any, rates: Any, padding: str, dims: Any, tmp_path: Path
) -> None:
    def call(images: Any) -> Any:
        return tf.image.extract_patches(images, [1, *size, 1], [1, *strides, 1], [1, *rates, 1], padding)

    run = open_session(call, [keras.InputSpec(shape=(None, *dims, 3), dtype="float32")], tmp_path)
    for batch, height, width in [(2, 8, 8)] if dims[0] else [(2, 8, 8), (3, 7, 12), (1, 5, 6)]:
        images = np.random.default_rng(0).normal(size=(batch, height, width, 3)).astype("float32")
        np.testing.assert_array_equal(run([images])[0], call(images).numpy(), strict=True)
