"""A sequence in chunks is compared at its tokens, and each output that an artifact has is reported."""

import numpy as np

from keras_pe.export.comparison.chunked_calls import ignore_padding

EXPECTED = {"y": np.array([[[1.0], [2.0]]]), "h_out": np.array([[[3.0]]])}
CARRIED = {"h": "h_out"}


def test_padding_and_the_state_after_it_have_the_expected_values() -> None:
    found = {"y": np.array([[[8.0], [9.0]]]), "h_out": np.array([[[7.0]]])}
    kept = ignore_padding(found, EXPECTED, np.array([[0, 1]]), CARRIED)
    np.testing.assert_array_equal(kept["y"], [[[1.0], [9.0]]])
    np.testing.assert_array_equal(kept["h_out"], EXPECTED["h_out"])
    assert ignore_padding(found, EXPECTED, np.array([[1, 1]]), CARRIED) == found


def test_an_output_that_the_reference_lacks_stays_and_a_missing_one_is_missing() -> None:
    kept = ignore_padding({"z": np.zeros(1)}, EXPECTED, np.array([[0, 1]]), CARRIED)
    assert kept.keys() == {"z", "h_out"}
