"""The survey's rows of `keras.ops`: many numbers to few."""

import numpy as np
from keras import ops

from tests.export.onnx.survey.case import op
from tests.export.onnx.survey.values import COUNTS, IMAGES, REAL, TRUTHS, VECTOR, WILD, normal

REDUCTIONS = {
    **{
        f"{n} all": op(getattr(ops, n), REAL)
        for n in [
            "amax",
            "amin",
            "max",
            "min",
            "mean",
            "prod",
            "std",
            "sum",
            "var",
            "ptp",
            "median",
            "logsumexp",
            "average",
            "count_nonzero",
        ]
    },
    **{
        n: op(getattr(ops, n), REAL, axis=1)
        for n in [
            "amax",
            "amin",
            "max",
            "min",
            "mean",
            "prod",
            "std",
            "sum",
            "var",
            "ptp",
            "logsumexp",
            "average",
            "count_nonzero",
            "argmax",
            "argmin",
            "median",
            "cumsum",
            "cumprod",
        ]
    },
    "ptp": op(ops.ptp, REAL, axis=-1),
    **{
        f"{n} int": op(getattr(ops, n), COUNTS, axis=-1)
        for n in [
            "max",
            "min",
            "sum",
            "prod",
            "mean",
            "argmax",
            "argmin",
            "cumsum",
            "cumprod",
            "count_nonzero",
            "std",
            "median",
        ]
    },
    **{f"{n} bool": op(getattr(ops, n), TRUTHS, axis=-1) for n in ["max", "min", "sum", "mean", "argmax"]},
    **{f"{n} keepdims": op(getattr(ops, n), REAL, axis=(0, 2), keepdims=True) for n in ["max", "sum", "mean", "var"]},
    **{f"{n} flat": op(getattr(ops, n), REAL) for n in ["argmax", "argmin", "cumsum", "cumprod"]},
    "argmax nan": op(ops.argmax, WILD, axis=-1),
    "argmin nan": op(ops.argmin, WILD, axis=-1),
    "argmax keepdims": op(ops.argmax, REAL, axis=-1, keepdims=True),
    "argmax zeros": op(ops.argmax, np.array([[0.0, -0.0, -0.0], [-0.0, 0.0, 0.0]], "float32"), axis=-1),
    "argmin zeros": op(ops.argmin, np.array([[0.0, -0.0, -0.0], [-0.0, 0.0, 0.0]], "float32"), axis=-1),
    "all": op(ops.all, TRUTHS, axis=1),
    "any": op(ops.any, TRUTHS, axis=1),
    "all whole": op(ops.all, TRUTHS),
    "any whole": op(ops.any, TRUTHS),
    **{
        n: op(getattr(ops, n), np.where(REAL > 2, np.nan, REAL).astype("float32"), axis=-1)
        for n in [
            "nanargmax",
            "nanargmin",
            "nancumprod",
            "nancumsum",
            "nanmax",
            "nanmean",
            "nanmedian",
            "nanmin",
            "nanprod",
            "nanstd",
            "nansum",
            "nanvar",
        ]
    },
    **{
        n: op(getattr(ops, n), np.where(REAL > 2, np.nan, REAL).astype("float32"), q=q, axis=-1)
        for n, q in (("nanpercentile", 30.0), ("nanquantile", 0.3))
    },
    "percentile": op(ops.percentile, REAL, q=30.0, axis=-1),
    "quantile": op(ops.quantile, REAL, q=0.3, axis=-1),
    "moments": op(ops.moments, REAL, axes=[0, 2]),
    "norm": op(ops.norm, REAL, axis=-1),
    "norm inf": op(ops.norm, REAL, axis=-1, ord=np.inf),
    "norm fro": op(ops.norm, REAL, axis=(1, 2)),
    "norm nuc": op(ops.norm, REAL, axis=(1, 2), ord="nuc"),
    "bincount": op(ops.bincount, COUNTS[0], minlength=6),
    "bincount batch": op(ops.bincount, COUNTS, minlength=6),
    "histogram": op(ops.histogram, VECTOR, bins=5, static=True),
    "unique": op(ops.unique, COUNTS[0]),
    "unique size": op(ops.unique, COUNTS, size=4, fill_value=-1),
    "diff": op(ops.diff, REAL),
    "trapezoid": op(ops.trapezoid, REAL),
    "corrcoef": op(ops.corrcoef, normal(4, 6), static=True),
    "cumsum dim0": op(ops.cumsum, REAL, axis=0),
    "trace": op(ops.trace, REAL, axis1=1, axis2=2),
    "trace dynamic": op(ops.trace, normal(4, 4)),
    "segment_sum": op(
        lambda x, i: ops.segment_sum(x, i, num_segments=4), normal(6, 2), np.array([0, 0, 1, 3, 3, 2], "int32")
    ),
    "segment_max": op(
        lambda x, i: ops.segment_max(x, i, num_segments=4), normal(6, 2), np.array([0, 0, 1, 3, 3, 2], "int32")
    ),
    "segment_min": op(
        lambda x, i: ops.segment_min(x, i, num_segments=5), normal(6, 2), np.array([0, 0, 1, 3, 3, 2], "int32")
    ),
    "segment_prod": op(
        lambda x, i: ops.segment_prod(x, i, num_segments=4), normal(6, 2), np.array([0, 0, 1, 3, 3, 2], "int32")
    ),
    "psnr": op(ops.psnr, IMAGES, IMAGES[::-1].copy(), max_val=1.0),
}
