"""Causes are values: equal to their phrases, whichever attribute or type they name."""

import copy
import json
import pickle
from pathlib import Path

import pytest

from keras_pe.export.results import Cause


def test_a_cause_is_equal_to_its_phrase_and_stays_so_on_its_way_to_another_process() -> None:
    for cause in (*Cause, Cause.attribute("alpha"), Cause.attribute("scale", "offset"), Cause.quantized("uint8")):
        for same in (Cause(str(cause)), pickle.loads(pickle.dumps(cause)), copy.deepcopy(cause)):
            assert same == cause == str(cause)
            assert len({same, cause}) == 1
        assert json.loads(json.dumps(cause)) == str(cause)


def test_attributes_and_types_have_no_end_and_other_phrases_are_none() -> None:
    assert Cause.attribute("epsilon") is Cause.OTHER_EPSILON
    assert Cause.attribute("scale", "offset") == "other scale and offset"
    assert Cause.quantized("int8") is Cause.QUANTIZED_INT8
    assert {cause for cause in Cause if cause.is_rounding} == {"rounded values", "quantized (int8)", "quantized (int4)"}
    for phrase in ("weights differ", "", "other", "quantized", "other than that"):
        with pytest.raises(ValueError, match="is not a valid Cause"):
            Cause(phrase)


@pytest.mark.parametrize("name", ["dtype", "shape", "order", "input", "operation", "convention", "places", "bucket"])
def test_an_attribute_is_no_cause_of_another_meaning(name: str) -> None:
    cause = Cause.attribute(name)
    assert cause not in list(Cause)
    assert name in cause
    assert Cause(str(cause)) is cause


def test_a_cause_of_a_phrase_is_one_object() -> None:
    for cause in (Cause.attribute("foo"), Cause.attribute("a", "b"), Cause.quantized("uint8")):
        assert Cause(str(cause)) is cause is pickle.loads(pickle.dumps(cause)) is copy.deepcopy(cause)
    assert Cause.attribute("foo") not in list(Cause)


def test_the_page_of_causes_has_each_and_no_other() -> None:
    page = (Path(__file__).parents[3] / "docs" / "causes.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert rows[2:] == [str(cause) for cause in Cause]
