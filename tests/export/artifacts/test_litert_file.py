"""A LiteRT file whose values stand behind the flatbuffer, as the LiteRT quantizer writes them from 256 KiB on."""

from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.artifacts.litert_file import constants, pack_model, quantized_constants, read_scales
from keras_pe.export.parity.diagnosis.calibration.rounding_costs import measure_rounding
from tests.export.parity.diagnosis.calibration.integer_graphs import IntegerGraph

ROWS = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
KERNEL = np.arange(64, dtype=np.int8).reshape(8, 8)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    graph = IntegerGraph(8)
    kernel = graph.add("DequantizeLinear", "first/kernel", KERNEL, np.array([0.01], "f4"), np.zeros(1, np.int8))
    first = graph.round_tensor(graph.add("MatMul", "first", "x", kernel), -8, 8)
    return graph.save_litert(tmp_path / "inside.tflite", graph.add("Mul", "last", first, ROWS[0]))


def with_values_behind(file: Path) -> Path:
    """Writes a copy whose values follow the flatbuffer, each at a multiple of 16."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(file.read_bytes(), 0)
    values = {each: bytes(each.data) for each in model.buffers if each.data is not None and len(each.data)}
    head = b""
    for _ in range(2):  # any offsets have equal lengths, so the second round has the final ones
        end = len(head) + -len(head) % 16 + 16
        for buffer, stored in values.items():
            buffer.data, buffer.offset, buffer.size = None, end, len(stored)
            end += len(stored) + -len(stored) % 16
        head = pack_model(model)
    content = bytearray(head.ljust(end, b"\0"))
    for buffer, stored in values.items():
        content[buffer.offset : buffer.offset + buffer.size] = stored
    behind = file.with_name("behind.tflite")
    behind.write_bytes(content)
    return behind


def test_values_behind_the_flatbuffer_are_read(file: Path) -> None:
    behind = with_values_behind(file)
    for read in (constants, lambda path: {name: numbers for name, (numbers, _) in quantized_constants(path).items()}):
        own, other = read(file), read(behind)
        assert own.keys() == other.keys() != set()
        assert all(np.array_equal(own[name], other[name]) for name in own)
    assert [each[:3] for each in read_scales(behind)] == [each[:3] for each in read_scales(file)]


def test_rounding_is_measured_in_a_file_with_values_behind_the_flatbuffer(file: Path) -> None:
    own, other = (measure_rounding(path, [{"x": ROWS}]) for path in (file, with_values_behind(file)))
    assert [each.name for each in own.costs] == [each.name for each in other.costs] == ["first"]
    for one, two in zip((*own.floats, *own.rounded), (*other.floats, *other.rounded), strict=True):
        assert all(np.array_equal(one[name], two[name]) for name in one)
