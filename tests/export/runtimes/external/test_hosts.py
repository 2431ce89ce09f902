"""Programs on the machine are located, and missing ones are reported."""

from pathlib import Path

import pytest

from keras_pe.export.runtimes.external import hosts, specs
from keras_pe.export.runtimes.registry import find_runtimes


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Node, Chromium and packages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hosts, "_BROWSER_PLACES", ())
    for name in ("KERAS_PE_NODE", "KERAS_PE_CHROMIUM", "KERAS_PE_NODE_MODULES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def program(path: Path) -> str:
    path.touch(mode=0o755)
    return str(path)


def package(folder: Path, name: str) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "package.json").write_text("{}")
    return folder / name


def test_a_missing_program_is_reported_with_its_command(bare, monkeypatch):
    with pytest.raises(ImportError, match=r"'onnxruntime_node' needs Node\. Install it with: apt-get install nodejs"):
        find_runtimes(["onnxruntime_node"])
    program(bare / "node")
    with pytest.raises(ImportError, match=r"npm install --ignore-scripts onnxruntime-node .*KERAS_PE_NODE_MODULES"):
        find_runtimes(["onnxruntime_node"])
    with pytest.raises(ImportError, match=r"Chromium or Chrome\. Install it with: apt-get install chromium"):
        find_runtimes(["onnxruntime_web[webgpu]"])
    package(bare / "node_modules", "onnxruntime-node")
    assert len(find_runtimes(["onnxruntime_node"])) == 1


def test_packages_are_found_in_the_working_directory_above_it_or_where_the_variable_says(bare, monkeypatch):
    above = package(bare / "node_modules", "onnxruntime-web")
    (bare / "deep" / "inside").mkdir(parents=True)
    monkeypatch.chdir(bare / "deep" / "inside")
    assert hosts.find_package("onnxruntime-web") == above
    monkeypatch.setenv("KERAS_PE_NODE_MODULES", str(bare / "elsewhere"))
    assert hosts.find_package("onnxruntime-web") is None
    there = package(bare / "elsewhere", "onnxruntime-web")
    assert hosts.find_package("onnxruntime-web") == there


def test_a_program_is_the_one_that_the_variable_names(bare, monkeypatch):
    program(bare / "chromium")
    mine = program(bare / "my-browser")
    assert hosts.find_chromium() == str(bare / "chromium")
    monkeypatch.setenv("KERAS_PE_CHROMIUM", mine)
    assert hosts.find_chromium() == mine
    monkeypatch.setenv("KERAS_PE_CHROMIUM", str(bare / "absent"))
    assert hosts.find_chromium() is None


def test_another_installation_is_named_with_what_it_lacks(tmp_path):
    with pytest.raises(ImportError, match=r"there is no program '/no/such/python'"):
        find_runtimes(["onnxruntime@/no/such/python"])
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'onnxruntime'\" >&2; exit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ImportError, match=r"No module named 'onnxruntime'.*-m pip install numpy onnxruntime"):
        find_runtimes([f"onnxruntime@{broken}"])


@pytest.mark.parametrize(
    "name", ["litert@/usr/bin/python3", "onnxruntime[most]@python", "onnxruntimes@python", "@python"]
)
def test_only_onnx_runtime_at_a_known_level_runs_in_another_installation(name):
    with pytest.raises(ValueError, match=r"must be onnxruntime@PYTHON.*levels disabled, basic, extended, all"):
        find_runtimes([name])


def test_another_python_that_is_slow_or_broken_is_missing_until_it_is_not(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = bare / "python"
    name = f"onnxruntime@{python}"
    monkeypatch.setattr(specs, "_PATIENCE", 0.2)
    for content in ("#!/bin/sh\nexec /bin/sleep 20\n", "#!/nowhere/at/all\n", "#!/bin/sh\necho no >&2; exit 1\n", ""):
        python.write_text(content)
        python.chmod(0o755)
        with pytest.raises(ImportError, match=f"Runtime '{name}' needs"):
            find_runtimes(name)
    python.write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(specs, "_PATIENCE", 60.0)
    assert [spec.name for spec in find_runtimes(name)] == [name]
