"""A file of weights outside its model's folder is refused by everything that opens an ONNX file here."""

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

from keras_pe.export import read_artifact
from keras_pe.export.artifacts.onnx_model import external_file
from keras_pe.export.runtimes import RuntimeRefusedError
from keras_pe.export.runtimes.onnx_intermediates import InspectedModel
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker


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


@pytest.mark.parametrize("inner", ["weights", "parts/weights"])
@pytest.mark.parametrize("way", ["a link", "a linked folder"])
def test_a_link_out_of_the_folder_is_refused_as_well(tmp_path: Path, inner: str, way: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "weights").write_bytes(b"secret")
    folder = tmp_path / "folder"
    place = folder / inner
    if way == "a link" or inner == "weights":
        place.parent.mkdir(parents=True)
        place.symlink_to(outside / "weights")
    else:
        folder.mkdir()
        place.parent.symlink_to(outside)
    with pytest.raises(ValueError, match="link out of its folder"):
        external_file(folder / "model.onnx", inner)


def test_links_within_the_folder_and_those_of_a_cache_of_downloads_are_followed(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    for name in ("model.onnx", "weights"):
        (tmp_path / "blobs" / f"hash-{name}").write_bytes(b"")
        (tmp_path / "snapshot" / name).symlink_to(tmp_path / "blobs" / f"hash-{name}")
    assert external_file(tmp_path / "snapshot" / "model.onnx", "weights") == tmp_path / "snapshot" / "weights"
    (tmp_path / "blobs" / "again").symlink_to("hash-weights")
    assert external_file(tmp_path / "blobs" / "hash-model.onnx", "again") == tmp_path / "blobs" / "again"
