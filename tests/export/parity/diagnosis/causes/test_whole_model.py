"""What is wrong within an artifact that shows its outputs alone is named where a changed model gives them."""

import keras
import pytest
from keras import layers as L  # noqa: N812

from tests.export.parity.diagnosis.changes import seeded
from tests.export.parity.diagnosis.planted import Closed, findings


@pytest.mark.parametrize("at_fault", [("first",), ("second",), ("first", "second")], ids=" and ".join)
def test_a_normalization_by_the_batch_is_named_with_its_layer(at_fault):
    x = keras.Input((4,), name="x")
    parts = [L.Dense(5, name="mix"), L.BatchNormalization(name="first"), L.Activation("tanh", name="bend")]
    parts += [L.BatchNormalization(name="second"), L.Dense(3, name="y")]
    model = seeded(keras.Sequential([x, *parts]))

    def wrong(inputs):
        values, kept = inputs["x"], model.get_weights()
        for part in parts:
            values = part(values, training=True) if part.name in at_fault else part(values)
        model.set_weights(kept)
        return values

    (finding,) = findings(model, wrong, Closed)
    assert (finding.cause, finding.layer) == ("training mode", at_fault[0])
    assert f"With {', '.join(map(repr, at_fault))} as in training" in finding.evidence
