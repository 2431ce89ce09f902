"""A damaged record in the metadata of an artifact raises ValueError with the name of the record."""

import pytest

from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.artifacts.rewrite import UNFUSED_KEY, read_unfused
from keras_pe.export.artifacts.target_layers import TARGET_KEY, read_target, read_target_layers
from keras_pe.export.model.sizes.dimensions import dimensions_from_json

WILD = ["", "null", "[]", "[[1]]", '{"a": [1]}', "NaN", "1e999", '{"layers": [{}]}', '{"a":' * 100_000]


@pytest.mark.parametrize("text", WILD, ids=lambda text: text[:12])
def test_a_damaged_record_is_an_error_that_names_the_record(text: str) -> None:
    readers = {
        "numbers": lambda: read_record(text, lambda content: [int(content["number"])], "numbers"),
        "sizes": lambda: dimensions_from_json(text),
        "a target": lambda: read_target({TARGET_KEY: text}),
        "layers of a target": lambda: read_target_layers({TARGET_KEY: text}),
        "reasons for decomposed operators": lambda: read_unfused({UNFUSED_KEY: text}),
    }
    for name, read in readers.items():
        with pytest.raises(ValueError, match=f"has {name} that cannot be read"):
            read()


def test_a_record_is_read_by_its_function() -> None:
    assert read_record('{"number": 3}', lambda content: content["number"], "a number") == 3
    assert read_target({}) is None
