"""`keras-pe plot` writes the requested picture, or reports why it cannot."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from keras_pe import timing_signal
from keras_pe.cli import main
from tests.full_disk import full_disk


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["plot", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    np.save(tmp_path / "table.npy", timing_signal(np.arange(40), 16).astype(np.float16))
    return tmp_path / "table.npy"


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("kind", ["heatmap", "similarity", "wavelengths"])
@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_convention_is_drawn(tmp_path: Path, kind: str, suffix: str, magic: bytes) -> None:
    picture = tmp_path / f"picture.{suffix}"
    code, output = run(kind, picture, "--convention", "fairseq", "--channels", 16, "--length", 8)
    assert (code, output) == (0, f"{picture} written\n")
    assert picture.read_bytes().startswith(magic)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heatmap", "similarity", "error"])
def test_a_table_is_drawn(tmp_path: Path, table: Path, kind: str) -> None:
    assert run(kind, tmp_path / "picture.svg", "--table", table)[0] == 0
    assert "position" in (tmp_path / "picture.svg").read_text()


@pytest.mark.slow
def test_several_conventions_share_one_picture_of_wavelengths(tmp_path: Path) -> None:
    two = ("--convention", "paper", "--convention", "one-based")
    assert run("wavelengths", tmp_path / "picture.svg", *two)[0] == 0
    drawn = (tmp_path / "picture.svg").read_text()
    assert "<!-- paper -->" in drawn
    assert "<!-- one-based -->" in drawn
    assert run("heatmap", tmp_path / "picture.svg", *two)[0] == 2
    code, output = run("heatmap", tmp_path / "picture.svg", "--convention", "fairsec")
    assert (code, "--convention must be a convention" in output) == (2, True)


@pytest.mark.slow
def test_a_full_disk_is_exit_code_2_and_the_old_picture_stays(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"old")
    with full_disk(500):
        code, output = run("heatmap", picture)
    assert (code, "could not be written" in output) == (2, True)
    assert [(each, each.read_bytes()) for each in tmp_path.iterdir()] == [(picture, b"old")]


def test_a_table_of_no_convention_has_no_error_to_draw(tmp_path: Path) -> None:
    np.save(tmp_path / "random.npy", np.random.default_rng(0).normal(size=(8, 8)))
    code, output = run("error", tmp_path / "picture.png", "--table", tmp_path / "random.npy")
    assert code == 1
    assert "none of the conventions made" in output
    assert not (tmp_path / "picture.png").exists()


@pytest.mark.slow
def test_an_undrawable_table_is_exit_code_2(tmp_path: Path, table: Path) -> None:
    picture = tmp_path / "picture.png"
    assert run("heatmap", tmp_path / "picture.gif")[0] == 2
    assert run("error", picture)[0] == 2
    assert run("wavelengths", picture, "--table", table)[0] == 2
    assert run("heatmap", picture, "--table", table, "--convention", "paper")[0] == 2
    code, output = run("heatmap", picture, "--convention", "papier")
    assert (code, "Did you mean 'paper'" in output) == (2, True)
    assert run("heatmap", picture, "--convention", "d2l", "--channels", 7)[0] == 2
    assert run("heatmap", picture, "--length", 0)[0] == 2
    code, output = run("heatmap", picture, "--length", 10**14)
    assert (code, "Unable to allocate" in output, "Traceback" in output) == (2, True, False)
    assert not picture.exists()
