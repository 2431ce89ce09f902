"""An artifact may take and return something else than its model, which stays as it is."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
from keras import layers, ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.export import Border, export_litert, export_onnx, export_saved_model

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 9, 7, 3), "uint8")
BORDER = Border(
    dtypes={"image": "uint8"},
    layout={"image": "channels_first", "maps": "channels_first"},
    preprocessing={"image": layers.Rescaling(1 / 255)},
    outputs={"maps": "features", "label": "scores", "best": "scores", "probabilities": "scores"},
    postprocessing={"label": "argmax", "best": "top3", "probabilities": "softmax"},
)


@pytest.fixture(scope="module")
def model() -> Any:
    keras.utils.set_random_seed(0)
    image = keras.Input((None, None, 3), name="image")
    features = layers.Conv2D(4, 3, name="features")(image)
    return keras.Model(image, [features, layers.Dense(7, name="scores")(layers.GlobalMaxPooling2D()(features))])


def truth(model: Any) -> dict[str, np.ndarray]:
    features, scores = map(np.asarray, model(IMAGES.astype("float32") / 255))
    order = np.argsort(-scores)
    return {
        "maps": features.transpose(0, 3, 1, 2),
        "label": order[:, 0],
        "best": order[:, :3],
        "best_values": np.take_along_axis(scores, order[:, :3], 1),
        "probabilities": np.asarray(ops.softmax(scores)),
    }


def assert_is_the_truth(actual: dict[str, Any], model: Any) -> None:
    expected = truth(model)
    assert set(actual) == set(expected)
    for name, value in expected.items():
        # Sums of 27 products below 1, each rounded to 2**-24.
        np.testing.assert_allclose(np.asarray(actual[name]), value, rtol=0, atol=2e-6, err_msg=name)


def test_the_model_around_takes_and_returns_what_the_artifact_does(model: Any) -> None:
    outer = BORDER.around(model)
    assert_is_the_truth(outer({"image": IMAGES.transpose(0, 3, 1, 2)}), model)
    assert outer.inputs[0].shape == (None, 3, None, None)


@pytest.mark.slow
def test_a_file_has_another_layout_and_type_and_decides(model: Any, tmp_path: Path) -> None:
    artifact = export_onnx(model, tmp_path / "model.onnx", border=BORDER)
    assert [(spec.shape, spec.dtype) for spec in artifact.inputs] == [(("batch", 3, "height", "width"), "uint8")]
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    names = [spec.name for spec in artifact.outputs]
    results = session.run(names, {"image": IMAGES.transpose(0, 3, 1, 2)})
    assert_is_the_truth(dict(zip(names, results, strict=True)), model)


@pytest.mark.slow
@pytest.mark.parametrize(("export", "name"), [(export_saved_model, "model"), (export_litert, "model.tflite")])
def test_every_format_has_the_border(export: Any, name: str, model: Any, tmp_path: Path) -> None:
    artifact = export(model, tmp_path / name, border=BORDER)
    assert artifact.inputs[0].dtype == "uint8"
    assert {spec.name for spec in artifact.outputs} == set(truth(model))


def test_a_batch_is_fixed_and_a_channel_brought_to_the_end() -> None:
    x = keras.Input((3, None), name="x")
    inner = keras.Model(x, layers.Permute((2, 1), name="y")(x))
    outer = Border(batch=2, layout={"x": "channels_last", "y": "channels_first"}).around(inner)
    assert outer.inputs[0].shape == (2, None, 3)
    values = np.arange(24, dtype="float32").reshape(2, 4, 3)
    np.testing.assert_array_equal(outer({"x": values})["y"], values.transpose(0, 2, 1))


class Sum(keras.Model):
    def call(self, first: Any, second: Any) -> Any:
        return first + ops.cast(second, "float32")


def test_a_subclassed_model_has_one_too() -> None:
    inner = Sum()
    inner(np.ones((2, 3)), np.ones((2, 3), "int32"))
    signature = [keras.InputSpec(shape=(None, 3), dtype="float32"), keras.InputSpec(shape=(None, 3), dtype="int32")]
    outer = Border(dtypes={"second": "uint8"}, postprocessing={"output": lambda y: y * 2}).around(inner, signature)
    given = {"first": np.ones((1, 3), "float32"), "second": np.full((1, 3), 255, "uint8")}
    np.testing.assert_array_equal(outer(given)["output"], np.full((1, 3), 512.0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layout": {"image": "nchw"}}, "one of channels_first, channels_last. Received: 'image': 'nchw'"),
        ({"postprocessing": {"scores": "top"}}, "a count such as top5, or a layer. Received: 'scores': 'top'"),
        ({"batch": 0}, "`batch` must be a whole number from 1. Received: batch=0"),
        ({"batch": 1.5}, "`batch` must be a whole number from 1. Received: batch=1.5"),
    ],
)
def test_unknown_names_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Border(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtypes": "uint8"}, "`dtypes` must be a mapping from names. Received: dtypes='uint8'"),
        ({"layout": ["channels_first"]}, "`layout` must be a mapping from names. Received: layout="),
        ({"preprocessing": {"image": "argmax"}}, "`preprocessing` must be layers or functions. Received: 'image': 'ar"),
        ({"postprocessing": {"scores": 5}}, "`postprocessing` must be layers or functions. Received: 'scores': 5"),
        (
            {"outputs": "scores"},
            "`outputs` must be names, or new names and the model's own. Received: outputs='scores'",
        ),
        ({"outputs": [0]}, "`outputs` must be names"),
    ],
)
def test_an_argument_of_another_type_is_refused_at_construction(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Border(**fields)


def test_a_border_is_a_border(model: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"`border` must be of type Border\. Received: border='channels_first'"):
        export_onnx(model, tmp_path / "model.onnx", border="channels_first")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtypes": {"picture": "uint8"}}, "`dtypes` must be of image, features, scores. Received: picture"),
        ({"outputs": ["score"]}, "`outputs` must be of features, scores. Received: score"),
        ({"postprocessing": {"label": "argmax"}}, "`postprocessing` must be of features, scores. Received: label"),
        ({"layout": {"map": "channels_first"}}, "`layout` must be of image, features, scores. Received: map"),
        ({"dtypes": {"image": "uint9"}}, "`dtypes` must be types of Keras, such as uint8. Received: 'image': 'uint9'"),
        ({"postprocessing": {"scores": "top99"}}, "among the values of a row. Received: 'scores': 'top99', of "),
    ],
)
def test_names_that_the_model_lacks_are_refused(fields: dict[str, Any], message: str, model: Any) -> None:
    with pytest.raises(ValueError, match=message):
        Border(**fields).around(model)


@pytest.mark.parametrize(
    ("field", "name", "step"),
    [
        ("preprocessing", "image", keras.Sequential([keras.Input((None, None, 5)), layers.Dense(3)])),
        ("preprocessing", "image", lambda x: [x, x]),
        ("preprocessing", "image", lambda x: ops.mean(x, axis=-1, keepdims=True)),
        ("postprocessing", "scores", keras.Sequential([keras.Input((5,)), layers.Dense(3)])),
        ("postprocessing", "scores", lambda y: [y, y]),
    ],
    ids=["input", "list", "shape", "output", "list of outputs"],
)
def test_a_step_that_does_not_fit_the_model_is_refused(field: str, name: str, step: Any, model: Any) -> None:
    with pytest.raises(ArgValueError, match=f"must take '{name}', .* Received: .* export one") as raised:
        Border(**{field: {name: step}}).around(model)
    assert raised.value.argument == field
