"""Pools, patches and depthwise convolutions in the forms of LiteRT return what TensorFlow's operators do."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.export.graph.traced_forms import assert_traced_agrees, operator_types, trace_forms


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pools_and_patches_are_those_of_tensorflow(padding: str) -> None:
    def pool_windows(images: Any, volumes: Any) -> list[Any]:
        counts = tf.cast(images * 100, "int32")
        return [
            tf.nn.max_pool2d(counts, (2, 3), (3, 1), padding),
            tf.nn.max_pool2d(tf.cast(counts, "int8"), (2, 3), (3, 1), padding),
            tf.image.extract_patches(images, [1, 3, 2, 1], [1, 2, 1, 1], [1, 2, 1, 1], padding),
            tf.nn.max_pool3d(volumes, (2, 3, 2), (2, 1, 3), padding),
            tf.nn.avg_pool3d(volumes, (2, 3, 2), (2, 1, 3), padding),
        ]

    for size in (6, None):
        specs = [tf.TensorSpec((None, *[size] * rank, 2)) for rank in (2, 3)]
        traced = trace_forms(pool_windows, specs)
        assert operator_types(traced).isdisjoint(("ExtractImagePatches", "MaxPool3D", "AvgPool3D"))
        for length in (6, 6 if size else 9):
            inputs = [np.random.default_rng(0).normal(size=(2, *[length] * n, 2)).astype("float32") for n in (2, 3)]
            # A mean of twelve numbers rounds each sum, whose order is another.
            assert_traced_agrees(traced, pool_windows, inputs, atol=lambda x: 4e-7 if x.ndim == 5 else 0)


@pytest.mark.parametrize(("rank", "padding"), [(1, "same"), (2, "valid"), (3, "same")])
def test_convolutions_with_dilations_are_those_of_kernels_with_zeros(rank: int, padding: str) -> None:
    """The numbers are small integers, so that every sum is exact."""
    sizes, gaps = (3, 2, 4)[:rank], (3, 4, 2)[:rank]
    random = np.random.default_rng(0)
    kernel = random.integers(-4, 5, (*sizes, 2, 2)).astype("float32")
    wide = np.zeros((*((size - 1) * gap + 1 for size, gap in zip(sizes, gaps, strict=True)), 2, 2), "float32")
    wide[tuple(slice(None, None, gap) for gap in gaps)] = kernel

    def convolve(images: Any) -> list[Any]:
        options = {"padding": padding, "data_format": "channels_last", "dilation_rate": gaps}
        return [function(images, kernel, **options) for function in (keras.ops.conv, keras.ops.conv_transpose)]

    traced = trace_forms(convolve, [tf.TensorSpec((None, *[None] * rank, 2))])
    assert operator_types(traced).isdisjoint(("Conv3D", "Conv2DBackpropInput", "Conv3DBackpropInputV2"))
    images = random.integers(-4, 5, (*(2, 9, 8, 7)[: rank + 1], 2)).astype("float32")
    options = {"padding": padding, "data_format": "channels_last"}
    expected = [function(images, wide, **options) for function in (keras.ops.conv, keras.ops.conv_transpose)]
    assert_traced_agrees(traced, expected, [images])


def test_a_convolution_with_gaps_is_one_operator() -> None:
    def convolve_windows(images: Any) -> list[Any]:
        kernel, pointwise = np.ones((3, 2, 4, 2), "float32"), np.ones((1, 1, 8, 5), "float32")
        return [
            tf.nn.depthwise_conv2d(images, kernel, [1, 1, 1, 1], "SAME", dilations=[2, 3]),
            tf.nn.separable_conv2d(images, kernel, pointwise, [1, 1, 1, 1], "VALID", dilations=[2, 3]),
        ]

    spec = tf.TensorSpec((None, None, None, 4))
    traced = trace_forms(convolve_windows, [spec])
    operators = [op for op in traced.graph.get_operations() if op.type == "DepthwiseConv2dNative"]
    assert [list(op.get_attr("dilations")) for op in operators] == [[1, 2, 3, 1]] * 2
    assert "SpaceToBatchND" not in operator_types(traced)
    assert [x.shape.as_list() for x in traced.outputs] == [[None, None, None, 8], [None, None, None, 5]]
