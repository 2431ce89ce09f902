"""`keras-pe identify` names the convention, and its exit code can be relied on."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from keras_pe import timing_signal
from keras_pe.cli import main


def save_table(folder: Path, table: np.ndarray) -> str:
    np.save(folder / "table.npy", table)
    return str(folder / "table.npy")


def test_a_known_table_is_named_with_exit_code_0(tmp_path: Path) -> None:
    path = save_table(tmp_path, timing_signal(np.arange(1, 30), 64).astype(np.float16))
    result = CliRunner().invoke(main, ["identify", path])
    assert result.exit_code == 0
    lines = {line[:18].strip(): line[20:] for line in result.output.splitlines()}
    assert lines["convention"].startswith("opennmt-tf, ")
    assert lines["first position"] == "1"
    assert lines["layout"] == "concatenated"
    assert lines["timescales"] == "32, from 1 to 10000 positions (max_timescale 10000)"


def test_json_holds_what_makes_the_table_again(tmp_path: Path) -> None:
    table = timing_signal(np.arange(50), 16, layout="interleaved", endpoint=False)
    [match] = json.loads(CliRunner().invoke(main, ["identify", save_table(tmp_path, table), "--json"]).output)
    assert "paper" in match["conventions"]
    again = timing_signal(np.arange(50), 16, layout=match["layout"], timescales=match["timescales"])
    np.testing.assert_allclose(again * match["scale"], table, rtol=0, atol=1e-12)


def test_none_of_them_is_exit_code_1(tmp_path: Path) -> None:
    path = save_table(tmp_path, np.random.default_rng(0).normal(size=(8, 8)))
    result = CliRunner().invoke(main, ["identify", path])
    assert result.exit_code == 1
    first, second = result.output.splitlines()
    assert first == "no known convention made this table"
    assert second.startswith("the nearest is ")
    assert CliRunner().invoke(main, ["identify", path, "--json"]).output == "[]\n"


def test_an_unknown_table_gets_the_nearest_convention_with_its_distance(tmp_path: Path) -> None:
    table = 3 * timing_signal(np.arange(1, 41), 32)
    table[::2] *= 1.1  # no convention does this
    result = CliRunner().invoke(main, ["identify", save_table(tmp_path, table)])
    assert result.exit_code == 1
    assert "the nearest is 'opennmt-tf', from position 1, multiplied by 3.1" in result.output or (
        "the nearest is 'tensor2tensor', from position 1, multiplied by 3.1" in result.output
    )
    # The best of two factors 1 and 1.1 is between them, and each row is off by a twentieth.
    assert "off by 5% of the table's magnitude" in result.output


def onnx_file(path: Path, arrays: dict[str, np.ndarray]) -> None:
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "graph", [], [], tensors)), path)


def safetensors_file(path: Path, arrays: dict[str, np.ndarray]) -> None:
    header, content = {}, b""
    for name, array in arrays.items():
        # As bfloat16, which is the upper half of a float32.
        data = (array.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        offsets = [len(content), len(content) + len(data)]
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": offsets}
        content += data
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def keras_file(path: Path, arrays: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.weights.h5", buffer.getvalue())


WRITERS: dict[str, Any] = {
    "model.keras": keras_file,
    "model.onnx": onnx_file,
    "weights.npz": lambda path, arrays: np.savez(path, **arrays),
    "weights.safetensors": safetensors_file,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_tables_in_a_file_are_found_among_its_weights(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = timing_signal(np.arange(2, 50), 32).astype("float32")
    arrays = {"kernel": random.normal(size=(32, 32)).astype("float32"), "bias": np.zeros(32, "float32")}
    WRITERS[name](tmp_path / name, arrays | {"positions": table})
    result = CliRunner().invoke(main, ["identify", str(tmp_path / name)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "positions"
    assert lines[1].partition("  ")[2].strip().startswith("fairseq")
    [match] = json.loads(CliRunner().invoke(main, ["identify", str(tmp_path / name), "--json"]).output)
    assert match["array"] == "positions"

    WRITERS[name](tmp_path / name, arrays)
    without = CliRunner().invoke(main, ["identify", str(tmp_path / name)])
    assert without.exit_code == 1
    assert "no known convention made a table in this file" in without.output
    assert " to kernel, from position " in without.output


def test_the_buffer_of_a_pytorch_module_is_found_in_its_own_shape(tmp_path: Path) -> None:
    """PyTorch's tutorial keeps `(length, 1, channels)`."""
    table = timing_signal(np.arange(200), 32, layout="interleaved", endpoint=False).astype("float32")[:, np.newaxis]
    kernel = np.random.default_rng(0).normal(size=(4, 32)).astype("float32")
    np.savez(tmp_path / "state.npz", **{"pos.pe": table, "out.weight": kernel})
    for path in (tmp_path / "state.npz", Path(save_table(tmp_path, table))):
        result = CliRunner().invoke(main, ["identify", str(path), "--json"])
        assert result.exit_code == 0, result.output
        [match] = json.loads(result.output)
        assert (match["conventions"][0], match["start_index"]) == ("paper", 0)
        assert match.get("array", "pos.pe") == "pos.pe"


@pytest.mark.parametrize("name", ["state.pt", "state.pth"])
def test_a_state_dict_of_pytorch_is_read_or_the_way_out_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    (tmp_path / name).write_bytes(b"")
    result = CliRunner().invoke(main, ["identify", str(tmp_path / name)])
    assert result.exit_code == 2
    assert "pip install torch" in result.output
    assert "safetensors.torch.save_file" in result.output


def test_tensors_of_a_checkpoint_are_found_and_other_objects_are_not_loaded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    table = torch.tensor(timing_signal(np.arange(2, 50), 32), dtype=torch.bfloat16)
    kernel = torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
    state = {"encoder.pe": table[:, None], "kernel": kernel, "steps": torch.tensor(3)}
    moments = {"state": {0: {"exp_avg": table}}}
    torch.save({"model": state, "optimizer": moments, "epoch": 7, "names": ["a"]}, tmp_path / "checkpoint.pt")
    [match] = json.loads(CliRunner().invoke(main, ["identify", str(tmp_path / "checkpoint.pt"), "--json"]).output)
    assert (match["array"], match["conventions"][0]) == ("model.encoder.pe", "fairseq")

    torch.save(torch.nn.Linear(4, 4), tmp_path / "module.pt")
    result = CliRunner().invoke(main, ["identify", str(tmp_path / "module.pt")])
    assert result.exit_code == 2
    assert "model.state_dict()" in result.output


def test_the_convention_of_a_noisy_table_is_near_and_not_named(tmp_path: Path) -> None:
    table = timing_signal(np.arange(5, 105), 64) + np.random.default_rng(0).normal(scale=1e-3, size=(100, 64))
    result = CliRunner().invoke(main, ["identify", save_table(tmp_path, table.astype("float32"))])
    assert result.exit_code == 1
    assert "from position 5: off by 0.001 of the table's magnitude" in result.output
    result = CliRunner().invoke(main, ["identify", save_table(tmp_path, table[::-1].astype("float32"))])
    assert "'gemma-audio', from position 104 on, descending: off by 0.001" in result.output


def test_variables_of_an_optimizer_are_not_tables_of_the_model(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = timing_signal(np.arange(50), 32)
    arrays = {"layers/dense/vars/0": random.normal(size=(32, 32)), "optimizer/vars/3": table}
    keras_file(tmp_path / "model.keras", arrays)
    result = CliRunner().invoke(main, ["identify", str(tmp_path / "model.keras")])
    assert result.exit_code == 1
    assert " to layers/dense/vars/0, from position " in result.output


def test_a_file_of_another_kind_is_told_which_are_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no table")
    result = CliRunner().invoke(main, ["identify", str(tmp_path / "notes.txt")])
    assert result.exit_code == 2
    assert (
        "FILE must end in one of: .h5, .hdf5, .keras, .npz, .onnx, .pt, .pth, .safetensors, .npy. Received:"
        in result.output
    )


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_exit_code_2(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"nothing of the kind")
    result = CliRunner().invoke(main, ["identify", str(tmp_path / name)])
    assert result.exit_code == 2
    assert "could not be read" in result.output


def test_known_timescales_in_an_unused_layout_are_told_apart_from_a_convention(tmp_path: Path) -> None:
    path = save_table(tmp_path, timing_signal(np.arange(20), 32, layout="interleaved"))
    assert "none: the timescales are of tensor2tensor" in CliRunner().invoke(main, ["identify", path]).output


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_array_is_exit_code_2(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "table.npy").write_bytes(content)
    result = CliRunner().invoke(main, ["identify", str(tmp_path / "table.npy")])
    assert result.exit_code == 2
    assert "not an .npy file of numbers" in result.output


def test_several_arrays_too_few_rows_and_a_missing_file_are_exit_code_2(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", one=np.ones(3), two=np.ones(3))
    several = CliRunner().invoke(main, ["identify", str(tmp_path / "two.npz")])
    assert several.exit_code == 2
    assert "one, two" in several.output  # neither is a matrix
    few = CliRunner().invoke(main, ["identify", save_table(tmp_path, np.ones((3, 4)))])
    assert few.exit_code == 2
    assert "at least 4 rows" in few.output
    assert CliRunner().invoke(main, ["identify", str(tmp_path / "missing.npy")]).exit_code == 2


@pytest.mark.slow
def test_it_needs_neither_keras_nor_tensorflow(tmp_path: Path) -> None:
    path = save_table(tmp_path, timing_signal(np.arange(9), 8))
    code = (
        "import sys; from keras_pe.cli import main\n"
        f"try: main(['identify', {path!r}])\n"
        "except SystemExit: print(sorted({'keras', 'tensorflow'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "[]"


@pytest.mark.parametrize("suffix", [".keras", ".safetensors"])
def test_a_table_larger_than_its_file_is_refused_before_it_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"large{suffix}"
    if suffix == ".keras":
        weights = io.BytesIO()
        with h5py.File(weights, "w") as file:
            file.create_dataset("table", (2**20, 2**20), "float32", chunks=(2**10, 2**10))
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model.weights.h5", weights.getvalue())
    else:
        header = b'{"table":{"dtype":"F32","shape":[1048576,1048576],"data_offsets":[0,4398046511104]}}'
        path.write_bytes(len(header).to_bytes(8, "little") + header)
    result = CliRunner().invoke(main, ["identify", str(path)])
    assert result.exit_code == 2
    assert "MemoryError" not in result.output


def test_a_table_too_small_to_tell_is_described_without_a_name_and_is_exit_code_1(tmp_path: Path) -> None:
    months = timing_signal(np.arange(1, 49), 2, timescales=[12 / (2 * np.pi)])
    result = CliRunner().invoke(main, ["identify", save_table(tmp_path, months)])
    lines = {line[:18].strip(): line[20:] for line in result.output.splitlines()}
    assert result.exit_code == 1
    assert lines["convention"] == "undetermined: the table has too few columns to distinguish conventions"
    assert lines["first position"] == "1, 13, 25, 37, 49, 61 or one of 26 more"
    assert (lines["layout"], lines["timescales"]) == ("either", "1, from 1.90986 to 1.90986 positions")
