"""A refusal has the layer, the operator, and the file and line of the user's code that calls it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import ops

from keras_pe.export import (
    ExportError,
    UnknownSizesError,
    UnsupportedError,
    check_parity,
    export_litert,
    export_onnx,
)


class Decode(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return self.ratios(ops.square(x))

    def ratios(self, x: Any) -> Any:
        return ops.sum(
            ops.svd(x)[1],  # refused
            axis=-1,
        )


class Looped(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        def step(index: Any, x: Any) -> Any:
            return index + 1, x * ops.max(ops.svd(x)[1])

        return ops.while_loop(lambda index, _: index < 3, step, (0, x))[1]  # refused


class Noisy(keras.layers.Layer):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generator = keras.random.SeedGenerator(0)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(ops.shape(x), seed=self.generator)  # refused


class Undecided(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        count = ops.max(x)
        return x * int(count)  # refused

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape)


def marked_line(layer: type) -> int:
    lines = Path(__file__).read_text().splitlines()
    start = lines.index(f"class {layer.__name__}(keras.layers.Layer):")
    return next(number for number, line in enumerate(lines, 1) if number > start and line.endswith("# refused"))


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(("export", "name"), [(export_onnx, "m.onnx"), (export_litert, "m.tflite")])
@pytest.mark.parametrize("layer", [Decode, Looped, Noisy, Undecided])
def test_a_refusal_names_the_line_of_the_users_code(
    layer: type, export: Callable[..., Any], name: str, tmp_path: Path
) -> None:
    model = keras.Sequential([keras.Input((4, 4)), keras.layers.Dense(4), layer(name="own")])
    with pytest.raises((ExportError, UnknownSizesError)) as raised:
        export(model, tmp_path / name)
    assert (raised.value.file, raised.value.line) == (__file__, marked_line(layer))
    if isinstance(raised.value, UnsupportedError):
        operator = "StatelessRandomNormalV2" if layer is Noisy else "Svd"
        assert (raised.value.layer, raised.value.operator) == ("own", operator)


def test_a_refusal_of_an_operator_outside_of_user_code_has_no_line(tmp_path: Path) -> None:
    inputs = keras.Input((4, 4))
    with pytest.raises(ExportError) as raised:
        export_onnx(keras.Model(inputs, ops.svd(inputs)[1]), tmp_path / "m.onnx")
    assert (raised.value.file, raised.value.line, raised.value.operator) == (None, None, "Svd")


def test_a_refusal_of_integers_that_keras_does_not_convolve_has_the_cast_that_it_takes(tmp_path: Path) -> None:
    image, convolve = keras.Input((8, 8, 3), dtype="uint8", name="image"), keras.layers.Conv2D(4, 3)
    cast = "keras.layers.Rescaling(1.0)"
    with pytest.raises(UnknownSizesError, match=rf"put {re.escape(cast)} behind 'image'\.$"):
        export_onnx(keras.Model(image, convolve(image)), tmp_path / "m.onnx")
    mended = keras.Model(image, convolve(eval(cast)(image)))
    assert check_parity(mended, export_onnx(mended, tmp_path / "m.onnx"), runtimes="onnxruntime").passed
