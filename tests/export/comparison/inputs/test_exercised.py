"""The report of exercised branches counts over all cases."""

import numpy as np

from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.parity.coverage import input_coverage
from keras_pe.export.records import Coverage, TableCoverage, TensorInfo

IDS, X = TensorInfo("ids", ("batch", "length"), "int32"), TensorInfo("x", ("batch", 3), "float32")


def test_sizes_and_rows_are_counted_over_all_cases_and_ids_beyond_the_table_are_none():
    cases = [
        {"ids": np.array([[0, 1, 7]]), "x": np.zeros((1, 3))},
        {"ids": np.array([[1], [-1]]), "x": np.zeros((2, 3))},
        {"ids": np.array([[10]]), "x": np.zeros((1, 3))},
    ]
    found = input_coverage((IDS, X), {"ids": Role("ids", 0, 10), "x": Role("values")}, cases)
    assert found == Coverage({"batch": (1, 2), "length": (1, 3)}, (TableCoverage("ids", 10, 3),))
    assert input_coverage((IDS,), {}, cases).tables == ()
    assert input_coverage((IDS,), {"ids": Role("ids", 0, 10)}, []).tables == (TableCoverage("ids", 10, 0),)
