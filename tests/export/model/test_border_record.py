"""A border comes back from its record as it was, with what its layers and functions do."""

import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import Border
from keras_pe.export.model.border_record import border_depth, border_from_json, border_to_json

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 3, 6, 5), "uint8")


@pytest.fixture(scope="module")
def model() -> Any:
    keras.utils.set_random_seed(0)
    image = keras.Input((None, None, 3), name="image")
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(4, 3, name="features")(image))
    return keras.Model(image, layers.Dense(7, name="scores")(x), name="model")


@pytest.fixture(scope="module")
def border() -> Border:
    scaled = layers.Normalization(axis=-1)
    scaled.adapt(IMAGES.transpose(0, 2, 3, 1).astype("float32"))
    return Border(
        batch=2,
        inputs={"photo": "image"},
        dtypes={"photo": "uint8", "label": "int64"},
        layout={"photo": "channels_first"},
        preprocessing={"photo": scaled},
        outputs={"label": "scores", "best": "scores", "odds": "scores"},
        postprocessing={"label": "argmax", "best": "top3", "odds": lambda y: ops.exp(y) * 2.0 - 1.0},
    )


def record_border(border: Border, model: Any) -> tuple[str, list[str]]:
    return border_to_json(border, *border.traced_around(model))


def test_the_recorded_border_does_what_the_border_does(model: Any, border: Border) -> None:
    text, lost = record_border(border, model)
    assert lost == []
    outer, _ = border_from_json(text).around(model)
    expected = border.around(model)({"photo": IMAGES})
    actual = outer({"photo": IMAGES})
    assert set(actual) == {"label", "best", "best_values", "odds"}
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype
        np.testing.assert_array_equal(actual[name], value, err_msg=name)


def test_the_same_border_has_the_same_record_however_often_it_was_traced(model: Any, border: Border) -> None:
    assert record_border(border, model)[0] == record_border(border, model)[0]


def test_a_border_stands_around_a_model_once(model: Any, border: Border) -> None:
    record = border_from_json(record_border(border, model)[0])
    outer, _ = record.around(model)
    assert (border_depth(model), border_depth(outer)) == (0, 1)
    assert record.around(outer, "the signature of a model within") == (outer, "the signature of a model within")


def test_a_step_that_keras_cannot_save_is_named_and_asked_for(model: Any) -> None:
    class Nameless(layers.Layer):
        def __init__(self, number: Any) -> None:
            super().__init__()
            self.number = number

        def call(self, x: Any) -> Any:
            return x * 2.0

        def get_config(self) -> dict[str, Any]:
            raise NotImplementedError("it has none")

    text, lost = record_border(Border(preprocessing={"image": Nameless(object())}), model)
    assert len(lost) == 1
    assert "preprocessing of 'image' is not recorded" in lost[0]
    with pytest.raises(ValueError, match=r"Pass the check the same `border`"):
        border_from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: [],
        lambda content: {**content, "depth": None},
        lambda content: {**content, "layout": {"image": "nchw"}},
        lambda content: {**content, "surprise": 1},
        lambda content: {**content, "preprocessing": {"image": {"model": "no base64"}}},
        lambda content: {**content, "preprocessing": {"image": {}}},
        lambda content: {**content, "preprocessing": ["image"]},
    ],
)
def test_a_record_that_was_changed_is_refused_in_a_sentence(model: Any, change: Any) -> None:
    text, _ = record_border(Border(dtypes={"image": "uint8"}), model)
    with pytest.raises(ValueError, match="has a border that cannot be read"):
        border_from_json(json.dumps(change(json.loads(text))))


@pytest.mark.parametrize(
    "border",
    [
        Border(postprocessing={"scores": "top2"}, preprocessing={"image": ops.sqrt}),
        Border(inputs={"photo": "image"}, outputs={"best": "scores"}, postprocessing={"best": "argmax"}),
        Border(outputs=["scores", "other"], dtypes={"other_image": "uint8", "other": "float16"}),
    ],
    ids=["own names", "new names", "a list"],
)
def test_a_record_fits_a_model_that_was_built_again_with_other_numbers(border: Border) -> None:
    def build(number: str) -> Any:
        inputs = [keras.Input((4,), name=f"{name}{number}") for name in ("image", "other_image")]
        outputs = [
            layers.Dense(3, name=f"{name}{number}")(x) for name, x in zip(("scores", "other"), inputs, strict=True)
        ]
        return keras.Model(inputs, outputs, name="model")

    first, again = build(""), build("_7")
    again.set_weights(first.get_weights())
    text, _ = border_to_json(border, *border.traced_around(first))
    wrapped, _ = border_from_json(text).around(first)
    names = [[each.name for each in wrapped.inputs], list(wrapped.output)]
    other, _ = border_from_json(text).renumber(again, *names).around(again)
    assert [[each.name for each in other.inputs], list(other.output)] == names
    rows = {each.name: np.ones((2, 4), each.dtype) for each in wrapped.inputs}
    for name, value in wrapped(rows).items():
        np.testing.assert_array_equal(other(rows)[name], value, err_msg=name)
    with pytest.raises(ValueError, match="must be of"):
        border_from_json(text).around(again)
