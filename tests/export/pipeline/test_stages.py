"""The promises that all exports share, for every format."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import (
    DisagreementError,
    Format,
    UnknownSizesError,
    check_parity,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_pe.export.pipeline import stages
from keras_pe.export.pipeline.target_format import Traced

EXPORTS = {"m.onnx": export_onnx, "m": export_saved_model, "m.tflite": export_litert}


@pytest.mark.slow
def test_each_export_takes_the_path_of_a_file_that_keras_saved(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4,), name="x"), keras.layers.Dense(2, name="y")], name="saved")
    for file in (tmp_path / "model.keras", tmp_path / "model.h5"):
        model.save(file)
    for name, export in EXPORTS.items():
        artifact = export(tmp_path / "model.keras", tmp_path / name)
        assert artifact.metadata["keras_pe.model"] == "saved"
        assert [spec.name for spec in artifact.outputs] == ["y"]
    assert export_onnx(str(tmp_path / "model.h5"), tmp_path / "m.onnx").inputs[0].shape == ("batch", 4)


def test_a_path_that_holds_no_model_is_told_apart_from_one_that_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.keras").write_bytes(b"no model")
    with pytest.raises(FileNotFoundError, match=r"missing\.keras"):
        export_onnx(tmp_path / "missing.keras", tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"broken\.keras could not be loaded"):
        export_onnx(tmp_path / "broken.keras", tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.keras"]


def test_an_old_model_file_is_refused_with_the_new_format_as_the_way_out(tmp_path: Path) -> None:
    x = keras.Input((4,))
    keras.Model(x, keras.layers.Dense(4)(x + x)).save(tmp_path / "model.h5")  # keras 3.15 cannot load this file
    with pytest.raises(ValueError, match=r"Save the model as \.keras"):
        export_onnx(tmp_path / "model.h5", tmp_path / "m.onnx")
    for contents, problem in ((b"", "it is empty"), (b"no model", "it is no HDF5 file")):
        (tmp_path / "model.h5").write_bytes(contents)
        with pytest.raises(ValueError, match=rf"model\.h5 could not be loaded: {problem}") as damaged:
            export_onnx(tmp_path / "model.h5", tmp_path / "m.onnx")
        assert "as .keras" not in str(damaged.value)


def _inverting() -> keras.Model:
    """Takes no zeros: their inverse does not exist."""
    x = keras.Input((3, 3), name="x")
    return keras.Model(x, keras.layers.Lambda(keras.ops.inv, output_shape=(3, 3), name="y")(x))


def _masking() -> keras.Model:
    """Takes sequences with their lengths, of which the longest is all of it, as a packed batch has."""
    x, lengths = keras.Input((None, 2), name="x"), keras.Input((), dtype="int32", name="lengths")

    def mask_steps(inputs: Any) -> Any:
        x, lengths = inputs
        steps = keras.ops.arange(keras.ops.max(lengths))
        return x * keras.ops.cast(steps[None] < lengths[:, None], "float32")[..., None]

    return keras.Model([x, lengths], keras.layers.Lambda(mask_steps, output_shape=(None, 2), name="y")([x, lengths]))


def _gathering() -> keras.Model:
    """Takes nodes and the numbers of two at each edge, between which there is a third."""
    nodes, edges = keras.Input((4,), name="nodes"), keras.Input((2,), dtype="int32", name="edges")

    def gather_nodes(inputs: Any) -> Any:
        nodes, edges = inputs
        tf.debugging.assert_equal(edges[:, 0] + 2, edges[:, 1])
        return tf.gather(nodes, edges[:, 0]) - tf.gather(nodes, edges[:, 1])

    return keras.Model([nodes, edges], keras.layers.Lambda(gather_nodes, output_shape=(4,), name="y")([nodes, edges]))


@pytest.mark.slow
def test_values_that_a_model_takes_are_drawn_where_it_takes_no_zeros(tmp_path: Path) -> None:
    for name, model in {"inverting": _inverting(), "masking": _masking()}.items():
        artifact = export_saved_model(model, tmp_path / name)
        assert artifact.inputs[0].shape[0] == "batch"
        assert not artifact.notes


@pytest.mark.slow
def test_examples_stand_where_no_drawn_values_are_taken_and_a_check_is_told_of_them(tmp_path: Path) -> None:
    model = _gathering()
    with pytest.raises(UnknownSizesError, match="give an example, or several"):
        export_saved_model(model, tmp_path / "m")
    rng = np.random.default_rng(0)
    one, other = (
        {"nodes": rng.normal(size=(n, 4)), "edges": np.stack([np.arange(n - 2), np.arange(2, n)], 1)} for n in (5, 9)
    )
    with pytest.raises(ValueError, match=r"'nodes' is \(None, 4\). Received: \(5,\)"):
        export_saved_model(model, tmp_path / "m", inputs={**one, "nodes": one["nodes"][:, 0]})
    artifact = export_saved_model(model, tmp_path / "m", inputs=[one, other])
    assert [spec.shape for spec in artifact.inputs] == [("batch", 4), ("batch_2", 2)]
    report = check_parity(model, artifact, runtimes="tensorflow")
    assert report.passed, str(report)
    compared = [case.name for case in report.results[0].cases if case.comparisons]
    assert {"example 0", "example 1"} <= set(compared)


def test_ranges_are_kept_in_what_is_drawn_and_told_to_a_check(tmp_path: Path) -> None:
    x = keras.Input((None,), name="x")
    met: list[np.ndarray] = []

    def note_values(x: Any) -> Any:
        if tf.executing_eagerly():
            met.append(x.numpy())
        return keras.ops.cast(keras.ops.cast(x, "uint8"), "float32")  # a negative number gives any result

    model = keras.Model(x, keras.layers.Lambda(note_values, output_shape=(None,), name="y")(x))
    artifact = export_onnx(model, tmp_path / "m.onnx", ranges={"x": (3.0, 256.0)})
    assert met
    assert all((each >= 3).all() and (each < 256).all() for each in met)
    met.clear()
    report = check_parity(model, artifact, runtimes="onnxruntime")
    assert report.passed, str(report)
    assert met
    assert all((each > 2.99).all() and (each < 256).all() for each in met)  # noise is measured next to the least value
    for ranges, said in (
        ({"z": (0, 1)}, "of inputs: x. Received: z"),
        ({"x": (1, 1)}, "must hold a value"),
        ({"x": (0, float("inf"))}, "finite ends"),
    ):
        with pytest.raises(ValueError, match=said):
            export_onnx(model, tmp_path / "m.onnx", ranges=ranges)


@pytest.mark.slow
def test_examples_by_the_models_own_names_are_told_to_a_check_by_those_of_the_artifact(tmp_path: Path) -> None:
    values = keras.Input((2,), name="my values")
    artifact = export_saved_model(
        keras.Model(values, values * 2.0), tmp_path / "model", inputs={"my values": np.ones((3, 2), "float32")}
    )
    assert [spec.name for spec in artifact.inputs] == ["my_values"]
    assert "my_values" in artifact.metadata["keras_pe.values"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": 3}, "`model` must be a keras.Model, or the path of a .keras or .h5 file of one. Received: int."),
        ({"filepath": None}, "`filepath` must be a path. Received: filepath=None"),
        ({"input_signature": "abc"}, "`input_signature` must have a keras.InputSpec(shape=..., dtype=...)"),
        ({"sizes": "abc"}, "`sizes` must be a mapping from names. Received: sizes='abc'"),
        ({"ranges": 3}, "`ranges` must be a mapping from names. Received: ranges=3"),
        ({"ranges": {"x": 3}}, "`ranges` must be pairs of numbers. Received: 'x' with 3"),
        ({"inputs": 3}, "`inputs` must be mappings of names to arrays, or .npz files. Received: 3."),
        ({"inputs": [np.ones((1, 3))]}, "or .npz files. Received: array([[1., 1., 1.]])."),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused_by_its_name(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)])
    with pytest.raises(TypeError, match=re.escape(said)):
        export_onnx(**{"model": model, "filepath": tmp_path / "model.onnx", **wrong})
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_the_search_for_a_cause_is_the_cause_of_the_refusal() -> None:
    refusal = DisagreementError(Format.ONNX, "net", "It differs.")

    def refuse(*arguments: Any) -> Any:
        raise refusal

    def break_down(*arguments: Any) -> Any:
        raise AttributeError("findings")

    traced = Traced(None, None, refuse, refuse)  # type: ignore[arg-type]
    with pytest.raises(DisagreementError) as raised:
        stages._check_and_explain(traced, Path("m.onnx"), None, break_down, None)  # type: ignore[arg-type]
    assert raised.value is refusal
    assert isinstance(raised.value.__cause__, AttributeError)
