"""A file that was exported with a border is compared through it, and of another file each difference is named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from keras import layers, ops

from keras_pe.export import (
    Border,
    Cause,
    assert_parity,
    check_parity,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_pe.export.parity.bundle import write_bundle
from keras_pe.export.parity.replay import replay_bundle

ONE: Any = {"runtimes": "onnxruntime[all]"}
WHOLE = Border(
    batch=2,
    inputs={"photo": "image"},
    dtypes={"photo": "uint8", "label": "int64"},
    layout={"photo": "channels_first"},
    preprocessing={"photo": lambda x: ops.cast(x, "float32") * 0.5},
    outputs={"label": "probs", "best": "probs", "odds": "probs"},
    postprocessing={"label": "argmax", "best": "top3", "odds": layers.Rescaling(3.0)},
)
BORDERS = {
    "dtypes": Border(dtypes={"image": "uint8"}),
    "layout": Border(layout={"image": "channels_first"}),
    "batch": Border(batch=1),
    "preprocessing": Border(preprocessing={"image": layers.Rescaling(2.0, offset=-1)}),
    "outputs": Border(outputs={"label": "probs"}),
    "postprocessing": Border(postprocessing={"probs": "argmax"}),
    "all": WHOLE,
}


@pytest.fixture(scope="module")
def model() -> Any:
    keras.utils.set_random_seed(0)
    image = keras.Input((None, None, 3), name="image")
    x = layers.Conv2D(4, 3, activation="relu", name="edges")(layers.Rescaling(1 / 255)(image))
    probs = layers.Dense(7, activation="softmax", name="probs")(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, [probs, layers.Dense(2, name="score")(probs)], name="model")


def erase_metadata(path: Path) -> Path:
    """Takes from a file what this package has written into it."""
    file = onnx.load(path)
    del file.metadata_props[:]
    onnx.save(file, path)
    return path


@pytest.mark.slow
def test_a_file_is_compared_through_all_of_its_border_and_its_fault_named_as_the_models(
    model: Any, tmp_path: Path
) -> None:
    artifact = export_onnx(model, tmp_path / "model.onnx", border=WHOLE)
    assert_parity(model, artifact, **ONE)
    assert check_parity(WHOLE.around(model), artifact, **ONE).passed
    edges = model.get_layer("edges")
    edges.bias.assign_add([0.5, 0.5, 0.5, 0.5])
    try:
        report = check_parity(model, artifact, **ONE)
        write_bundle(report, tmp_path / "failure.npz")
    finally:
        edges.bias.assign_sub([0.5, 0.5, 0.5, 0.5])
    assert [finding.layer for finding in report.findings] == ["edges"]
    assert not replay_bundle(tmp_path / "failure.npz").passed


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", BORDERS)
def test_each_option_of_an_export_is_read_back(model: Any, tmp_path: Path, name: str) -> None:
    assert check_parity(model, export_onnx(model, tmp_path / "model.onnx", border=BORDERS[name])).passed


@pytest.mark.slow
@pytest.mark.parametrize(("export", "name"), [(export_saved_model, "model"), (export_litert, "model.tflite")])
def test_other_formats_record_their_border_too(
    model: Any, tmp_path: Path, export: Callable[..., Any], name: str
) -> None:
    assert check_parity(model, export(model, tmp_path / name, border=WHOLE)).passed


@pytest.mark.slow
def test_files_of_several_borders_are_each_compared_through_their_own(model: Any, tmp_path: Path) -> None:
    files = [export_onnx(model, tmp_path / "plain.onnx")]
    files += [export_onnx(model, tmp_path / f"{name}.onnx", border=BORDERS[name]) for name in ("layout", "all")]
    report = check_parity(model, files, **ONE)
    assert [result.passed for result in report.results] == [True] * 3
    assert len({case.name for case in report.cases}) == len(report.cases)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("border", "cause"),
    [
        (BORDERS["layout"], Cause.OTHER_IMAGE_LAYOUT),
        (Border(postprocessing={"probs": "argmax"}, outputs=["probs", "score"]), Cause.DECIDED_OUTPUT),
        (Border(outputs=["score"]), Cause.MISSING_OUTPUT),
    ],
)
def test_another_interface_of_a_foreign_file_is_a_cause_that_a_border_accepts(
    model: Any, tmp_path: Path, border: Border, cause: Cause
) -> None:
    export_onnx(model, tmp_path / "model.onnx", border=border)
    path = erase_metadata(tmp_path / "model.onnx")
    report = check_parity(model, path, **ONE)
    assert [finding.cause for finding in report.findings] == [cause]
    assert report.compared > 0
    assert all(case.status == "passed" for case in report.results[0].cases)
    assert check_parity(model, path, border=border, **ONE).passed


@pytest.mark.slow
def test_ids_of_another_width_are_fed_as_the_file_takes_them_and_other_faults_are_still_found(tmp_path: Path) -> None:
    ids = keras.Input((None,), dtype="int32", name="ids")
    model = keras.Model(ids, layers.Dense(3, name="score")(layers.Embedding(30, 4, name="words")(ids)), name="model")
    wide = Border(dtypes={"ids": "int64"})
    export_onnx(model, tmp_path / "model.onnx", border=wide)
    path = erase_metadata(tmp_path / "model.onnx")
    assert [finding.cause for finding in check_parity(model, path, **ONE).findings] == [Cause.OTHER_INPUT_TYPE]
    assert check_parity(model, path, border=wide, **ONE).passed
    model.get_layer("score").bias.assign(np.ones(3))
    found = {finding.cause: finding.layer for finding in check_parity(model, path, **ONE).findings}
    assert found[Cause.OTHER_INPUT_TYPE] is None
    assert "score" in found.values()


@pytest.mark.slow
def test_given_inputs_may_have_the_layout_of_the_model(model: Any, tmp_path: Path) -> None:
    artifact = export_onnx(model, tmp_path / "model.onnx", border=BORDERS["layout"])
    images = np.random.default_rng(0).random((2, 8, 9, 3)).astype("float32")
    for given in (images, images.transpose(0, 3, 1, 2)):
        report = check_parity(model, artifact, inputs={"image": given}, **ONE)
        assert report.passed, str(report)
        assert report.compared == 2 * 9


def test_a_border_without_a_keras_model_is_refused(model: Any, tmp_path: Path) -> None:
    artifact = export_onnx(model, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"`border` must go with a Keras model\. Received: border="):
        check_parity(artifact, artifact, border=Border(batch=1), **ONE)
    with pytest.raises(TypeError, match="border"):
        check_parity(model, artifact, border={"batch": 1}, **ONE)  # type: ignore[arg-type]
