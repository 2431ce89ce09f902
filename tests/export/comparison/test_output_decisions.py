"""Decisions: what changes them, how far they are from changing, and which outputs decide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_pe.export.comparison.output_decisions import (
    Decision,
    DecisionCount,
    count_decisions,
    infer_decision,
    parse_decision,
)

NUMBERS = arrays(np.float64, (4, 5), elements=st.floats(-10, 10, width=32), unique=True)
KINDS = [Decision("argmax"), Decision("top_k", k=2), Decision("threshold", threshold=0.5)]


@pytest.mark.slow
@pytest.mark.parametrize("decision", KINDS, ids=str)
@settings(max_examples=30, deadline=None)
@given(expected=NUMBERS, error=arrays(np.float64, (4, 5), elements=st.floats(-5, 5, width=32)))
def test_no_decision_changes_by_less_than_its_margin(
    decision: Decision, expected: np.ndarray, error: np.ndarray
) -> None:
    actual = expected + error
    differ = decision.differ(decision.decide(expected), decision.decide(actual))
    taken, margin = decision.errors(np.abs(actual - expected)), decision.margins(expected)
    assert differ.shape == margin.shape == taken.shape
    assert (taken[differ] >= margin[differ]).all()


def test_the_margin_is_the_distance_to_the_next_decision() -> None:
    values = np.array([[0.1, 0.7, 0.2]])
    assert Decision("argmax").margins(values) == pytest.approx(np.array([[0.5]]))
    assert Decision("top_k", k=2).margins(values) == pytest.approx(np.array([[0.1]]))
    assert Decision("threshold", threshold=0.6).margins(values) == pytest.approx(np.array([[0.5, 0.1, 0.4]]))
    assert np.isinf(Decision("top_k", k=3).margins(values)).all()


def test_the_order_among_the_k_largest_is_no_decision() -> None:
    decision = Decision("top_k", k=2)
    one, other, third = (decision.decide(np.array([values])) for values in ([3.0, 2, 1], [2.0, 3, 1], [3.0, 1, 2]))
    assert not decision.differ(one, other).any()
    assert decision.differ(one, third).all()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("argmax", Decision("argmax")),
        ("top5", Decision("top_k", k=5)),
        ("top_3", Decision("top_k", k=3)),
        (0.25, Decision("threshold", threshold=0.25)),
        ("0", Decision("threshold", threshold=0.0)),
        ("none", None),
        (None, None),
    ],
)
def test_a_decision_is_given_in_one_word(given: str | float | None, expected: Decision | None) -> None:
    assert parse_decision(given) == expected


def test_an_output_with_one_possible_class_decides_nothing() -> None:
    rows = np.zeros((4, 3))
    assert [Decision("top_k", k=k).decides(rows) for k in (2, 3, 9)] == [True, False, False]
    assert [Decision("argmax").decides(each) for each in (rows, rows[:, :1], rows[:, 0])] == [True, False, False]
    assert Decision("threshold").decides(rows[:, 0])


@pytest.mark.parametrize("given", ["arg max", "top0", "nan", ""])
def test_another_word_is_refused_with_those_that_are_known(given: str) -> None:
    with pytest.raises(ValueError, match="'argmax', 'top5', a threshold or 'none'"):
        parse_decision(given)


def test_probabilities_decide_and_other_numbers_do_not() -> None:
    logits = np.random.default_rng(0).standard_normal((8, 3)).astype("float32")
    shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert infer_decision(shares) == Decision("argmax")
    assert infer_decision(np.tile(shares[:, None], (1, 4, 1))) == Decision("argmax")
    assert infer_decision(1 / (1 + np.exp(-logits[:, :1]))) == Decision("threshold", threshold=0.5)
    assert infer_decision(logits) is None
    assert infer_decision(np.arange(4)) is None


@pytest.mark.parametrize(
    ("decision", "labels", "right"),
    [
        (Decision("argmax"), np.array([0, 1, -1]), [True, False, False]),
        (Decision("argmax"), np.array([[0.0], [2.0], [1.0]]), [True, True, True]),
        (Decision("argmax"), np.eye(3)[[0, 2, 0]], [True, True, False]),
        (Decision("top_k", k=2), np.array([1, 0, 2]), [True, True, False]),
        (Decision("threshold"), np.array([[1, 0, 0], [0, 0, 1], [0, 1, 0]], bool), [True] * 3),
    ],
)
def test_a_decision_is_right_if_it_agrees_with_its_label(decision: Decision, labels: np.ndarray, right: list) -> None:
    values = np.array([[0.7, 0.2, 0.1], [0.3, 0.1, 0.6], [0.2, 0.6, 0.1]])
    classes = decision.class_labels(labels, values)
    assert decision.is_right(decision.decide(values), classes).all(axis=1).tolist() == right


@pytest.mark.parametrize("labels", [np.array(["a", "b"]), np.array([0.5, 1]), np.array([3, 0]), np.zeros((2, 2))])
def test_labels_that_are_no_classes_are_refused(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        Decision("argmax").class_labels(labels, np.zeros((2, 3)))


SURE, TIE = [0.8, 0.15, 0.05], [0.34, 0.33, 0.33]


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ([SURE, TIE], [SURE, TIE], DecisionCount(2, 0)),
        ([SURE, TIE], [SURE[::-1], TIE], DecisionCount(2, 1)),
        ([SURE, TIE], [SURE, TIE[::-1]], DecisionCount(2, 1, 1)),
        ([[SURE, TIE]], [[SURE[::-1], TIE[::-1]]], DecisionCount(2, 2, 1)),
        ([SURE, [np.nan] * 3], [SURE[::-1], [np.nan] * 3], DecisionCount(1, 1)),
        ([[0.9], [0.501]], [[0.1], [0.499]], DecisionCount(2, 2, 1)),
        ([[0.9, 0.8, 0.1]], [[0.1, 0.2, 0.9]], DecisionCount(1, 1)),
        ([[9.0, 0.8, 0.1]], [[0.1, 0.2, 0.9]], None),
        ([[[0.9, 0.8, 0.1]]], [[[0.1, 0.2, 0.9]]], None),
        ([[1.0]], [[1.0]], DecisionCount(1, 0)),
        (SURE, SURE, None),
        (np.zeros((0, 3)), np.zeros((0, 3)), None),
        ([[np.nan] * 3], [[np.nan] * 3], None),
    ],
)
def test_changed_decisions_are_counted_and_ties_apart(
    expected: list[float], actual: list[float], found: DecisionCount | None
) -> None:
    assert count_decisions(np.array(expected), np.array(actual), 0.01) == found
