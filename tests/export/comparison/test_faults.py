"""A small difference from Keras is forgiven where Keras itself is that far from its own model in float64."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import ExportError, Format
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.pipeline.smoke_test import check_agreement

# In float32, an angle of up to 40,000 is off by up to half its unit, 2**-9, and so is its sine: 0.2 %. The comparison
# allows 0.1 % without a measurement of rounding, and 8 times 0.2 %, 1.6 %, with one.
STEEP = 12_000


class Steep(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        return keras.ops.sin(inputs * STEEP)


class MadeOnce(Steep):
    """Cannot be made again, and has no float64 rebuild."""

    def get_config(self) -> Any:
        raise NotImplementedError


class Single(Steep):
    """Computes in float32 whatever its policy."""

    def call(self, inputs: Any) -> Any:
        return super().call(keras.ops.cast(inputs, "float32"))


def model_of(layer: keras.layers.Layer) -> keras.Model:
    x = keras.Input((50,), name="x")
    return keras.Model(x, layer(x))


def check(layer: keras.layers.Layer, artifact: Callable[[Any], Any]) -> int:
    """Returns how often the artifact was run."""
    model = model_of(layer)
    reference = KerasReference(model)
    (name,) = [spec.name for spec in reference.signature.outputs]

    runs = []

    def run(inputs: Any) -> Any:
        runs.append(inputs)
        return {name: artifact(inputs["x"])}

    check_agreement(run, reference, Format.ONNX)
    return len(runs)


def exact(x: np.ndarray) -> np.ndarray:
    return np.sin(x.astype("float64") * STEEP).astype("float32")


def test_a_result_nearer_to_the_reference_than_keras_is_not_a_fault() -> None:
    check(Steep(), exact)


def test_another_order_of_rounding_is_not_a_fault_and_takes_one_comparison_at_each_of_two_sizes() -> None:
    assert check(Steep(), lambda x: exact(x * np.float32(1 + 2**-23))) == 2


@pytest.mark.parametrize("fault", [0.018, 0.03, 0.3])
def test_a_fault_beyond_eight_times_the_rounding_is_refused(fault: float) -> None:
    with pytest.raises(ExportError, match="differs from Keras' by"):
        check(Steep(), lambda x: exact(x) + np.float32(fault))


def test_a_fault_of_less_is_refused_where_keras_rounds_less() -> None:
    with pytest.raises(ExportError, match=r"differs from Keras' by 0\.004"):
        check(keras.layers.Activation("tanh"), lambda x: np.tanh(x) * np.float32(1.004))


class Tall(Steep):
    """Returns numbers whose first half is larger than the fill value of a mask."""

    def call(self, inputs: Any) -> Any:
        return super().call(inputs) * TALL


TALL = np.where(np.arange(50) < 25, 1e9, 1.0).astype("float32")


def test_large_numbers_and_small_ones_beside_them_are_judged_by_their_own_rounding() -> None:
    check(Tall(), lambda x: exact(x) * TALL)
    for number in (7, 47):
        with pytest.raises(ExportError, match="differs from Keras' by"):
            check(Tall(), lambda x, number=number: (exact(x) + 0.03 * (np.arange(50) == number)) * TALL)


def test_one_wrong_number_among_many_is_refused() -> None:
    with pytest.raises(ExportError, match="differs from Keras' by"):
        check(Steep(), lambda x: exact(x) + 0.03 * (np.arange(50) == 7))


# A step of 2**-20 of the input moves the sine by up to 3.4 %.
@pytest.mark.parametrize("layer", [MadeOnce, Single])
@pytest.mark.parametrize(("fault", "is_refused"), [(0.01, False), (0.06, True)])
def test_without_a_float64_rebuild_roundings_of_the_inputs_tell(
    layer: type[Steep], fault: float, is_refused: bool
) -> None:
    try:
        check(layer(), lambda x: exact(x) + np.float32(fault))
    except ExportError:
        assert is_refused
    else:
        assert not is_refused


def test_rounding_that_drowns_every_answer_is_reported() -> None:
    class Noise(Steep):
        def call(self, inputs: Any) -> Any:
            return keras.ops.sin(inputs * 1e7)

    with pytest.raises(ExportError, match="inconclusive"):
        check(Noise(), lambda x: np.cos(x.astype("float64") * 1e7))
