"""Which sine or cosine each column of a signal holds."""

import numpy as np
import numpy.typing as npt

from keras_pe.timescales import Layout, assemble, check_channels, check_layout


def column_order(count: int, channels: int, layout: Layout) -> npt.NDArray[np.intp]:
    """Returns what each column holds, as an index into `[sines..., cosines..., zero]`.

    Args:
        count: Number of timescales: `channels // 2`, or one more where `channels` is odd and its last column cut off.
        channels: Width of the signal.
        layout: "concatenated" or "interleaved".

    Returns:
        `(channels,)`: `i` for the sine of timescale `i`, `count + i` for its cosine, `2 * count` for the zero column.

    >>> column_order(2, 5, "interleaved").tolist()
    [0, 2, 1, 3, 4]
    """
    check_channels(channels)
    check_layout(layout)
    # `assemble` fills with zeros, so the labels count from 1 and the filling becomes the last index.
    labels = np.arange(1, 2 * count + 1)
    order = assemble(labels[:count], labels[count:], channels, layout)
    held: npt.NDArray[np.intp] = np.where(order == 0, 2 * count, order - 1)
    return held
