"""Content of each column of a signal."""

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.signal.layouts import Layout, column_order


@pytest.mark.parametrize("layout", ["concatenated", "interleaved"])
@pytest.mark.parametrize(("channels", "count"), [(1, 0), (1, 1), (2, 1), (5, 2), (5, 3), (8, 4)])
def test_column_order_names_the_columns_of_the_signal(layout: Layout, channels: int, count: int) -> None:
    scales = 3.0 ** np.arange(count)
    held = np.concatenate([np.sin(7 / scales), np.cos(7 / scales), [0.0]])
    signal = timing_signal(7, channels, layout=layout, timescales=scales)
    np.testing.assert_array_equal(held[column_order(count, channels, layout)], signal)
