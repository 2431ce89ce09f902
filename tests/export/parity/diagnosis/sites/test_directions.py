"""A change of the two directions of a layer is named, in files of every exporter."""

import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812
from keras import ops

from tests.export.parity.diagnosis.changes import SEQUENCE, Change, one, say, write
from tests.samples import sample_cases


class Halves(L.Layer):
    """A Bidirectional whose two outputs are put together in another way."""

    def __init__(self, merged):
        super().__init__(name="halves")
        self.merged, self.both = merged, _both()

    def build(self, shape):
        self.both.build(shape)

    def call(self, x):
        halves = self.both.forward_layer(x), self.both.backward_layer(x)
        return ops.concatenate(self.merged(*halves), -1)


def _both():
    return L.Bidirectional(L.GRU(4, return_sequences=True, name="steps"), name="both")


def _change(name, merged, said):
    def with_the_same_weights(model):
        model.set_weights(seeded(one(SEQUENCE, lambda c: _both())(False)).get_weights())

    def build(is_changed):
        return one(SEQUENCE, lambda c: Halves(merged) if c else _both())(is_changed)

    return [
        Change(f"{name}, by {'Keras' if by_keras else 'this package'}", build, "other direction", "both", said,
               with_the_same_weights, by_keras)
        for by_keras in (False, True)
    ]  # fmt: skip


CHANGES = [
    *_change("never turned back", lambda one, other: [one, other], "in their order of computation"),
    *_change("exchanged", lambda one, other: [ops.flip(other, 1), one], "before the forward one"),
    *_change("forward twice", lambda one, other: [one, one], "the forward output twice"),
]

SAMPLE = CHANGES[:1]  # each takes 20 s


@pytest.mark.parametrize("change", sample_cases(CHANGES, SAMPLE), ids=lambda change: change.name)
def test_a_change_of_the_two_directions_is_named(change, tmp_path, plain_worker):
    result = say(*write(change, tmp_path), plain_worker)
    (finding,) = result.findings
    assert (finding.cause, finding.layer) == (change.cause, change.layer), result
    assert change.description in finding.evidence
