"""A changed or exchanged input of a layer is named, with the layer that receives it."""

import numpy as np
import pytest
from keras import layers as L  # noqa: N812
from keras import ops

from keras_pe.export import Cause
from tests.export.parity.diagnosis.changes import IMAGE, SEQUENCE, Change, functional, say, write
from tests.export.parity.diagnosis.planted import findings, one_layer


def _alter_mix(alter):
    def layers(x, is_changed):
        mixed = L.Dense(8, name="mix")(x)
        return alter(mixed) if is_changed else mixed

    return functional(SEQUENCE, layers)


def _seen_ahead(x, is_changed):
    attend = L.MultiHeadAttention(2, 4, name="attend")
    return (
        attend(x, x, attention_mask=np.tri(6, 6, 1, dtype=bool)[None])
        if is_changed
        else attend(x, x, use_causal_mask=True)
    )


def _keys_for_values(x, is_changed):
    one, other = L.Dense(8, name="one")(x), L.Dense(8, name="other")(x)
    return L.MultiHeadAttention(2, 4, name="attend")(x, *((other, one) if is_changed else (one, other)))


def _shuffle_groups(x, is_changed):
    mixed = L.Conv2D(6, 3, groups=2, name="mix")(x)
    if not is_changed:
        return mixed
    pairs = ops.reshape(mixed, (-1, *mixed.shape[1:3], 2, 3))
    return ops.reshape(ops.swapaxes(pairs, 3, 4), (-1, *mixed.shape[1:]))


def _dealt(x, is_changed):
    order = [0, 2, 4, 1, 3, 5]
    return L.GroupNormalization(2, name="groups")(ops.take(x, order, axis=2) if is_changed else x)


def _reflect_border(x, is_changed):
    around = [[0, 0], [1, 1], [1, 1], [0, 0]]
    conv = L.Conv2D(6, 3, padding="valid" if is_changed else "same", name="conv")
    return conv(ops.pad(x, around, "reflect") if is_changed else x)


def _one_step(x, is_changed):
    steps = L.GRU(8, return_sequences=True, name="steps")(x)
    return steps[:, 0] if is_changed else steps[:, -1]


def _ids(x, is_changed):
    ids = L.Discretization(bin_boundaries=[-1.0, -0.5, 0.0, 0.5, 1.0], name="bins")(x)
    return L.Embedding(7, 4, name="table")(ids + 1 if is_changed else ids)


def _hash_bins(x, is_changed):
    ids = L.Discretization(bin_boundaries=[-1.0, -0.5, 0.0, 0.5, 1.0], name="bins")(x)
    return L.Embedding(7, 4, name="table")(ops.mod(ids * 5 + (4 if is_changed else 3), 7))


def _above(x, is_changed):
    return ops.where(x > (0.71 if is_changed else 0.7), x, -x)


def _divided_twice(x, is_changed):
    small = L.Rescaling(1 / 255, name="small")(x)
    return L.Dense(4, name="mix")(small / 255.0 if is_changed else small)


CHANGES = [
    Change("a mask that sees ahead", functional((6, 8), _seen_ahead), "shifted mask", "attend", "shifted by 1"),
    Change("shuffled", functional(IMAGE, _shuffle_groups), "reordered input", "head", "in another order"),
    Change("dealt", functional((6, 6), _dealt), "reordered input", "groups", "in another order"),
    Change("reflected", functional(IMAGE, _reflect_border), "other padding", "conv", "'reflect'"),
    Change("the first step", functional((6, 8), _one_step), "other input", "head", "the first step of the output"),
    Change("ids plus one", functional((6,), _ids), "shifted input", "table", "plus 1"),
    Change("another hash", functional((6,), _hash_bins), "other indices", "mod", "rows of other indices"),
    Change("another threshold", functional((6,), _above), "other x2", "greater", "x2=0.71 instead of 0.7"),
    Change("divided twice", functional(SEQUENCE, _divided_twice), "scaled input", "mix", "times 0.0039"),
    Change("scaled", _alter_mix(lambda x: x * 2.5), "scaled input", "head", "times 2.5"),
    Change("cut", _alter_mix(lambda x: ops.clip(x, -1, 1)), "clipped input", "head", "clipped at -1 and 1"),
    Change("reversed", _alter_mix(lambda x: ops.flip(x, 2)), "reversed input", "head", "along axis 2"),
    Change("bent", _alter_mix(ops.tanh), "other activation", "head", "through tanh"),
]


@pytest.mark.slow_rows(4)
@pytest.mark.parametrize("change", [
    pytest.param(c, id=c.name, marks=() if c.name == "scaled" else pytest.mark.slow) for c in CHANGES
])  # fmt: skip
def test_a_change_of_an_input_is_named_with_the_layer_that_receives_it(change, tmp_path, plain_worker):
    result = say(*write(change, tmp_path), plain_worker)
    (finding,) = result.findings
    assert (finding.cause, finding.layer) == (change.cause, change.layer), result
    assert change.description in finding.evidence
    assert result.proof.holds


@pytest.mark.slow
def test_inputs_that_changed_places_are_named_with_the_layers_that_get_them(tmp_path, plain_worker):
    change = Change("keys for values", functional((6, 8), _keys_for_values), "other input", "attend")
    findings = say(*write(change, tmp_path), plain_worker).findings
    assert [(finding.cause, finding.layer) for finding in findings] == [
        ("other input", "attend/key"),
        ("other input", "attend/value"),
    ]
    assert "the output of 'one'" in findings[0].evidence


@pytest.mark.parametrize(
    ("layer", "number"),
    [
        (lambda: L.Concatenate(name="y"), 1),
        pytest.param(lambda: L.Subtract(name="y"), 0, marks=pytest.mark.slow),
        pytest.param(lambda: L.Average(name="y"), 0, marks=pytest.mark.slow),
    ],
    ids=["concatenated", "subtracted", "averaged"],
)
def test_an_input_that_the_artifact_does_not_read_is_named(layer, number):
    model = one_layer(layer(), (4,), (4,))

    def compute(inputs):
        arrays = [inputs["x"], inputs["z"]]
        arrays[number] = np.zeros_like(arrays[number])
        return np.asarray(model.get_layer("y")(arrays))

    (finding,) = findings(model, compute)
    assert (finding.cause, finding.layer) == (Cause.DROPPED_INPUT, "y"), finding
    assert f"input {number}" in finding.evidence
