"""The survey's rows of `keras.ops`: many numbers to few."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import each, op
from tests.export.onnx.survey.values import COUNTS, IMAGES, REAL, TRUTHS, VECTOR, WILD, normal

ZEROS = np.array([[0.0, -0.0, -0.0], [-0.0, 0.0, 0.0]], "float32")
GAPS = np.where(REAL > 2, np.nan, REAL).astype("float32")
SEGMENTS = np.array([0, 0, 1, 3, 3, 2], "int32")
REDUCTIONS = {
    **each("amax amin max min mean prod std sum var ptp median logsumexp average count_nonzero", REAL, suffix="all"),
    **each("amax amin max min mean prod std sum var logsumexp average count_nonzero", REAL, axis=1),
    **each("argmax argmin median cumsum cumprod", REAL, axis=1),
    **each("ptp", REAL, axis=-1),
    **each("max min sum prod mean argmax argmin cumsum cumprod", COUNTS, suffix="int", axis=-1),
    **each("count_nonzero std median", COUNTS, suffix="int", axis=-1),
    **each("max min sum mean argmax", TRUTHS, suffix="bool", axis=-1),
    **each("max sum mean var", REAL, suffix="keepdims", axis=(0, 2), keepdims=True),
    **each("argmax argmin cumsum cumprod", REAL, suffix="flat"),
    **{f"cumprod {axis} int64": op(ops.cumprod, COUNTS.astype("int64"), axis=axis) for axis in (0, 1, -1)},
    **each("argmax argmin", WILD, suffix="nan", axis=-1),
    "argmax keepdims": op(ops.argmax, REAL, axis=-1, keepdims=True),
    **each("argmax argmin", ZEROS, suffix="zeros", axis=-1),
    **each("all any", TRUTHS, axis=1),
    **each("all any", TRUTHS, suffix="whole"),
    **each("nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin", GAPS, axis=-1),
    **each("nanprod nanstd nansum nanvar", GAPS, axis=-1),
    **each("nanpercentile", GAPS, q=30.0, axis=-1),
    **each("nanquantile", GAPS, q=0.3, axis=-1),
    "percentile": op(ops.percentile, REAL, q=30.0, axis=-1),
    "quantile": op(ops.quantile, REAL, q=0.3, axis=-1),
    "moments": op(ops.moments, REAL, axes=[0, 2]),
    "norm": op(ops.norm, REAL, axis=-1),
    "norm inf": op(ops.norm, REAL, axis=-1, ord=np.inf),
    "norm fro": op(ops.norm, REAL, axis=(1, 2)),
    "norm nuc": op(ops.norm, REAL, axis=(1, 2), ord="nuc"),
    "bincount": op(ops.bincount, COUNTS[0], minlength=6),
    "histogram": op(ops.histogram, VECTOR, bins=5, static=True),
    "unique": op(ops.unique, COUNTS[0]),
    "unique size": op(ops.unique, COUNTS, size=4, fill_value=-1),
    "diff": op(ops.diff, REAL),
    "trapezoid": op(ops.trapezoid, REAL),
    "corrcoef": op(ops.corrcoef, normal(4, 6), static=True),
    "cumsum dim0": op(ops.cumsum, REAL, axis=0),
    "trace": op(ops.trace, REAL, axis1=1, axis2=2),
    "trace dynamic": op(ops.trace, normal(4, 4)),
    **each("segment_sum", normal(6, 2), SEGMENTS, num_segments=4),
    **each("segment_max", normal(6, 2), SEGMENTS, num_segments=4),
    **each("segment_min", normal(6, 2), SEGMENTS, num_segments=5),
    **each("segment_prod", normal(6, 2), SEGMENTS, num_segments=4),
    "psnr": op(ops.psnr, IMAGES, IMAGES[::-1].copy(), max_val=1.0),
}
