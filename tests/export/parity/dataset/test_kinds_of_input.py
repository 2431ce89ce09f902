"""A float, an integer, a text and a mask go through together, rows of several lengths side by side."""

from pathlib import Path

import keras
import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keras_pe.export import Batching, Border, export_onnx
from keras_pe.export.parity.dataset.check_dataset import check_dataset
from keras_pe.export.parity.dataset.parity_batch import ParityBatch
from keras_pe.export.parity.work.executors import ProcessPool
from keras_pe.export.parity.work.worker_session import close_session
from tests.raised import about

ROWS = 500
LENGTHS = [row % 7 + 1 for row in range(ROWS)]


def write_model(path: Path, wrong: str = "") -> Path:
    """Writes a model of four inputs: `total` (batch,) is x plus the ids that are not masked, `same` is the text.

    Args:
        path: The file.
        wrong: A text for which `total` is one too large.
    """
    make, tensor, kinds = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto
    nodes = [
        make("Cast", ["ids"], ["numbers"], to=kinds.FLOAT),
        make("Where", ["mask", "numbers", "zero"], ["kept"]),
        make("ReduceSum", ["kept", "axis"], ["sum"], keepdims=0),
        make("Add", ["sum", "x"], ["sound"]),
        make("Equal", ["text", "wrong"], ["is_wrong"]),
        make("Cast", ["is_wrong"], ["shift"], to=kinds.FLOAT),
        make("Add", ["sound", "shift"], ["total"]),
        make("Identity", ["text"], ["same"]),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.float32(0), "zero"),
        onnx.numpy_helper.from_array(np.array([1]), "axis"),
        onnx.helper.make_tensor("wrong", kinds.STRING, [], [wrong.encode()]),
    ]
    inputs = [
        tensor("x", kinds.FLOAT, ["batch"]),
        tensor("ids", kinds.INT64, ["batch", "length"]),
        tensor("mask", kinds.BOOL, ["batch", "length"]),
        tensor("text", kinds.STRING, ["batch"]),
    ]
    outputs = [tensor("total", kinds.FLOAT, ["batch"]), tensor("same", kinds.STRING, ["batch"])]
    graph = onnx.helper.make_graph(nodes, "mixed", inputs, outputs, constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=10), path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("in_pool", [False, True])
def test_rows_go_through_the_border_that_a_file_records(pool: ProcessPool, tmp_path: Path, in_pool: bool) -> None:
    image = keras.Input((None, None, 3), name="image")
    scores = keras.layers.Dense(7, name="scores")(keras.layers.GlobalAveragePooling2D()(image))
    model = keras.Model(image, scores, name="model")
    border = Border(
        dtypes={"image": "uint8"},
        layout={"image": "channels_first"},
        preprocessing={"image": keras.layers.Rescaling(1 / 255)},
        postprocessing={"scores": "argmax"},
    )
    export_onnx(model, tmp_path / "bordered.onnx", border=border)
    export_onnx(model, tmp_path / "plain.onnx")
    rows = {"image": np.random.default_rng(0).integers(0, 256, (50, 6, 5, 3), "uint8")}
    workers = pool if in_pool else 0
    report = check_dataset(model, tmp_path / "bordered.onnx", rows, workers=workers)
    assert report.passed, str(report)
    assert report.rows == 50
    with pytest.raises(ValueError, check=about("artifacts")):
        check_dataset(model, [tmp_path / "bordered.onnx", tmp_path / "plain.onnx"], rows, workers=workers)


@pytest.mark.slow
def test_rows_of_a_file_of_others_wait_until_its_interface_is_accepted(tmp_path: Path) -> None:
    ids = keras.Input((None,), dtype="int32", name="ids")
    model = keras.Model(ids, keras.layers.Embedding(30, 4, name="words")(ids), name="model")
    wide = Border(dtypes={"ids": "int64"})
    export_onnx(model, tmp_path / "model.onnx", border=wide)
    file = onnx.load(tmp_path / "model.onnx")
    del file.metadata_props[:]
    onnx.save(file, tmp_path / "model.onnx")
    rows = {"ids": np.random.default_rng(0).integers(0, 30, (40, 6))}
    refused = check_dataset(model, tmp_path / "model.onnx", rows, workers=0)
    assert not refused.passed
    assert "--dtype ids=int64" in refused.results[0].error
    assert check_dataset(model, tmp_path / "model.onnx", rows, workers=0, border=wide).passed


def columns() -> dict[str, list]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal(ROWS).astype("float32").tolist(),
        "ids": [rng.integers(0, 9, length).tolist() for length in LENGTHS],
        "mask": [[True] * length for length in LENGTHS],
        "text": [f"row {row}" for row in range(ROWS)],
        "label": [0] * ROWS,
    }


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [(), (4, 8)], ids=["by length", "in buckets"])
def test_every_row_arrives_whatever_its_length(tmp_path: Path, buckets: tuple[int, ...]) -> None:
    model, wrong = write_model(tmp_path / "model.onnx"), write_model(tmp_path / "wrong.onnx", wrong="row 77")
    pq.write_table(pa.table(columns()), tmp_path / "data.parquet")
    report = check_dataset(
        model, [model, wrong], tmp_path / "data.parquet", workers=0, batching=Batching(length_buckets=buckets)
    )
    sound, other = report.results
    assert (sound.passed, sound.statistics.rows) == (True, ROWS)
    assert sound.statistics.outputs["same"].rows == ROWS
    assert other.statistics.failed == 1
    worst = other.statistics.worst[0]
    assert (worst.row, worst.inputs["text"].item()) == (77, "row 77")
    length = next((size for size in buckets if size >= LENGTHS[77]), LENGTHS[77])
    assert worst.inputs["ids"].shape == worst.inputs["mask"].shape == (length,)
    assert worst.actual["total"] - worst.expected["total"] == pytest.approx(1)


@pytest.mark.slow
def test_inside_another_engine_each_row_gets_its_verdict(tmp_path: Path) -> None:
    check = ParityBatch(write_model(tmp_path / "model.onnx"), write_model(tmp_path / "wrong.onnx", wrong="row 5"))
    found = columns()
    for start in (0, 10):  # as Ray Data and Spark do: batch after batch
        batch = {name: values[start : start + 10] for name, values in found.items()}
        verdict = check(batch)
        assert np.flatnonzero(verdict["failed"]).tolist() == ([5] if start == 0 else [])
        assert (verdict["error"] > 1).tolist() == verdict["failed"].tolist()
    close_session()
