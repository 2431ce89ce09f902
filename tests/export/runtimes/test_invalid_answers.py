"""A custom runtime that does not return arrays by name is refused, and the file is not diagnosed."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from keras_pe.export import Cause, check_parity
from keras_pe.export.errors import InvalidAnswerError, RuntimeRefusedError
from keras_pe.export.runtimes import RuntimeSpec
from keras_pe.export.runtimes.runtime_session import RuntimeSession

FACTORY = "tests.export.parity.faulty_runtimes:Answering"
KINDS = [
    "None",
    "a list",
    "an array",
    "a text",
    "a tuple",
    "a generator",
    "None by name",
    "a text by name",
    "objects by name",
    "an object by name",
    "a mapping by name",
    "ragged rows",
    "dates",
    "records",
    "a name that is no text",
    "bytes",
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_told_what_it_returned(kind: str) -> None:
    import numpy as np

    session = RuntimeSession(FACTORY)
    session.ask("load", FACTORY, ["m.onnx"], {"kind": kind})
    with pytest.raises(InvalidAnswerError, match=r"a runtime must return .*Received: "):
        session.ask("run", {"x": np.ones((2, 4), np.float32)})
    assert issubclass(InvalidAnswerError, RuntimeRefusedError)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("kind", ["a list", "objects by name"])
def test_the_report_names_that_and_nothing_else(path: Path, kind: str) -> None:
    spec = RuntimeSpec("mine", "onnx", FACTORY, "numpy", "", options={"kind": kind})
    report = check_parity(path, path, runtimes=spec)
    (result,) = report.results
    assert not report.passed
    assert result.status == "invalid answer"
    assert [finding.cause for finding in result.findings] == [Cause.INVALID_ANSWER]


def test_texts_of_an_array_are_an_answer_of_another_type(path: Path) -> None:
    spec = RuntimeSpec("mine", "onnx", FACTORY, "numpy", "", options={"kind": "texts by name"})
    (result,) = check_parity(path, path, runtimes=spec).results
    assert [finding.cause for finding in result.findings] == [Cause.OTHER_DTYPE]
