"""The survey's rows of `keras.ops`: images."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import op
from tests.export.onnx.survey.values import IMAGES, normal

im = ops.image

BOX = np.array([[[0.0, 0.0], [0.0, 7.0], [7.0, 0.0], [7.0, 7.0]]] * 2, "float32")

IMAGE = {
    "image." + k: v
    for k, v in {
        "affine_transform": op(im.affine_transform, IMAGES, np.array([[1, 0.1, 0, 0, 1, 0.5, 0, 0]] * 2, "float32")),
        "crop_images": op(im.crop_images, IMAGES, top_cropping=1, left_cropping=2, target_height=4, target_width=5),
        "elastic_transform": op(im.elastic_transform, IMAGES, seed=1),
        "extract_patches": op(im.extract_patches, IMAGES, size=(2, 2)),
        "extract_patches_3d": op(im.extract_patches_3d, normal(1, 4, 4, 4, 2), size=(2, 2, 2)),
        "gaussian_blur": op(im.gaussian_blur, IMAGES),
        "hsv_to_rgb": op(im.hsv_to_rgb, IMAGES),
        "map_coordinates": op(
            lambda x, c: im.map_coordinates(x, c, order=1), normal(6, 6), np.abs(normal(2, 5)), static=True
        ),
        "pad_images": op(im.pad_images, IMAGES, top_padding=1, left_padding=2, bottom_padding=0, right_padding=1),
        "perspective_transform": op(
            lambda x: im.perspective_transform(x, BOX, BOX + np.float32(0.5)), IMAGES, static=True
        ),
        "resize": op(im.resize, IMAGES, size=(5, 11)),
        "rgb_to_grayscale": op(im.rgb_to_grayscale, IMAGES),
        "rgb_to_hsv": op(im.rgb_to_hsv, IMAGES),
        "scale_and_translate": op(
            lambda x: im.scale_and_translate(
                x, (2, 5, 5, 3), np.array([0.6, 0.6], "float32"), np.array([0.1, 0.2], "float32"), (1, 2), "linear"
            ),
            IMAGES,
            static=True,
        ),
        "sobel_edges": op(im.sobel_edges, IMAGES),
        "ssim": op(im.ssim, normal(2, 16, 16, 3), normal(2, 16, 16, 3)),
    }.items()
}
