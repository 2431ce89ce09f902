"""A convolution of integers is exact in every format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.export import check_parity, export_litert, export_onnx

KERNEL = np.random.default_rng(0).integers(-(2**20), 2**20, (3, 2, 3, 2)).astype("int32")  # float32 rounds such sums


def _outputs(image: Any) -> dict[str, Any]:
    wide = ops.cast(image, "int32")
    return {
        "plain": ops.conv(wide, KERNEL),
        "same": ops.conv(wide, KERNEL, padding="same"),
        "strided": ops.conv(wide, KERNEL, strides=(2, 3), padding="same"),
        "dilated": ops.conv(wide, KERNEL, padding="same", dilation_rate=(1, 2)),
        "line": ops.conv(wide[:, 0], KERNEL[0]),
        "patches": ops.image.extract_patches(wide, (2, 2)),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export", "runtime"), [(export_onnx, "onnxruntime[all]"), (export_litert, "litert")], ids=["onnx", "litert"]
)
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_integer_images_are_convolved_exactly(
    export: Callable[..., Any], runtime: str, dtype: str, tmp_path: Path
) -> None:
    image = keras.Input((None, None, 3), name="image", dtype=dtype)
    model = keras.Model(image, keras.layers.Lambda(_outputs)(image))
    artifact = export(model, tmp_path / "m")
    assert {spec.dtype for spec in artifact.outputs} == {"int32"}
    assert check_parity(model, artifact, runtimes=runtime, ranges={"image": (0, 256)}).passed
