"""Slices that end at place 0, such as `x[..., :0]`, in the form that LiteRT knows: it takes that end for the last."""

import contextlib
from collections.abc import Callable
from typing import Any

from keras_pe.export.graph.tensorflow_internals import replaced_slices


def slices_of_nothing() -> contextlib.AbstractContextManager[None]:
    """Lets them be traced so, in this thread: nothing is left between 1 and 1 either."""
    return replaced_slices(_slice)


def _slice(
    usual: Callable[..., Any],
    tensor: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    **options: Any,
) -> Any:
    import numpy as np
    import tensorflow as tf

    starts, ends, steps = map(tf.get_static_value, (begin, end, strides))
    if starts is not None and ends is not None and steps is not None:
        has_no_end = end_mask | ellipsis_mask | new_axis_mask | shrink_axis_mask
        axes = [axis for axis, last in enumerate(ends) if last == 0 < steps[axis] and not has_no_end >> axis & 1]
        if axes:
            begin, end = (np.where(np.isin(range(len(ends)), axes), 1, places) for places in (starts, ends))
            begin, end = (places.astype(ends.dtype) for places in (begin, end))
            begin_mask &= ~sum(1 << axis for axis in axes)
    masks = {"ellipsis_mask": ellipsis_mask, "new_axis_mask": new_axis_mask, "shrink_axis_mask": shrink_axis_mask}
    return usual(tensor, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask, **masks, **options)
