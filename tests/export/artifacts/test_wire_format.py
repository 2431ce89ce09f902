"""A broken or hostile file ends the reading with an error, and at once."""

import io
from pathlib import Path

import numpy as np
import onnx
import pytest

from keras_pe.export.artifacts.onnx_model import WireFormatError, fields, header, read_without_weights, varint


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63])
def test_a_written_value_is_read(value: int) -> None:
    content = header(7, 3) + b"abc" + varint(2 << 3) + varint(value)
    found = list(fields(io.BytesIO(content), len(content)))
    assert found == [(7, 2, 0, 2, 5), (2, 0, 5, 6, len(content))]


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 10_000_000, b"\x80" * 9, b"\x3a\x05abc", b"\x0b", b"\x3a"],
    ids=["endless number", "cut number", "cut content", "wire type", "no length"],
)
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(WireFormatError):
        list(fields(io.BytesIO(content), len(content)))


def test_no_length_of_a_cut_file_is_read(tmp_path: Path) -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [300])],
        [onnx.helper.make_tensor_value_info("y", 1, [300])],
        [onnx.numpy_helper.from_array(np.ones(300, "float32"), "w")],
    )
    content = onnx.helper.make_model(graph).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert read_without_weights(path).graph.initializer[0].external_data[0].key == "location"
    ends = {stop for *_, stop in fields(io.BytesIO(content), len(content))}  # there the rest is a message as well
    for length in sorted(set(range(0, len(content), 7)) - ends - {0}):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="is not a whole ONNX file"):
            read_without_weights(path)
