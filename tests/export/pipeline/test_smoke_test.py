"""The comparison before publication refuses wrong artifacts, and ignores harmless differences."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import ExportError, Format, export_litert, export_onnx, export_saved_model, read_artifact
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import InvalidArtifactError, RuntimeDiedError, RuntimeFailedError, RuntimeRefusedError
from keras_pe.export.pipeline.smoke_test import check_agreement
from keras_pe.export.records import Artifact
from tests.export.counting import Counting


class Noting(Counting):
    """Counts its calls; the output does not depend on it."""

    def call(self, inputs: Any) -> Any:
        self.count.assign_add(1.0)
        return inputs


def applying(function: Callable[[Any], Any], dtype: str = "float32") -> keras.Model:
    x = keras.Input((None, 4), name="x", dtype=dtype)
    return keras.Model(x, keras.layers.Lambda(function, output_shape=(None, 4), name="y")(x))


def check(model: keras.Model, artifact: Callable[[Any], Any]) -> list[np.ndarray]:
    """Returns the inputs on which it was run."""
    met: list[np.ndarray] = []

    def run(inputs: Any) -> Any:
        met.append(inputs["x"])
        return {"y": np.asarray(artifact(inputs["x"]))}

    check_agreement(run, KerasReference(model), Format.ONNX)
    return met


def test_drawn_values_are_compared_once_at_each_of_two_sizes() -> None:
    inputs = check(applying(keras.ops.sin), np.sin)
    # All unlike each other, so that none can stand for another.
    assert [x.shape for x in inputs] == [(3, 11, 4), (2, 29, 4)]
    assert all(len(np.unique(x)) == x.size for x in inputs)


def test_an_artifact_wrong_at_one_size_is_refused() -> None:
    def truncate_at_fixed_length(x: Any) -> Any:
        return np.sin(x) if x.shape[1] == 11 else np.sin(x)[:, :11]

    with pytest.raises(ExportError, match=r"has the shape \(2, 11, 4\), in Keras \(2, 29, 4\)"):
        check(applying(keras.ops.sin), truncate_at_fixed_length)


def test_a_model_is_compared_where_it_runs() -> None:
    def short(x: Any) -> Any:
        if tf.executing_eagerly() and x.shape[1] > 11:
            raise ValueError("too long")
        return x * 1.0

    check(applying(short), lambda x: x if x.shape[1] <= 11 else x + 1.0)
    with pytest.raises(ExportError, match="differs from Keras'"):
        check(applying(short), lambda x: x + 1.0)


def failing(error: RuntimeFailedError, x: Any) -> Any:
    if x.any():
        raise error
    return x + 1


def test_values_that_neither_takes_are_no_fault() -> None:
    def strict(x: Any) -> Any:
        if tf.executing_eagerly() and np.any(x):
            raise ValueError("only zeros")
        return x + 1

    refuse = functools.partial(failing, RuntimeRefusedError("only zeros"))
    check(applying(strict), refuse)
    with pytest.raises(InvalidArtifactError, match="only zeros"):
        check(applying(lambda x: x + 1), refuse)


def test_an_artifact_that_ended_a_process_is_not_run_in_this_one() -> None:
    met: list[Any] = []
    model = applying(lambda x: met.append(x) or x + 1)
    reference = KerasReference(model)
    met.clear()
    die = functools.partial(failing, RuntimeDiedError("the process ended with signal 8"))
    with pytest.raises(InvalidArtifactError, match="signal 8"):
        check_agreement(lambda inputs: die(inputs["x"]), reference, Format.ONNX)
    assert not met


@pytest.mark.parametrize(
    ("artifact", "said"),
    [
        (np.cos, r"differs from Keras' by [01]\.\d, where the largest value is 1"),
        (lambda x: np.sin(x) * 1.002, r"differs from Keras' by 0\.002, where the largest value is 1"),
        (lambda x: np.where(np.arange(4) == 3, np.nan, np.sin(x)), "differs from Keras' by nan"),
        (lambda x: np.sin(x).transpose(0, 2, 1), r"has the shape \(3, 4, 11\), in Keras \(3, 11, 4\)"),
        (lambda x: np.sin(x)[:1], r"has the shape \(1, 11, 4\)"),
    ],
)
def test_a_difference_is_refused_with_its_size(artifact: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(ExportError, match=f"output 'y' {said}"):
        check(applying(keras.ops.sin), artifact)


def test_another_name_is_refused() -> None:
    model = applying(keras.ops.sin)
    with pytest.raises(ExportError, match=r"it returns \['z'\], the model \['y'\]"):
        check_agreement(lambda inputs: {"z": inputs["x"]}, KerasReference(model), Format.ONNX)


def test_rounding_is_no_difference() -> None:
    check(applying(lambda x: keras.ops.exp(4 * x)), lambda x: np.exp(4 * x.astype("float64")).astype("float32"))


def test_a_fill_value_hides_no_difference_beside_it() -> None:
    def mask_steps(x: Any) -> Any:
        return keras.ops.where(keras.ops.arange(4) < 2, x, -1e9)

    check(applying(mask_steps), lambda x: np.where(np.arange(4) < 2, x, np.float32(-1e9)))
    with pytest.raises(ExportError, match=r"by 0\.01, where the largest value is 2"):
        check(applying(mask_steps), lambda x: np.where(np.arange(4) < 2, x + 0.01, np.float32(-1e9)))


def test_values_that_are_not_finite_in_keras_may_be_anything() -> None:
    check(applying(keras.ops.log), lambda x: np.where(x > 0, np.log(np.abs(x)), 7.0))
    check(applying(lambda x: x / 0.0), lambda x: x * np.float32(np.inf))


def test_a_value_beside_a_jump_is_looked_at_twice() -> None:
    functions = iter([np.ceil, np.floor, np.floor])
    assert [x.shape[1] for x in check(applying(keras.ops.floor), lambda x: next(functions)(x))] == [11, 11, 29]


def test_graph_results_of_keras_count_as_much_as_eager_results() -> None:
    check(applying(lambda x: x if tf.executing_eagerly() else -x), np.negative)


def test_integers_are_ids_of_every_vocabulary() -> None:
    x, _ = check(applying(lambda x: keras.ops.cast(x, "float32"), "int32"), lambda x: x.astype("float32"))
    assert set(x.ravel().tolist()) == {0, 1}


def test_a_model_that_takes_no_drawn_values_is_run_on_zeros() -> None:
    def strict(x: Any) -> Any:
        if tf.executing_eagerly() and np.any(x):
            raise ValueError("only zeros")
        return x + 1

    inputs = check(applying(strict), lambda x: x + 1 + x.any())  # drawn values have no reference
    assert [x.any() for x in inputs] == [True, False, True, False]
    with pytest.raises(ExportError, match="differs from Keras' by 1"):
        check(applying(strict), lambda x: x + 2)


def test_a_comparison_leaves_the_state_of_the_model_alone() -> None:
    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, keras.layers.Activation("relu", name="y")(Noting()(x)))
    check(model, lambda x: np.maximum(x, 0))
    assert float(model.variables[0]) == 0


def test_short_numbers_may_differ_by_their_rounding() -> None:
    def short(x: Any) -> Any:  # loses up to 1/32
        return keras.ops.cast(keras.ops.cast(x, "float16") + 100, "float32") - 100

    with pytest.raises(ExportError):
        check(applying(short), lambda x: x)
    model = applying(short)
    model.layers[1].dtype_policy = keras.DTypePolicy("mixed_float16")
    check(model, lambda x: x)


def noise_but_for_images(x: Any, xp: Any) -> Any:
    return xp.where(xp.max(x) > 10.0, x, xp.sin(x * 1e6))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_a_model_whose_own_roundings_are_noise_is_compared_on_values_of_images(shift: float) -> None:
    model = applying(lambda x: noise_but_for_images(x, keras.ops))

    def rounding(x: Any) -> Any:  # the product by a unit more, which is up to 0.4
        return noise_but_for_images(x * np.float32(1 + 2**-23), np) + np.float32(shift)

    if not shift:
        assert check(model, rounding)[-1].max() > 10
    else:
        with pytest.raises(ExportError, match="differs from Keras' by 1"):
            check(model, rounding)


def test_an_artifact_right_for_images_only_is_refused() -> None:
    with pytest.raises(ExportError, match="differs from Keras'"):
        check(applying(keras.ops.sin), lambda x: np.sin(x) if x.max() > 10 else np.cos(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export", "name"), [(export_onnx, "m.onnx"), (export_saved_model, "m"), (export_litert, "m.tflite")]
)
def test_an_artifact_says_where_it_was_not_compared(export: Callable[..., Artifact], name: str, tmp_path: Path) -> None:
    def short(x: Any) -> Any:
        if tf.executing_eagerly() and x.shape[1] > 11:
            raise ValueError("too long")
        return x * 1.0

    said = r"It was not compared with Keras at batch 2, length 29, which Keras refuses \(ValueError: .*too long"
    artifact = export(applying(short), tmp_path / name)
    for notes in (artifact.notes, read_artifact(artifact.path).notes):
        assert [note for note in notes if re.match(said, note)], notes
    assert not [note for note in export(applying(keras.ops.sin), tmp_path / name).notes if "compared" in note]


def test_a_refusal_says_why_rounding_was_judged_without_float64() -> None:
    class MadeOnce(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

        def get_config(self) -> Any:
            raise NotImplementedError

    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, MadeOnce(name="y")(x))
    with pytest.raises(ExportError, match=r"without float64: no float64 rebuild is possible"):
        check(model, lambda x: x * 2.1)
