"""Edits of the axes of an operation cover transpositions of any rank."""

import itertools

import pytest

from keras_pe.export.parity.diagnosis.sites.inside_orders import _axes_beside


@pytest.mark.parametrize("rank", [3, 5, 6, 8])
def test_a_transposition_is_tried_with_each_two_axes_exchanged(rank: int) -> None:
    own = [0, *reversed(range(1, rank))]
    tried = [tuple(order) for order in _axes_beside(own, rank)]
    for one, other in itertools.combinations(range(rank), 2):
        changed = list(own)
        changed[one], changed[other] = changed[other], changed[one]
        assert tuple(changed) in tried
    assert tuple(own) not in tried
