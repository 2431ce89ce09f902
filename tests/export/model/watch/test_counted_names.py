"""A layer is found in the artifact by its name, and by its place among those of its kind where it was made again."""

import keras
import pytest

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.model.watch.layer_paths import layer_paths, matched_paths


@pytest.mark.parametrize(
    ("paths", "others", "expected"),
    [
        (["dense", "y"], ["dense", "y"], ["dense", "y"]),
        (["dense", "dense_1", "y"], ["dense_1", "dense_2", "y"], ["dense_1", "dense_2", "y"]),
        (["dense_1", "dense_2"], ["dense", "dense_1"], ["dense", "dense_1"]),
        (["dense", "dense_1", "dense_2"], ["dense_1", "dense_2"], [None, "dense_1", "dense_2"]),  # one is not kept
        (["dense", "dense_1", "dense_2"], ["dense_3", "dense_5"], ["dense_3", None, "dense_5"]),
        (["lstm/lstm_cell", "dense#2"], ["lstm_4/lstm_cell", "dense_1#2"], ["lstm_4/lstm_cell", "dense_1#2"]),
        (["block/dense/kernel"], ["block_1/dense_7/kernel", "block_1/dense_7/bias"], ["block_1/dense_7/kernel"]),
        (["dense"], ["conv2d", "dense/kernel"], [None]),
        (["one/kernel", "one/bias"], [""], [None, None]),  # a name without a layer leaves this
        (["/dense", "a\nb_1"], ["/dense_1", "a\nb_2"], ["/dense_1", "a\nb_2"]),  # nothing keeps a name from being so
    ],
)
def test_a_name_is_matched_with_one_that_differs_by_its_number(paths, others, expected):
    found = matched_paths(paths, others)
    assert [found.get(path) for path in paths] == expected


def test_a_layer_with_an_empty_name_has_a_path_of_its_own() -> None:
    """An empty path is that of the model."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name=""), keras.layers.Dense(2, name="y")])
    assert [path for path, _ in layer_paths(model)] == [".empty.", "y"]


def _model() -> keras.Model:
    values = keras.Input((6,), name="values")
    hidden = values
    for _ in range(3):
        hidden = keras.layers.Dense(6, activation="tanh")(hidden)
    return keras.Model(values, keras.layers.Dense(2, name="y")(hidden))


@pytest.mark.slow
@pytest.mark.parametrize("made_before", [1, 2, 9])  # in a process that has made dense layers before: shared names, none
def test_the_layer_at_fault_bears_the_models_name_whatever_the_file_calls_it(made_before, tmp_path):
    keras.backend.clear_session()
    model = _model()
    keras.backend.clear_session()
    for _ in range(made_before):
        keras.layers.Dense(2)
    twin = _model()
    weights = model.get_weights()
    weights[2] = weights[2] * 1.05
    twin.set_weights(weights)
    report = check_parity(model, export_onnx(twin, tmp_path / "twin.onnx"), runtimes=["onnxruntime[all]"])
    found = [(finding.cause, finding.layer) for finding in report.results[0].findings]
    assert found == [("scaled values", model.layers[2].name)]
