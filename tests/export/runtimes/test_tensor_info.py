"""Declared inputs of a runtime: every dimension is a size or a name, whatever the runtime calls an open one."""

import numpy as np
import pytest

from keras_pe.export.runtimes import tensor_info


@pytest.mark.parametrize("of_its_own", [None, -1, "", np.int32(-1)])
def test_a_dimension_without_a_size_or_a_name_gets_a_name_of_its_own(of_its_own):
    assert tensor_info("x", ["batch", of_its_own, np.int64(0), 3], "float32").shape == ("batch", "x_1", 0, 3)
    assert type(tensor_info("x", [np.int64(3)], "float32").shape[0]) is int
