"""An explanation holds in every case, with enough values: coincidences of one case name no cause."""

from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import check_parity, export_onnx
from tests.export.parity.diagnosis.planted import Inputs, Planted, findings, one_layer


def test_a_length_that_is_baked_in_is_no_factor_of_one_case_but_the_share_of_two_lengths() -> None:
    model = one_layer(L.GlobalAveragePooling1D(name="y"), (None, 8))
    (finding,) = findings(model, lambda inputs: inputs["x"].sum(1) / 8)
    assert (finding.cause, finding.layer) == ("frozen length", "y")
    assert "times length / 8" in finding.evidence


def test_a_factor_that_every_case_has_is_a_factor() -> None:
    model = one_layer(L.GlobalAveragePooling1D(name="y"), (None, 8))
    (finding,) = findings(model, lambda inputs: inputs["x"].mean(1) * 1.625)
    assert finding.cause in ("scaled values", "scaled input")
    assert "1.625" in finding.evidence


@pytest.mark.slow
def test_an_end_that_moves_with_the_length_is_no_end_of_a_table() -> None:
    def masked_as_lengths(inputs):
        x = inputs["x"]
        length = x.shape[1]
        return np.where(np.arange(length)[:, None] < length - length // 4, x * 2, np.cumsum(x, 1))

    model = one_layer(L.Rescaling(2.0, name="y"), (None, 8))
    assert [finding.cause for finding in findings(model, masked_as_lengths)] == ["unknown"]
    (finding,) = findings(
        model, lambda inputs: np.where(np.arange(inputs["x"].shape[1])[:, None] < 9, 2, 3) * inputs["x"]
    )
    assert finding.cause == "clamped table"


def test_another_input_is_no_shift_of_the_rows_that_an_encoding_of_integers_happens_to_show() -> None:
    x, z = (keras.Input((), dtype="int32", name=name) for name in "xz")
    encoded = L.CategoryEncoding(7, output_mode="one_hot", name="y")(x)
    model = keras.Model([x, z], encoded)
    (finding,) = findings(model, lambda inputs: np.eye(7)[inputs["z"] % 7])
    assert finding.cause != "shifted rows"


def test_another_norm_is_no_factor_of_a_batch_of_one() -> None:
    model = one_layer(L.UnitNormalization(name="y"), (8,))
    (finding,) = findings(model, lambda inputs: inputs["x"] / np.abs(inputs["x"]).sum(1, keepdims=True))
    assert finding.cause != "scaled values"


def test_a_limit_that_all_values_of_one_case_exceed_is_no_factor() -> None:
    model = one_layer(L.ReLU(max_value=6.0, name="y"), (8,))
    for other in (6.5, 7.0):
        causes = {each.cause for each in findings(model, lambda inputs, other=other: inputs["x"].clip(0, other))}
        assert causes.isdisjoint({"scaled values", "half precision inside"})


@pytest.mark.slow
def test_limits_of_an_operation_are_named_with_both_values(tmp_path: Path) -> None:
    def clip_at(limit: float) -> keras.Model:
        keras.utils.set_random_seed(3)
        x = keras.Input((16,), name="x")
        return keras.Model(x, keras.ops.clip(L.Dense(8)(x), -limit, limit))

    file = export_onnx(clip_at(11.0), tmp_path / "model.onnx").path
    (result,) = check_parity(clip_at(10.0), file, runtimes=["onnxruntime[all]"]).results
    (finding,) = result.findings
    assert [(each.name, each.model, each.artifact) for each in finding.parameters] == [
        ("x_min", -10, -11),
        ("x_max", 10, 11),
    ]


def test_fewer_values_than_tell_anything_explain_nothing() -> None:
    model = one_layer(L.Rescaling(2.0, name="y"), (8,))

    def one_value_off(inputs):
        y = inputs["x"] * 2
        y[0, 0] += len(y) == 2
        return y

    (finding,) = findings(model, one_value_off)
    assert finding.cause == "unknown"


class Tripled(keras.layers.Layer):
    """A layer of a user's own."""

    def call(self, x):
        return ops.square(x) * 3.0


def test_the_model_and_the_artifact_are_asked_once_for_the_inner_values_of_a_case() -> None:
    asked = Counter[bytes]()

    class Counting(Planted):
        def intermediates(self, inputs: Inputs, replaced: Inputs) -> dict[str, np.ndarray]:
            asked[inputs["x"].tobytes()] += not replaced
            return super().intermediates(inputs, replaced)

    (found,) = findings(one_layer(Tripled(name="y"), (4,)), lambda inputs: 2 * np.square(inputs["x"]), Counting)
    assert found.operation == "ops.square(x) * 3.0"
    assert set(asked.values()) == {1}


class Bump(L.Layer):
    def __init__(self, sign, **options):
        super().__init__(**options)
        self.sign = sign

    def call(self, x):
        return x + ops.relu(1.0 + self.sign * ops.square(x))


def test_second_fault_is_explained_if_the_first_layer_returns_its_input_in_a_case(tmp_path: Path) -> None:
    def model(sign):
        x = keras.Input((4,), name="x")
        return keras.Model(x, Bump(sign, name="second")(Bump(sign, name="first")(x)))

    path = export_onnx(model(1.0), tmp_path / "model.onnx").path
    (result,) = check_parity(model(-1.0), path, runtimes=["onnxruntime[disabled]"]).results
    assert [(each.layer, each.operation) for each in result.findings] == [
        (name, "self.sign * ops.square(x)") for name in ("first", "second")
    ]
