"""Subclassed models that were called or built tell their signature, or an example does."""

from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import model_signature


class Mixing(keras.Model):
    """Applies one layer to whatever it is given, at any depth of structure."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, inputs: Any) -> Any:
        return sum(self.dense(each) for each in keras.tree.flatten(inputs))


class Tokens(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = keras.layers.Embedding(9, 4)

    def call(self, tokens: Any, shift: Any = None) -> Any:
        return self.embedding(tokens) if shift is None else self.embedding(tokens) + shift


class Classifying(keras.Model):
    def __init__(self, pooling: keras.Layer) -> None:
        super().__init__()
        self.convolution, self.pooling = keras.layers.Conv2D(2, 3), pooling
        self.dense = keras.layers.Dense(3)

    def call(self, image: Any) -> Any:
        return self.dense(self.pooling(self.convolution(image)))


class Built(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def build(self, input_shape: Any) -> None:
        self.dense.build(input_shape)
        self.built = True

    def call(self, values: Any) -> Any:
        return self.dense(values)


def _list_specs(model: keras.Model, *arguments: Any) -> list[tuple[str, tuple[int | str, ...], str]]:
    if arguments:
        model(*arguments)
    return [(spec.name, spec.shape, spec.dtype) for spec in model_signature(model).inputs]


@pytest.mark.slow
def test_a_model_that_was_called_takes_any_size_but_that_of_its_features() -> None:
    x, tokens, image = (np.zeros(shape, "float32") for shape in ((2, 5, 4), (2, 5), (1, 28, 28, 1)))
    free = ("batch", "length", 4)
    assert _list_specs(Mixing(), x) == [("inputs", free, "float32")]
    assert _list_specs(Mixing(), {"a": x, "b": x}) == [("a", free, "float32"), ("b", free, "float32")]
    assert _list_specs(Mixing(), [x, x]) == [("inputs_0", free, "float32"), ("inputs_1", free, "float32")]
    assert _list_specs(Tokens(), tokens.astype("int32")) == [("tokens", ("batch", "length"), "int32")]
    sized = Classifying(keras.layers.Flatten())
    assert _list_specs(sized, image) == [("image", ("batch", 28, 28, 1), "float32")]
    unsized = Classifying(keras.layers.GlobalAveragePooling2D())
    assert _list_specs(unsized, image) == [("image", ("batch", "height", "width", 1), "float32")]


def test_numbers_of_as_many_steps_as_others_have_their_length_and_no_features() -> None:
    class Weighted(Mixing):
        def call(self, inputs: Any) -> Any:
            values, weights = inputs
            return self.dense(values) * weights[..., None]

    values, weights = np.zeros((2, 5, 4), "float32"), np.zeros((2, 5), "float32")
    assert [shape for _, shape, _ in _list_specs(Weighted(), (values, weights))] == [
        ("batch", "length", 4),
        ("batch", "length"),
    ]


def test_a_model_that_was_built_needs_no_call() -> None:
    model = Built()
    model.build((None, 4))
    assert _list_specs(model) == [("values", ("batch", 4), "float32")]


def test_an_argument_that_keras_has_not_noted_is_spoken_of_or_given_by_an_example() -> None:
    model, tokens, shift = Tokens(), np.zeros((2, 5), int), np.ones((2, 5, 4))
    model(tokens, shift)
    signature = model_signature(model)
    assert [spec.name for spec in signature.inputs] == ["tokens"]
    assert "shift" in signature.remarks[0]
    signature = model_signature(model, inputs=[{"tokens": tokens, "shift": shift}])
    assert [(spec.name, spec.dtype) for spec in signature.inputs] == [("tokens", "int32"), ("shift", "float32")]
    assert signature.remarks == ()


def test_a_model_of_several_arguments_is_asked_for_them_by_their_names() -> None:
    class Pair(Mixing):
        def call(self, left: Any, right: Any) -> Any:
            return self.dense(left) - self.dense(right)

    model, x = Pair(), np.zeros((2, 4), "float32")
    model(x, x)
    with pytest.raises(ValueError, match=r"left, right.* left had .*\(2, 4\).*inputs=\{'left': \.\.\., 'right'"):
        model_signature(model)


@pytest.mark.slow
def test_a_model_that_does_not_run_without_an_argument_that_is_not_noted_is_told_which_one() -> None:
    class Scaled(Tokens):
        def call(self, tokens: Any, scale: Any = None) -> Any:
            return super().call(tokens) * scale[:, None, None]

    model, tokens, scale = Scaled(), np.zeros((2, 5), "int32"), np.ones(2, "float32")
    model(tokens=tokens, scale=scale)
    with pytest.raises(ValueError, match="scale"):
        model_signature(model)
    named = [spec.name for spec in model_signature(model, inputs=[{"tokens": tokens, "scale": scale}]).inputs]
    assert named == ["tokens", "scale"]


def test_an_example_of_images_of_integers_tells_their_channels() -> None:
    class Pixels(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = keras.layers.Conv2D(2, 3)

        def call(self, x: Any) -> Any:
            return self.convolution(keras.ops.cast(x, "float32") / 255)

    model, images = Pixels(), np.zeros((1, 8, 8, 3), "uint8")
    model(images)
    (spec,) = model_signature(model, inputs=[{"x": images}]).inputs
    assert (spec.shape, spec.dtype) == (("batch", "height", "width", 3), "uint8")
