"""Other numbers in the activation of a layer are named with both values."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import Cause
from tests.export.parity.diagnosis.planted import findings


@pytest.mark.parametrize(
    ("layer", "wrong", "numbers"),
    [
        (lambda: L.Activation("relu6", name="y"), lambda x: ops.clip(x, 0, 6.01), {"max_value": (6.0, 6.01)}),
        pytest.param(
            lambda: L.Activation("hard_tanh", name="y"),
            lambda x: ops.clip(x, -1.01, 1.02),
            {"x_min": (-1.0, -1.01), "x_max": (1.0, 1.02)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: L.Activation("hard_tanh", name="y"),
            lambda x: ops.clip(x, -1, 1.5),
            {"x_max": (1.0, 1.5)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: L.Activation("hard_sigmoid", name="y"),
            lambda x: ops.clip(0.25 * x + 0.5, 0, 1),
            {"slope": (1 / 6, 0.25)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: L.Dense(6, "silu", name="y"),
            lambda x: x * ops.sigmoid(1.1 * x),
            {"beta": (1.0, 1.1)},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda: L.Dense(6, "elu", name="y"),
            lambda x: ops.elu(x, 0.97),
            {"alpha": (1.0, 0.97)},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["relu6", "hard_tanh", "one limit of hard_tanh", "hard_sigmoid", "silu", "elu"],
)
def test_a_number_of_an_activation_is_named_with_both_values(
    layer: Callable[[], Any], wrong: Callable[[Any], Any], numbers: dict[str, tuple[float, float]]
) -> None:
    x = keras.Input((8,), name="x")
    wide = 10 * x
    model = seeded(keras.Model(x, {"wide": wide, "y": layer()(wide)}))
    own = model.get_layer("y")

    def compute(inputs: Any) -> dict[str, np.ndarray]:
        wide = 10 * inputs["x"]
        given = ops.matmul(wide, own.kernel) + own.bias if own.weights else wide
        return {"wide": wide, "y": np.asarray(wrong(given))}

    (finding,) = findings(model, compute)
    assert (finding.cause, finding.layer) == (Cause.OTHER_ACTIVATION, "y"), finding
    found = {each.name: (each.model, each.artifact) for each in finding.parameters}
    assert found == {name: pytest.approx(values, rel=1e-3) for name, values in numbers.items()}
