"""`keras-pe check --data`: exit codes, sentences, and that the worst row is replayed. ONNX files stand for models."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from keras_pe.cli import main
from keras_pe.export.parity.dataset.data_report import DatasetReport

X = np.random.default_rng(0).standard_normal((3000, 4)).astype("float32")
PLANTED = 1234


def write_model(path: Path, threshold: float | None) -> Path:
    """Writes a model that returns the probabilities of two classes; rows above a threshold get them the wrong way."""
    make, tensor = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("MatMul", ["x", "w"], ["logits"]), make("Softmax", ["logits"], ["sound"], axis=-1)]
    if threshold is None:
        nodes += [make("Identity", ["sound"], ["p"])]
    else:
        nodes += [
            make("ReduceMax", ["x", "last"], ["largest"], keepdims=1),
            make("Greater", ["largest", "threshold"], ["is_wrong"]),
            make("Sub", ["one", "sound"], ["swapped"]),
            make("Where", ["is_wrong", "swapped", "sound"], ["p"]),
        ]
    constants = {
        "w": np.random.default_rng(1).standard_normal((4, 2)).astype("float32"),
        "one": np.float32(1),
        "threshold": np.float32(threshold or 0),
        "last": np.array([1]),
    }
    graph = onnx.helper.make_graph(
        nodes,
        "classifier",
        [tensor("x", onnx.TensorProto.FLOAT, ["batch", 4])],
        [tensor("p", onnx.TensorProto.FLOAT, ["batch", 2])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_model(folder / "model.onnx", None)
    write_model(folder / "same.onnx", None)
    write_model(folder / "planted.onnx", 9.0)
    np.savez(folder / "data.npz", x=X)
    wrong = X.copy()
    wrong[PLANTED, 2] = 10.0
    np.savez(folder / "wrong.npz", x=wrong)
    return folder


def check(folder: Path, artifact: str, data: str | Path, *options: str) -> Result:
    arguments = ["check", str(folder / "model.onnx"), str(folder / artifact), "--data", str(folder / data)]
    return CliRunner().invoke(main, [*arguments, "--workers", "0", *options])


def test_exits_with_0_and_says_how_sure_it_is(folder: Path) -> None:
    result = check(folder, "same.onnx", "data.npz")
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "fewer than 10 in 10,000" in text
    header, row, *_ = (line.split() for line in result.output.split("\n\n")[1].splitlines())
    assert header[:5] == ["runtime", "artifact", "result", "rows", "failed"]
    assert row[1:5] == ["same.onnx", "passed", "3,000", "0"]


@pytest.mark.slow
def test_exits_with_1_names_the_row_and_replays_it(folder: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "worst.npz"
    result = check(folder, "planted.onnx", "wrong.npz", "--json", "--bundle", str(bundle))
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    jsonschema.Draft202012Validator(DatasetReport.json_schema()).validate(report)
    (found,) = report["results"]
    counted = found["statistics"]
    assert (counted["rows"], counted["failed"], counted["worst"][0]["row"]) == (3000, 1, PLANTED)
    (changed,) = found["outputs"][0]["statistics"]["changed_classes"]
    assert changed["expected"] != changed["actual"]
    assert changed["count"] == 1
    replayed = CliRunner().invoke(main, ["check", "--replay", str(bundle)])
    assert replayed.exit_code == 1, replayed.output


@pytest.mark.slow
def test_a_share_of_the_rows_may_fail(folder: Path) -> None:
    assert check(folder, "planted.onnx", "wrong.npz", "--allow-changed", "1e-3").exit_code == 0
    assert check(folder, "planted.onnx", "wrong.npz", "--allow-changed", "1e-4").exit_code == 1


@pytest.mark.slow
def test_finished_rows_are_not_checked_again(folder: Path, tmp_path: Path) -> None:
    options = ("--checkpoint-dir", str(tmp_path / "kept"))
    assert check(folder, "same.onnx", "data.npz", *options).exit_code == 0
    again = check(folder, "same.onnx", "data.npz", *options)
    assert again.exit_code == 0
    assert "3,000 rows came from the checkpoint" in " ".join(again.output.split())


@pytest.mark.slow
def test_every_form_of_report_is_written(folder: Path, tmp_path: Path) -> None:
    places = [tmp_path / f"report{suffix}" for suffix in (".html", ".json", ".md", ".xml")]
    options = [text for place in places for text in ("--report", str(place))]
    result = check(folder, "planted.onnx", "wrong.npz", *options)
    assert result.exit_code == 1, result.output
    for place in places:
        assert f"{PLANTED:,}" in place.read_text() or str(PLANTED) in place.read_text(), place


@pytest.mark.slow
def test_a_report_that_cannot_be_written_is_said_and_the_others_are_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").symlink_to("/proc")  # not even root writes there
    places = [tmp_path / "disk" / "report.json", tmp_path / "report.json", tmp_path / "disk" / "worst.npz"]
    options = ["--report", str(places[0]), "--report", str(places[1]), "--bundle", str(places[2])]
    result = check(folder, "planted.onnx", "wrong.npz", *options)
    assert result.exit_code == 2, result.output
    said = " ".join(result.stderr.split())
    assert f"The report could not be written to {places[0]}" in said
    assert f"The bundle could not be written to {places[2]}" in said
    jsonschema.Draft202012Validator(DatasetReport.json_schema()).validate(json.loads(places[1].read_text()))


def damage(folder: Path, kind: str) -> Path:
    """Writes data that cannot be run through the model, in one of many ways, and returns its path."""
    npz, parquet = folder / "data.npz", folder / "data.parquet"
    writers = {
        "missing": lambda: None,
        "empty file": npz.touch,
        "not a zip": lambda: npz.write_text("x\n1\n"),
        "truncated npz": lambda: (np.savez(npz, x=X), npz.write_bytes(npz.read_bytes()[:-99])),
        "other column": lambda: np.savez(npz, y=X, z=X),
        "other width": lambda: np.savez(npz, x=X[:, :3]),
        "too many axes": lambda: np.savez(npz, x=np.stack([X, X], axis=-1)),
        "texts": lambda: np.savez(npz, x=X.astype(str)),
        "complex": lambda: np.savez(npz, x=X.astype("complex64")),
        "objects": lambda: np.savez(npz, x=np.array([{}] * 3, object)),
        "no rows": lambda: np.savez(npz, x=X[:0]),
        "single value": lambda: np.savez(npz, x=np.float32(1)),
        "unequal rows": lambda: np.savez(npz, x=X, other=X[:-1]),
        "records": lambda: np.save(folder / "data.npy", np.zeros(3, [("x", "f4", 4)])),
        "truncated npy": lambda: (np.save(folder / "data.npy", X), os_truncate(folder / "data.npy")),
        "null": lambda: pq.write_table(pa.table({"x": [[1.0, 2.0, 3.0, 4.0], None]}), parquet),
        "null inside": lambda: pq.write_table(pa.table({"x": [[1.0, 2.0, None, 4.0]] * 2}), parquet),
        "dates": lambda: pq.write_table(pa.table({"x": pa.array([1, 2], pa.date32())}), parquet),
        "too long": lambda: pq.write_table(pa.table({"x": [[1.0] * 4, [1.0] * 5]}), parquet),
        "truncated parquet": lambda: (pq.write_table(pa.table({"x": X.tolist()}), parquet), os_truncate(parquet)),
        "two schemas": lambda: [
            pq.write_table(pa.table({name: [1.0]}), folder / f"{name}.parquet") for name in ("x", "y")
        ],
        "two kinds": lambda: (np.save(folder / "data.npy", X), parquet.touch()),
        "empty folder": lambda: None,
        "truncated records": lambda: (folder / "data.tfrecord").write_bytes(b"\x05" + bytes(20)),
        "another suffix": lambda: (folder / "data.csv").write_text("x\n1\n"),
    }
    writers[kind]()
    if kind == "missing":
        return npz
    files = sorted(folder.iterdir())
    return files[0] if len(files) == 1 else folder


def os_truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-99])


KINDS = [
    "missing",
    "empty file",
    "not a zip",
    "truncated npz",
    "other column",
    "other width",
    "too many axes",
    "texts",
    "complex",
    "objects",
    "no rows",
    "single value",
    "unequal rows",
    "records",
    "truncated npy",
    "null",
    "null inside",
    "dates",
    "too long",
    "truncated parquet",
    "two schemas",
    "two kinds",
    "empty folder",
    "truncated records",
    "another suffix",
]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_data_is_a_sentence_and_exit_code_2(folder: Path, tmp_path: Path, kind: str) -> None:
    result = check(folder, "same.onnx", damage(tmp_path, kind))
    assert result.exit_code == 2, result.output
    assert result.stderr.strip().startswith("Error: ")
    assert "Traceback" not in result.output
    sentence = " ".join(result.stderr.split())
    assert sentence.endswith((".", "?", "'")), sentence
    assert len(sentence) > 40


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--inputs", "data.npz", "--data", "data.npz"], "takes the place of the sweep"),
        (["--stop-after", "3"], "--stop-after is about --data"),
        (
            ["--data", "data.npz", "--workers", "0", "--decision", "p", "top2"],
            "'p' by top 2, where a row has the shape (2,)",
        ),
        (["--data", "data.npz", "--cluster", "dask://a:1", "--workers", "2"], "--workers must be left out"),
        (["--data", "data.npz", "--cluster", "spark://a"], "one of dask://HOST:PORT, ray://HOST:PORT"),
    ],
)
def test_options_that_do_not_go_together_are_refused(folder: Path, options: list[str], said: str) -> None:
    paths = [str(folder / text) if text.endswith(".npz") else text for text in options]
    result = CliRunner().invoke(main, ["check", str(folder / "model.onnx"), str(folder / "same.onnx"), *paths])
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())


@pytest.mark.slow
def test_a_column_of_labels_gives_the_accuracy_of_the_model_and_of_the_file(folder: Path, tmp_path: Path) -> None:
    rows = X[:500].copy()
    rows[:20, 2] = 10.0  # the planted file decides them the other way
    classes = (rows @ np.random.default_rng(1).standard_normal((4, 2)).astype("float32")).argmax(axis=1)
    classes[20:120] = 1 - classes[20:120]
    lines = [",".join([*map(repr, map(float, row)), str(label)]) for row, label in zip(rows, classes, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["x_0,x_1,x_2,x_3,class", *lines]))
    for options in (["--label", "class"], ["--label", "p=class", "--decision", "p", "argmax"]):
        result = check(folder, "planted.onnx", tmp_path / "rows.csv", *options, "--json")
        assert result.exit_code == 1, result.output
        (output,) = json.loads(result.stdout)["results"][0]["outputs"]
        assert output["statistics"]["labels"] == 500
        assert (output["expected_accuracy"], output["actual_accuracy"]) == (0.8, 0.76)
    assert "accuracy" in check(folder, "same.onnx", tmp_path / "rows.csv", "--label", "class").output
    for options, word in ((["--label", "clas"], "class"), (["--label", "q=class"], "outputs that decide: p")):
        refused = check(folder, "same.onnx", tmp_path / "rows.csv", *options)
        assert (refused.exit_code, word in refused.output) == (2, True)
