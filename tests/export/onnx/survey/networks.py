"""The survey's rows of `keras.ops`: activations, layers and losses."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import each, op
from tests.export.onnx.survey.values import COUNTS, IMAGES, REAL, UNIT, normal

NN = {
    **each("celu elu gelu glu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid", REAL),
    **each("log_softmax relu relu6 selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus", REAL),
    **each("sparse_sigmoid sparsemax squareplus swish tanh_shrink normalize", REAL),
    "gelu exact": op(ops.gelu, REAL, approximate=False),
    "threshold": op(ops.threshold, REAL, threshold=0.5, default_value=-1.0),
    "softmax axes": op(ops.softmax, REAL, axis=(1, 2), static=True),
    "softmax axis": op(ops.softmax, REAL, axis=1),
    "softmax extreme": op(ops.softmax, np.array([[1e4, -1e4, 0], [-1e30, -1e30, -1e30]], "float32")),
    "normalize order": op(ops.normalize, REAL, order=3),
    **each("adaptive_average_pool", normal(2, 7, 3), output_size=3),
    **each("adaptive_max_pool", normal(2, 7, 3), output_size=3),
    "average_pool": op(ops.average_pool, IMAGES, pool_size=2, padding="same", strides=3),
    "max_pool": op(ops.max_pool, IMAGES, pool_size=2),
    "batch_normalization": op(
        lambda x: ops.batch_normalization(x, np.ones(6, "float32"), np.full(6, 2.0, "float32"), axis=-1), REAL
    ),
    **each("layer_normalization rms_normalization", REAL),
    "binary_crossentropy": op(ops.binary_crossentropy, (UNIT > 0).astype("float32"), np.abs(UNIT)),
    "categorical_crossentropy": op(
        ops.categorical_crossentropy, np.eye(6, dtype="float32")[:4], np.abs(normal(4, 6)) + 0.1
    ),
    "sparse_categorical_crossentropy": op(
        ops.sparse_categorical_crossentropy, np.array([1, 5, 2, 0], "int32"), np.abs(normal(4, 6)) + np.float32(0.1)
    ),
    "conv": op(lambda x: ops.conv(x, np.ones((3, 3, 3, 2), "float32")), IMAGES),
    "conv input kernel": op(ops.conv, IMAGES, normal(3, 3, 3, 2), static=True),
    "conv_transpose": op(lambda x: ops.conv_transpose(x, np.ones((3, 3, 2, 3), "float32"), strides=2), IMAGES),
    "depthwise_conv": op(lambda x: ops.depthwise_conv(x, np.ones((3, 3, 3, 2), "float32")), IMAGES),
    "separable_conv": op(
        lambda x: ops.separable_conv(x, np.ones((3, 3, 3, 2), "float32"), np.ones((1, 1, 6, 4), "float32")), IMAGES
    ),
    "ctc_decode": op(lambda x, n: ops.ctc_decode(x, n), normal(2, 5, 4), np.array([5, 3], "int32")),
    "ctc_loss": op(
        lambda t, x, a, b: ops.ctc_loss(t, x, a, b),
        np.array([[1, 2], [2, 3]], "int32"),
        normal(2, 5, 4),
        np.array([2, 2], "int32"),
        np.array([5, 5], "int32"),
    ),
    "dot_product_attention": op(
        ops.dot_product_attention, normal(2, 5, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4), is_causal=True
    ),
    "one_hot": op(ops.one_hot, np.array([[0, 2, -1], [5, 1, 3]], "int32"), num_classes=4),
    "multi_hot": op(ops.multi_hot, COUNTS, num_classes=6),
}
