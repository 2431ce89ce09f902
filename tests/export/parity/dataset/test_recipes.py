"""The recipes of docs/engines.md, run as they stand inside Ray Data and Spark."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keras_pe.export import DataSource
from keras_pe.export.parity import plugins
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.plugins import DATA_SOURCES, EXECUTORS
from tests.export.parity.dataset.conftest import Files, draw
from tests.pages import blocks

PAGE = Path(__file__).parents[4] / "docs" / "engines.md"
ROWS, WRONG = 5000, 4321


def recipe(engine: str, language: str = "python") -> str:
    """Returns the code under a heading of the page."""
    section = PAGE.read_text().split(f"\n## {engine}\n")[1].split("\n## ")[0]
    (script,) = blocks(section, language)
    return script.code


def run(engine: str, folder: Path, files: Files) -> str:
    """Returns what a recipe prints of rows one of which is wrong."""
    shutil.copy(files.model, folder / "model.keras")
    shutil.copy(files.planted, folder / "model.onnx")
    rows = pa.table({"id": [f"row {i}" for i in range(ROWS)], "x": draw(ROWS, magic=WRONG).tolist()})
    pq.write_table(rows, folder / "rows.parquet")
    (folder / "recipe.py").write_text(recipe(engine))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # Spark's workers need the path of this Python, and Ray gives up early on a busy machine.
    environment |= {"PYSPARK_PYTHON": sys.executable, "RAY_raylet_start_wait_time_s": "180"}
    command = [sys.executable, "-P", "recipe.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.exhaustive  # test_cluster has Ray's processes
def test_inside_ray_data_the_wrong_row_is_told_by_its_id(files: Files, tmp_path: Path) -> None:
    assert run("Ray Data", tmp_path, files) == f"1 of {ROWS} rows failed: ['row {WRONG}']"


@pytest.mark.slow
def test_inside_spark_the_wrong_row_is_told_by_its_id(files: Files, tmp_path: Path) -> None:
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        # In CI too: it takes minutes to install, half a gigabyte and Java.
        pytest.skip("Spark needs: apt-get install openjdk-17-jre-headless && pip install pyspark")
    assert run("Spark", tmp_path, files) == f"1 of {ROWS} rows failed: ['row {WRONG}']"


def test_the_example_of_a_data_set_of_ones_own_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class DataFrame:
        """As much of polars' as the example uses."""

        __module__ = "polars"
        columns, height = ["x"], 5

        def iter_slices(self, most: int) -> Iterator[dict[str, Any]]:
            for start in range(0, self.height, most):
                rows = range(start, min(start + most, self.height))
                yield {"x": SimpleNamespace(to_arrow=lambda rows=rows: pa.array(rows))}

    names: dict[str, Any] = {}
    exec(recipe("Data or a cluster of your own"), names)
    groups = tomllib.loads(recipe("Data or a cluster of your own", "toml"))["project"]["entry-points"]
    assert set(groups) == {DATA_SOURCES, EXECUTORS}
    entries = [EntryPoint(*each, group) for group, named in groups.items() for each in named.items()]
    module = entries[0].module
    monkeypatch.setattr(plugins, "entry_points", lambda group: [each for each in entries if each.group == group])
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=DataFrame))
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(**names))
    assert names["open_frame"](5) is None
    source = open_source(DataFrame())
    assert isinstance(source, DataSource)
    assert [len(part["x"]) for part in source.read(None, 2, ["x"])] == [2, 2, 1]
