"""Edits keep the numbers that they change, and a fault keeps few fields."""

from dataclasses import fields
from typing import cast

import numpy as np

from keras_pe.export.parity.diagnosis.edits import CLIPPED, NumericEdit, exchanged_axes, output_called, stored_instead
from keras_pe.export.parity.diagnosis.layer_call import LayerFault
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


def test_a_fault_has_few_fields() -> None:
    assert len(fields(LayerFault)) <= 8


def test_a_number_beyond_the_range_of_a_stored_one_is_no_other_number() -> None:
    assert [*stored_instead(-1e9, [np.array(-np.inf, "float16")])] == []
    assert [*stored_instead(float("nan"), [np.array(np.nan, "float32")])] == []
