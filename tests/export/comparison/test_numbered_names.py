"""Layers without a name are counted on from one model to the next: their inputs and outputs are found all the same."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import check_dataset, check_parity, export_onnx
from keras_pe.export.model.signature.declared_inputs import input_names


def ids_and_values() -> Any:
    """Returns a model of two inputs without a name."""
    ids, values = keras.Input((None,), dtype="int32"), keras.Input((None, 4))
    return keras.Model([ids, values], keras.layers.Embedding(9, 4)(ids) - values)


@pytest.mark.slow
def test_a_file_of_this_package_is_found_under_other_numbers_with_what_it_tells_of_values(tmp_path: Path) -> None:
    model = ids_and_values()
    ids, values = input_names(model, None)
    rows = {ids: np.array([[1, 2, 8]] * 3, np.int32), values: np.ones((3, 3, 4), np.float32)}
    export_onnx(model, tmp_path / "model.onnx", inputs=rows, ranges={ids: (1, 9)})
    again = ids_and_values()
    again.set_weights(model.get_weights())
    assert rows.keys().isdisjoint(input_names(again, None))
    report = check_parity(again, tmp_path / "model.onnx", runtimes="onnxruntime[all]")
    assert report.passed, str(report)
    assert report.cases[0].name == "example 0"
    (result,) = report.results
    assert not any(each.by_order for each in result.names)
    assert {ids, values} < {each.artifact for each in result.names}
    renamed = dict(zip(input_names(again, None), rows.values(), strict=True))
    counted = check_dataset(again, tmp_path / "model.onnx", renamed, runtimes="onnxruntime[all]", workers=0)
    assert counted.passed, str(counted)
    assert counted.results[0].names == result.names
