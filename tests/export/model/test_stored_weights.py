"""A weight is stored as a file wants it, and read as Keras has it."""

import numpy as np
import pytest

from keras_pe.export.model.stored_weights import Layout, layouts_from_json, layouts_to_json

DEPTHWISE = Layout((3, 5, 4, 1)).then("reshape", (3, 5, 1, 4)).then("transpose", (3, 2, 0, 1))


def test_stored_weights_are_restored_after_any_change():
    weight = np.arange(60.0, dtype=np.float32).reshape(3, 5, 4, 1)
    for layout in [
        Layout((3, 5, 4, 1)),
        Layout((3, 5, 4, 1)).then("transpose", (3, 2, 0, 1)),
        Layout((3, 5, 4, 1)).then("transpose", (1, 2, 3, 0)).then("reshape", (20, 3)).then("transpose", (1, 0)),
        DEPTHWISE,
    ]:
        stored = layout.store(weight)
        assert stored.shape == layout.shapes[-1]
        assert stored.flags.c_contiguous
        np.testing.assert_array_equal(layout.restore(stored), weight)


def test_an_int8_is_stored_as_the_uint8_that_is_128_more():
    weight = np.array([[-128, -127, -1], [0, 1, 127]], np.int8)
    layout = Layout((2, 3)).then("transpose", (1, 0)).then("unsigned", ())
    stored = layout.store(weight)
    assert (stored.dtype, stored.tolist()) == (np.uint8, [[0, 128], [1, 129], [127, 255]])
    assert layout.restore(stored).dtype == np.int8
    np.testing.assert_array_equal(layout.restore(stored), weight)
    assert layouts_from_json(layouts_to_json({"kernel": layout})) == {"kernel": layout}


def test_a_layout_survives_the_metadata_of_a_file():
    layouts = {"conv/kernel": DEPTHWISE, "dense/kernel": Layout((2, 3)).then("transpose", (1, 0))}
    assert layouts_from_json(layouts_to_json(layouts)) == layouts


@pytest.mark.parametrize("text", ["", "[]", "3", '{"kernel": 3}', '{"kernel": {"keras": [2]}}'])
def test_a_file_of_another_program_is_not_a_layout(text):
    assert layouts_from_json(text) == {}


def test_a_weight_of_another_size_is_not_restored():
    with pytest.raises(ValueError, match="reshape"):
        DEPTHWISE.restore(np.zeros(7, np.float32))
