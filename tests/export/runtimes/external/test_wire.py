"""Arrays arrive as they were sent, whatever their type and shape."""

import ml_dtypes
import numpy as np
import pytest

from keras_pe.export.runtimes.external.bridge import pack, unpack

FLOATS = ["float16", "float32", "float64"]
DTYPES = [*FLOATS, *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool"]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_keeps_its_type_shape_and_values(dtype, shape):
    array = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    header, arrays = unpack(pack({"request": "run"}, {"before": np.ones(3, np.int8), "é:0": array}))
    assert header == {"request": "run"}
    np.testing.assert_array_equal(arrays["é:0"], array, strict=True)
    assert arrays["é:0"].flags.writeable


def test_bytes_of_the_other_order_and_columns_first_are_sent_in_one_form():
    array = np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3))
    np.testing.assert_array_equal(unpack(pack({}, {"x": array}))[1]["x"], array.astype("<i4"), strict=True)


def test_texts_are_sent_as_texts():
    array = np.array([["a", "ü"], ["", "b c"]], dtype=object)
    np.testing.assert_array_equal(unpack(pack({}, {"x": array}))[1]["x"], array, strict=True)
    assert unpack(pack({}, {"x": np.array([b"bytes"], dtype=object)}))[1]["x"].tolist() == ["bytes"]


def test_a_type_without_a_place_in_a_message_is_refused_by_name():
    with pytest.raises(ValueError, match=r"type bfloat16 cannot be sent\. Received: 'x'"):
        pack({}, {"x": np.ones(2, ml_dtypes.bfloat16)})


def test_a_message_that_was_cut_is_refused():
    message = pack({}, {"x": np.ones(2)})
    with pytest.raises(ValueError, match="smaller than requested"):
        unpack(message[:-1])
