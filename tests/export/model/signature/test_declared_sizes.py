"""A file declares no size that is not so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe import LearnedPositionEmbedding
from keras_pe.export import export_onnx, model_signature
from keras_pe.export.model.signature.signature import confirmed_outputs
from keras_pe.export.records import TensorInfo
from keras_pe.export.runtimes.onnxruntime import OnnxRuntime


def test_a_size_that_did_not_come_back_is_free() -> None:
    x = keras.Input((None, 4), name="x")
    signature = model_signature(keras.Model(x, keras.layers.Dense(3, name="y")(x)))

    def outputs(*shapes: tuple[int, ...]) -> tuple[TensorInfo, ...]:
        runs = [({"x": np.zeros((2, 5, 4))}, {"y": np.zeros(shape)}) for shape in shapes]
        return confirmed_outputs(signature.inputs, signature.outputs, runs)

    assert outputs((2, 5, 3)) == signature.outputs
    assert outputs((2, 5, 3), (2, 6, 3))[0].shape == ("batch", "y_axis_1", 3)
    assert outputs((2, 5, 4))[0].shape == ("batch", "length", "y_axis_2")


def test_an_input_as_long_as_a_table_has_any_length(tmp_path: Path) -> None:
    """As in Whisper, which halves a length of twelve at most and adds a table of six rows."""
    x = keras.Input((None, 4), name="x")
    halved = keras.layers.Conv1D(4, 3, strides=2, padding="same")(x)
    encoded = LearnedPositionEmbedding(6, name="y")(halved)
    artifact = export_onnx(keras.Model(x, encoded), tmp_path / "m.onnx")
    assert artifact.outputs[0].shape == ("batch", "y_axis_1", 4)
    run: Any = OnnxRuntime(str(artifact.path)).run
    assert [run({"x": np.zeros((2, n, 4), "float32")})["y"].shape[1] for n in (1, 4, 11, 12)] == [1, 2, 6, 6]


def _skip_connection(image: Any) -> Any:
    small = keras.layers.MaxPooling2D()(image)
    return keras.layers.Concatenate()([keras.layers.UpSampling2D()(small), image])


@pytest.mark.quick_rows(6)
@pytest.mark.parametrize(
    "given", [((32, 64), (32, 64)), ((32, 64), (64, 32)), ((32, 64, 96), (64, 96)), ((32,), (32,))]
)
@pytest.mark.parametrize(
    ("layer", "names"),
    [
        pytest.param(keras.layers.Conv2D(4, 3, strides=2, padding="same"), ("y_axis_1", "y_axis_2"), id="halved"),
        pytest.param(keras.layers.UpSampling2D(), ("y_axis_1", "y_axis_2"), id="doubled"),
        pytest.param(_skip_connection, ("height", "width"), id="skipped"),
        pytest.param(keras.layers.Permute((2, 1, 3)), ("width", "height"), id="turned"),
        pytest.param(keras.layers.Resizing(8, 8), (8, 8), id="fixed"),
    ],
)
def test_sizes_that_are_given_freeze_no_size_of_an_output(
    given: tuple[tuple[int, ...], tuple[int, ...]],
    layer: Callable[[Any], Any],
    names: tuple[int | str, int | str],
) -> None:
    image = keras.Input((None, None, 3), name="image")
    model = keras.Model(image, {"y": layer(image)})
    signature = model_signature(model, sizes=dict(zip(("height", "width"), given, strict=True)))
    if len(given[0]) > 1 or isinstance(names[0], int):
        assert signature.outputs[0].shape[1:3] == names
    others = signature.other_sizes()
    assert all(others[name] != size for name, size in signature.sizes.items() if len(given[0]) > 1)


@pytest.mark.parametrize("border", [1, 2, 3])
@pytest.mark.parametrize("axis", [1, 2])
def test_a_size_that_is_as_far_from_one_dimension_as_another_is_neither(axis: int, border: int) -> None:
    pads = [(0, 0), (0, 0), (0, 0), (0, 0)]
    pads[axis] = (border, border - 1)
    padded = keras.layers.Lambda(lambda x: keras.ops.pad(x, pads, mode="reflect"), name="y")
    image = keras.Input((None, None, 2), name="x")
    expected: list[int | str] = ["batch", "height", "width", 2]
    expected[axis] = f"y_axis_{axis}"
    assert model_signature(keras.Model(image, padded(image))).outputs[0].shape == tuple(expected)
