"""Slopes and buckets of relative positions, beside those of Hugging Face's own functions."""

import numpy as np
import pytest

from keras_pe.signal.distances import alibi_slopes, relative_buckets
from tests.golden.relative_buckets import RETURNED


def test_buckets_are_those_of_hugging_face_at_every_distance() -> None:
    with np.load(RETURNED) as file:
        assert len(file.files) == 9
        for name in file.files:
            rule, bidirectional, buckets, far = name.split("/")
            got = relative_buckets(rule, int(buckets), int(far), bidirectional=bidirectional == "True")
            beyond = np.pad(got, 2, mode="edge")
            np.testing.assert_array_equal(beyond, file[name], err_msg=name)


def test_slopes_are_those_of_the_authors_and_of_others_by_name() -> None:
    np.testing.assert_array_equal(alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    np.testing.assert_array_equal(alibi_slopes(16), 2.0 ** (-np.arange(1, 17) / 2))
    # ofirpress' get_slopes(12): those of 8 heads, then every other of 16.
    twelve = [*(2.0 ** -np.arange(1, 9)), *(2.0 ** -np.array([0.5, 1.5, 2.5, 3.5]))]
    np.testing.assert_array_equal(alibi_slopes(12), twelve)
    for heads in (3, 5, 12, 20):
        # MPT's build_alibi_bias: all of the power above, those of odd index first, cut off.
        above = 2 ** int(np.ceil(np.log2(heads)))
        slopes = 1 / 2.0 ** (np.arange(1, above + 1) * (6.0 / above))
        mpt = np.concatenate([slopes[1::2], slopes[::2]])[:heads]
        np.testing.assert_allclose(alibi_slopes(heads, "mpt", bias_max=6.0), mpt, rtol=1e-15)
    np.testing.assert_allclose(alibi_slopes(12, "paper"), 2.0 ** (-8 * np.arange(1, 13) / 12), rtol=1e-15)


def test_an_invalid_argument_is_refused() -> None:
    for call in (
        lambda: alibi_slopes(0),
        lambda: alibi_slopes(4, "bloom"),  # type: ignore[arg-type]
        lambda: relative_buckets("t4"),  # type: ignore[arg-type]
        lambda: relative_buckets("t5", 33),
        lambda: relative_buckets("t5", 32, 16),
    ):
        with pytest.raises(ValueError, match=r"Received: (num_heads|rule|num_buckets)="):
            call()
