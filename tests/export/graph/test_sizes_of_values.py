"""An output that has as many rows as some values ask for declares neither a constant nor a dimension of the inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import export_onnx, export_saved_model
from tests.export.onnx.exported import chain_layers, run_file

BOXES = keras.Input((None, 4), name="boxes")
ROWS = keras.Input((4,), name="rows")
IDS = keras.Input((4,), dtype="int32", name="ids")
CASES: dict[str, tuple[keras.KerasTensor, Callable[[Any], Any], tuple[int | None, ...]]] = {
    "boxes that overlap little": (BOXES, lambda x: _suppress_boxes(x[0]), (None, 4)),
    "rows that a condition selects": (ROWS, lambda x: tf.boolean_mask(x, x[:, 0] >= 0), (None, 4)),
    "ids that differ": (IDS, lambda x: tf.unique(tf.reshape(x, (-1,)))[0], (None,)),
}


def _suppress_boxes(boxes: Any) -> Any:
    return tf.gather(boxes, tf.image.non_max_suppression(boxes, boxes[:, 0], 5))


def make_selection(case: str) -> keras.Model:
    inputs, function, (_, *sizes) = CASES[case]
    return keras.Model(inputs, keras.layers.Lambda(function, tuple(sizes), name="selected")(inputs))


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("export", [export_onnx, export_saved_model])
def test_the_size_has_a_name_of_its_own(case: str, export: Callable[..., Any], tmp_path: Path) -> None:
    suffix = ".onnx" if export is export_onnx else ""
    (output,) = export(make_selection(case), tmp_path / f"model{suffix}").outputs
    assert output.shape == ("selected_axis_0", *CASES[case][2][1:])


def test_fewer_boxes_come_out_than_were_seen_when_it_was_exported(tmp_path: Path) -> None:
    path = export_onnx(make_selection("boxes that overlap little"), tmp_path / "model.onnx").path
    (found,) = run_file(path, boxes=np.tile(np.float32([0, 0, 1, 1]), (1, 7, 1)))
    assert found.tolist() == [[0, 0, 1, 1]]


def test_a_size_that_follows_from_sizes_stays(tmp_path: Path) -> None:
    def scatter(x: Any) -> Any:
        places = tf.where(x >= 0)
        return tf.scatter_nd(places, tf.gather_nd(x, places), tf.shape(x, out_type="int64"))

    (output,) = export_onnx(chain_layers((4,), keras.layers.Lambda(scatter, (4,))), tmp_path / "model.onnx").outputs
    assert output.shape == ("batch", 4)
