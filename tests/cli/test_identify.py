"""`keras-pe identify` names the convention, and its exit code can be relied on."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from keras_pe import timing_signal
from keras_pe.cli import main


def saved(folder: Path, table: np.ndarray) -> str:
    np.save(folder / "table.npy", table)
    return str(folder / "table.npy")


def test_a_known_table_is_named_with_exit_code_0(tmp_path: Path) -> None:
    path = saved(tmp_path, timing_signal(np.arange(1, 30), 64).astype(np.float16))
    result = CliRunner().invoke(main, ["identify", path])
    assert result.exit_code == 0
    lines = {line[:18].strip(): line[20:] for line in result.output.splitlines()}
    assert lines["convention"].startswith("opennmt-tf, ")
    assert lines["first position"] == "1"
    assert lines["layout"] == "concatenated"
    assert lines["timescales"] == "32, from 1 to 10000 positions (max_timescale 10000)"


def test_json_holds_what_makes_the_table_again(tmp_path: Path) -> None:
    table = timing_signal(np.arange(50), 16, layout="interleaved", endpoint=False)
    [match] = json.loads(CliRunner().invoke(main, ["identify", saved(tmp_path, table), "--json"]).output)
    assert "paper" in match["conventions"]
    again = timing_signal(np.arange(50), 16, layout=match["layout"], timescales=match["timescales"])
    np.testing.assert_allclose(again * match["scale"], table, rtol=0, atol=1e-12)


def test_none_of_them_is_exit_code_1(tmp_path: Path) -> None:
    path = saved(tmp_path, np.random.default_rng(0).normal(size=(8, 8)))
    result = CliRunner().invoke(main, ["identify", path])
    assert (result.exit_code, result.output) == (1, "none of these conventions made this table\n")
    assert CliRunner().invoke(main, ["identify", path, "--json"]).output == "[]\n"


def test_known_timescales_in_an_unused_layout_are_told_apart_from_a_convention(tmp_path: Path) -> None:
    path = saved(tmp_path, timing_signal(np.arange(20), 32, layout="interleaved"))
    assert "none: the timescales are of tensor2tensor" in CliRunner().invoke(main, ["identify", path]).output


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_file_that_is_no_array_is_exit_code_2(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "table.npy").write_bytes(content)
    result = CliRunner().invoke(main, ["identify", str(tmp_path / "table.npy")])
    assert result.exit_code == 2
    assert "is no .npy file of numbers" in result.output


def test_several_arrays_too_few_rows_and_a_missing_file_are_exit_code_2(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", one=np.ones(3), two=np.ones(3))
    several = CliRunner().invoke(main, ["identify", str(tmp_path / "two.npz")])
    assert several.exit_code == 2
    assert "one, two" in several.output
    few = CliRunner().invoke(main, ["identify", saved(tmp_path, np.ones((3, 4)))])
    assert few.exit_code == 2
    assert "at least 4 rows" in few.output
    assert CliRunner().invoke(main, ["identify", str(tmp_path / "missing.npy")]).exit_code == 2


def test_it_needs_neither_keras_nor_tensorflow(tmp_path: Path) -> None:
    path = saved(tmp_path, timing_signal(np.arange(9), 8))
    code = (
        "import sys; from keras_pe.cli import main\n"
        f"try: main(['identify', {path!r}])\n"
        "except SystemExit: print(sorted({'keras', 'tensorflow'} & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()[-1] == "[]"


def test_a_table_too_small_to_tell_is_described_without_a_name_and_is_exit_code_1(tmp_path: Path) -> None:
    months = timing_signal(np.arange(1, 49), 2, timescales=[12 / (2 * np.pi)])
    result = CliRunner().invoke(main, ["identify", saved(tmp_path, months)])
    lines = {line[:18].strip(): line[20:] for line in result.output.splitlines()}
    assert result.exit_code == 1
    assert lines["convention"] == "not to be told: so few columns are one convention's as well as another's"
    assert lines["first position"] == "1, 13, 25, 37, 49, 61 or one of 26 more"
    assert (lines["layout"], lines["timescales"]) == ("either", "1, from 1.90986 to 1.90986 positions")
