"""The state of an artifact starts as the model's variables were, for any batch."""

import numpy as np
import pytest

from keras_pe.export.artifacts.state import State, initial_value, states_from_json, states_to_json
from tests.raised import about


def test_a_record_of_states_returns_their_first_values_for_a_batch() -> None:
    rows = np.array([[1.5, -2.0], [1.5, -2.0]], "float32")
    for value, shape, wanted in (
        (np.zeros((2, 3), "float32"), ("batch", 3), np.zeros((4, 3), "float32")),
        (rows, ("batch", 2), np.repeat(rows[:1], 4, axis=0)),
        (rows, (2, 2), rows),
        (np.array(7, "int32"), (), np.array(7, "int32")),
    ):
        has_rows = shape[:1] == ("batch",)
        state = State("x", "x_out", shape, str(value.dtype), initial_value(value, has_rows))
        (again,) = states_from_json(states_to_json([state]))
        found = again.start(4)
        np.testing.assert_array_equal(found, wanted)
        assert (again, found.dtype) == (state, value.dtype)


def test_a_shared_cache_begins_with_rows_for_all_tokens_of_a_text() -> None:
    state = State("past", "present", ("batch", 2, "max_length", 4), "float32", 0.0)
    assert state.is_shared
    assert state.start(3, 50).shape == (3, 2, 50, 4)
    with pytest.raises(ValueError, check=about("length")):
        state.start(3)
    growing = State("past", "present", ("batch", 2, 0, 4), "float32", 0.0)
    assert not growing.is_shared
    assert growing.start(3, 50).shape == (3, 2, 0, 4)


def test_different_first_rows_belong_to_their_own_batch_alone() -> None:
    rows = np.array([[1.0], [2.0]], "float32")
    state = State("x", "x_out", ("batch", 1), "float32", initial_value(rows, True))
    np.testing.assert_array_equal(state.start(2), rows)
    with pytest.raises(ValueError, check=about("batch")):
        state.start(3)
    with pytest.raises(ValueError, match="cannot be read"):
        states_from_json('[{"input": 1}]')
