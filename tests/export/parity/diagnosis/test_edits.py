"""Edits keep the numbers that they change, and a fault keeps few fields."""

from dataclasses import fields
from typing import cast

import keras
import numpy as np

from keras_pe.export.model.watch.code_places import CodePlace
from keras_pe.export.parity.diagnosis.edits import (
    CLIPPED,
    NumericEdit,
    Place,
    backwards,
    block_orders,
    exchanged_axes,
    output_called,
    rolls,
)
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
from keras_pe.export.parity.diagnosis.sites.other_values import other_values
from keras_pe.export.parity.diagnosis.stored_constants import stored_instead
from keras_pe.export.results import Cause, OtherValue


def test_a_fitted_number_is_kept_beside_that_of_the_model() -> None:
    fitted = NumericEdit(
        {"epsilon": 1e-3}, lambda fault, numbers: None, lambda numbers: Cause.attribute("epsilon"), lambda said: ""
    )
    assert fitted.edit({"epsilon": 0.1}).parameters == (OtherValue("epsilon", 1e-3, 0.1),)


def test_a_number_that_did_not_move_keeps_the_value_of_the_model() -> None:
    limits = NumericEdit(
        {"x_min": -1.0, "x_max": 1.0},
        lambda fault, numbers: np.array([numbers["x_min"], numbers["x_max"]]),
        lambda numbers: Cause.OTHER_ACTIVATION,
        lambda said: "",
    )
    edit = limits.edit({"x_max": 1.5})
    assert edit.parameters == (OtherValue("x_max", 1.0, 1.5),)
    np.testing.assert_array_equal(edit.compute(cast(LayerFault, None)), [-1.0, 1.5])


def test_a_change_of_an_array_is_kept_with_its_axes_and_limits() -> None:
    place = output_called("the output")
    swapped, *_ = place.edits(exchanged_axes(np.zeros((2, 3, 3))))
    assert swapped.parameters == (OtherValue("axes", None, (1, 2)),)
    first, *_ = place.edits(CLIPPED)
    assert first.parameters == (OtherValue("low", None, 0.0), OtherValue("high", None, 1.0))


def test_a_change_of_a_result_inside_a_layer_keeps_its_numbers_and_its_line() -> None:
    result, code = np.arange(6.0).reshape(2, 3), CodePlace("decode.py", 31, "Decode.call", "ops.exp(x)")
    place = Place("with", "its result", lambda function, fault: function(result), code=(code,))
    *_, flipped = place.edits(backwards(result))
    assert (flipped.places, flipped.parameters) == ((code,), (OtherValue("axis", None, 1),))
    output = flipped.compute(cast(LayerFault, None))
    assert output is not None
    np.testing.assert_array_equal(output, [[2, 1, 0], [5, 4, 3]])


def test_rolls_and_blocks_are_those_of_each_axis_that_shows_them() -> None:
    array = np.arange(8).reshape(2, 4)
    assert [each.change(array)[0].tolist() for each in rolls(array)] == [[3, 0, 1, 2], [1, 2, 3, 0]]
    assert [each.change(array)[0].tolist() for each in block_orders(array)] == [[0, 2, 1, 3]]


def test_other_values_of_attributes_are_kept_with_both_values_though_the_layer_has_another_form_of_them() -> None:
    own = {"factor": 4.0, "layout": "halves"}
    edit = other_values(own, {"factor": 8.0}, {"scaling": {"factor": 8.0}}, Cause.attribute("factor"))
    assert (edit.cause, edit.parameters) == ("other factor", (OtherValue("factor", 4.0, 8.0),))


def test_a_fault_has_few_fields() -> None:
    assert len(fields(LayerFault)) <= 8


def test_a_number_beyond_the_range_of_a_stored_one_is_no_other_number() -> None:
    assert [*stored_instead(-1e9, [np.array(-np.inf, "float16")])] == []
    assert [*stored_instead(float("nan"), [np.array(np.nan, "float32")])] == []


def test_a_weight_is_no_number_that_a_constant_may_replace() -> None:
    assert [*stored_instead(keras.Variable(np.zeros(3, "float32")), [np.ones(3, "float32")])] == []
