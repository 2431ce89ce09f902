"""Named arrays that are read when they are asked for."""

import numpy as np
import pytest

from keras_pe.export.runtimes.lazy_arrays import LazyArrays


def test_nothing_is_read_before_it_is_asked_for_and_nothing_is_kept():
    read = []
    arrays = LazyArrays(["a", "b", "a"], lambda name: read.append(name) or np.full(2, len(name)))
    assert list(arrays) == ["a", "b"]
    assert len(arrays) == 2
    assert "b" in arrays
    assert "c" not in arrays
    assert read == []
    np.testing.assert_array_equal(arrays["b"], [1, 1])
    assert arrays["b"] is not arrays["b"]
    assert read == ["b", "b", "b"]
    with pytest.raises(KeyError):
        arrays["c"]
