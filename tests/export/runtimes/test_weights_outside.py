"""A file of weights outside its model's folder is refused by everything that opens an ONNX file here."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

from keras_pe.export import RuntimeRefusedError, read_artifact
from keras_pe.export.runtimes.intermediates import InspectedModel
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runner import Worker


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model that names the file beside its folder as its weights."""
    (tmp_path / "secret").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    weights = TensorProto(name="w", dims=[4], data_type=TensorProto.FLOAT, raw_data=bytes(16))
    set_external_data(weights, "../secret", 0, 16)
    weights.ClearField("raw_data")
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", tensors[:1], tensors[1:], [weights])
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString())
    return path


def test_no_reader_follows_it(path: Path) -> None:
    for read in (read_artifact, lambda file: InspectedModel(str(file))):
        with pytest.raises(ValueError, match=r"outside its folder, '\.\./secret'"):
            read(path)


@pytest.mark.slow
def test_no_other_installation_is_handed_it(path: Path) -> None:
    (spec,) = find_runtimes(f"onnxruntime@{sys.executable}")
    with Worker(spec, timeout=60) as worker, pytest.raises(RuntimeRefusedError, match="outside its folder"):
        worker.load(path)
