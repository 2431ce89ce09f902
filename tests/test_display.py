"""Results in a prompt and a notebook."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_pe import RotaryPositionEncoding, identify, rope_timescales, timing_signal
from keras_pe.conventions import identify_rotary
from keras_pe.display import printable
from keras_pe.export import Format
from keras_pe.export.model.sizes.dimensions import Dimension, Kind
from keras_pe.export.records import Artifact, Signature, TensorInfo
from tests.export.parity.dataset import samples as of_data
from tests.export.parity.presentation.samples import ALL, FAILING

_METADATA = {"keras_pe.encodings": "{" + 1000 * "." + "}"}
ARTIFACT = Artifact(
    Format.ONNX,
    Path("a|b.onnx"),
    (TensorInfo("x", ("batch", 8), "float32"),),
    (TensorInfo("<y>", ("batch", 2), "float32"),),
    nbytes=2**12,
    seconds=1.0,
    opset_version=18,
    metadata=_METADATA,
)
_DIMENSIONS = {"batch": Dimension(Kind.BATCH, "batch")}
RESULTS: dict[str, Any] = {
    "artifact": ARTIFACT,
    "signature": Signature(ARTIFACT.inputs, ARTIFACT.outputs, ("x",), "<y>", {"batch": 3}, _DIMENSIONS),
    "match": identify(timing_signal(range(2, 42), 64))[0],
    "match that tells little": identify(timing_signal(range(20), 2))[0],
    "rotary match": identify_rotary(lambda x: np.asarray(RotaryPositionEncoding()(x)), 8),
    "rates": rope_timescales("default", 128),
    "runtime": FAILING.results[0],
    "case": FAILING.results[0].cases[0],
    "comparison": FAILING.results[0].cases[0].comparisons[0],
    "profile": FAILING.results[0].profile,
    **ALL,
    "data": of_data.FAILING,
    "data result": of_data.FAILING.results[0],
    "data summary": of_data.FAILING.results[0].outputs[0],
    "data statistics": of_data.FAILING.results[0].statistics,
    "data output": of_data.FAILING.results[0].outputs[0].statistics,
    "data histogram": of_data.FAILING.results[0].outputs[0].statistics.errors,
    "data row": of_data.FAILING.results[0].statistics.worst[0],
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_prompt_shows_a_result_in_one_line(name: str) -> None:
    shown = repr(RESULTS[name])
    assert "\n" not in shown.rstrip()
    assert len(shown) < 320, shown
    assert type(RESULTS[name]).__name__ in shown


def test_a_notebook_shows_an_artifact_as_a_table_that_is_escaped() -> None:
    assert "<td>a|b.onnx</td>" in ARTIFACT._repr_html_()
    assert "&lt;y&gt;: float32 (batch, 2)" in ARTIFACT._repr_html_()
    assert "| path | a\\|b.onnx |" in ARTIFACT._repr_markdown_()
    assert "4.0 KiB" in ARTIFACT._repr_html_()


def test_a_notebook_shows_the_sizes_that_a_signature_takes() -> None:
    assert "<th>sizes</th><td>batch: any</td>" in RESULTS["signature"]._repr_html_()


def test_a_match_names_its_convention_first() -> None:
    assert repr(RESULTS["match"]).startswith("<Match: fairseq and ")


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[31mb\u202ec\0\n层\t") == "a\\x1b[31mb\\u202ec\\x00\n层\t"
