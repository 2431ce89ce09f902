"""An artifact as the reference: a case that ends its process gets an error, and the next case gets a new process."""

from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import ArtifactReference
from keras_pe.export.runtimes.registry import find_runtimes
from tests.cli.test_check_data import write_model
from tests.export.parity.work.lookup_runtime import DEADLY, UNWANTED, spec
from tests.raised import about


def test_a_case_that_it_does_not_survive_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "nothing.onnx").touch()
    cases = tuple(
        Case(str(value), {"x": np.full((1, 2), value, np.float32)}, "") for value in (1.0, DEADLY, 2.0, UNWANTED, 3.0)
    )
    with ArtifactReference(tmp_path / "nothing.onnx", spec("Dying"), 60.0) as reference:
        answers = reference.answer(cases)
    assert [each.outputs and each.outputs["y"].tolist() for each in answers] == [
        [[2.0, 2.0]],
        None,
        [[4.0, 4.0]],
        None,
        [[6.0, 6.0]],
    ]
    assert "signal 9" in str(answers[1].error)
    assert "unwanted" in str(answers[3].error)


def test_sizes_are_given_of_an_artifact_as_of_a_model(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", None)
    (onnxruntime,) = find_runtimes("onnxruntime[all]")
    with ArtifactReference(path, onnxruntime, 60.0, {"batch": 5}) as reference:
        assert reference.dimensions["batch"].sizes.given == (5,)
    with pytest.raises(ValueError, check=about("sizes")):
        ArtifactReference(path, onnxruntime, 60.0, {"batch": ()})
