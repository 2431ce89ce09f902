"""Something done to what a layer is given, though the artifact holds the right one as well: it is named."""

import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from tests.export.parity.diagnosis.changes import SEQUENCE, Change, functional, say


def _mixed(alter):
    def layers(x, is_changed):
        mixed = L.Dense(8, name="mix")(x)
        return alter(mixed) if is_changed else mixed

    return functional(SEQUENCE, layers)


CHANGES = [
    Change("scaled", _mixed(lambda x: x * 2.5), "scaled input", "head", "times 2.5"),
    Change("cut", _mixed(lambda x: ops.clip(x, -1, 1)), "clipped input", "head", "cut at -1 and 1"),
    Change("reversed", _mixed(lambda x: ops.flip(x, 2)), "reversed input", "head", "along axis 2"),
    Change("bent", _mixed(ops.tanh), "other activation", "head", "through tanh"),
]


@pytest.mark.parametrize("change", [
    pytest.param(c, id=c.name, marks=() if c.name == "scaled" else pytest.mark.slow) for c in CHANGES
])  # fmt: skip
def test_what_is_done_to_an_input_is_named_with_the_layer_that_gets_it(change, tmp_path, plain_worker):
    result = say(change, tmp_path, plain_worker)
    (finding,) = result.findings
    assert (finding.cause, finding.layer) == (change.cause, change.layer), result
    assert change.said in finding.evidence
    assert result.proof.holds
