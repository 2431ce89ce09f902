"""The search finds the tensors of an artifact with a layer's output, in any layout, or their replacements."""

import numpy as np
import pytest

from keras_pe.export.parity.diagnosis.tensor_search import Tensors

RNG = np.random.default_rng(0)
STEPS = RNG.standard_normal((2, 3, 5)).astype(np.float32)
IMAGES = RNG.standard_normal((2, 3, 4, 4, 5)).astype(np.float32)
HEADS = RNG.standard_normal((3, 6, 2, 4)).astype(np.float32)
ANOTHER = RNG.standard_normal(STEPS.shape).astype(np.float32)


@pytest.mark.parametrize(
    ("output", "held"),
    [
        (STEPS, STEPS.swapaxes(0, 1)),
        (STEPS, STEPS.swapaxes(0, 1)[:, None]),
        (STEPS, STEPS.transpose(0, 2, 1)),
        (IMAGES, IMAGES.swapaxes(0, 1)),
        (HEADS, HEADS.reshape(3, 6, 8)),
        (HEADS, HEADS.transpose(0, 3, 1, 2).reshape(3, 4, 12)),
    ],
    ids=["steps first", "one direction", "channels first", "images, steps first", "joined heads", "joined, turned"],
)
def test_a_tensor_that_holds_an_output_in_another_layout_is_found_and_takes_its_place(output, held):
    tensors = Tensors({"held": held, "another": RNG.standard_normal(held.shape).astype(np.float32)})
    match = tensors.find(output, 1e-6, tensors.names)
    assert match is not None
    assert match.tensor == "held"
    np.testing.assert_array_equal(tensors.in_place_of(match, output)["held"], held)


def test_the_shape_tells_the_layout_and_values_that_are_wrong_do_not():
    tensors = Tensors({"wrong": RNG.standard_normal((3, 6, 8)).astype(np.float32)})
    assert {match.axes for match in tensors.with_size(["wrong"], HEADS)} == {(0, 1, 2, 3)}


def test_every_copy_of_a_tensor_takes_the_place_with_it():
    wrong = STEPS + 1
    tensors = Tensors({"x": ANOTHER, "squeezed": wrong.swapaxes(0, 1), "named": wrong})
    (match,) = (tensors.with_copies(each, STEPS.shape, {"x"}) for each in tensors.with_size(["named"], STEPS))
    put = tensors.in_place_of(match, STEPS)
    np.testing.assert_array_equal(put.pop("named"), STEPS)
    np.testing.assert_array_equal(put.pop("squeezed"), STEPS.swapaxes(0, 1))
    assert put == {}


def test_a_tensor_that_holds_what_is_right_elsewhere_has_no_copies():
    tensors = Tensors({"before": ANOTHER, "turned": ANOTHER.swapaxes(0, 1), "named": ANOTHER})
    (match,) = (tensors.with_copies(each, STEPS.shape, {"before"}) for each in tensors.with_size(["named"], STEPS))
    assert match.tensors == {"named"}


def test_one_number_throughout_has_no_copies():
    zeros = np.zeros_like(STEPS)
    tensors = Tensors({"state": zeros.swapaxes(0, 1), "named": zeros})
    (match,) = (tensors.with_copies(each, STEPS.shape, ()) for each in tensors.with_size(["named"], STEPS))
    assert match.tensors == {"named"}
