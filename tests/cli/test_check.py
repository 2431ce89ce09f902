"""`keras-pe check`: exit codes, output, and what it does without."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from keras_pe.cli import main
from keras_pe.export import Border, Cause, export_onnx
from tests.export.runtimes.servers import open_inference

ONE = ("--runtime", "onnxruntime[all]")  # one process instead of five


def write_scale(path: Path, factor: float) -> Path:
    """Writes an ONNX file that multiplies its input by a factor."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Mul", ["x", "factor"], ["y"], name="scale")],
        "scale",
        [value("x", onnx.TensorProto.FLOAT, ["batch", "length"])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", "length"])],
        [onnx.numpy_helper.from_array(np.float32(factor), "factor")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return (
        write_scale(folder / "one.onnx", 2.0),
        write_scale(folder / "same.onnx", 2.0),
        write_scale(folder / "other.onnx", 2.002),
    )


def test_exits_with_0_where_the_files_agree(files):
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1])])
    assert result.exit_code == 0, result.output
    assert "onnxruntime, 5 levels" in result.output
    assert "passed" in result.output


@pytest.mark.slow
def test_says_where_the_time_went_beside_the_report(files):
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), *ONE, "--json", "--profile"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    assert lines[0].split() == ["stage", "seconds", "processor", "in", "the", "runtime"]
    assert [line for line in lines if "onnxruntime[all] same.onnx" in line]
    assert [line for line in lines if line.endswith("longest")]
    assert sum(stage["seconds"] for stage in report["stages"]) == pytest.approx(report["seconds"])
    in_all = float(lines[-1].split()[2])
    # Every line is rounded to a hundredth.
    assert in_all == pytest.approx(report["seconds"], abs=0.005 * len(lines))


def test_exits_with_1_where_they_differ_and_says_by_how_much(files):
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[2]), *ONE, "--json"])
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    assert report["passed"] is False
    worst = max(c["max_rel_diff"] for case in report["results"][0]["cases"] for c in case["comparisons"])
    assert worst == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.slow
def test_quiet_prints_verdicts_alone_and_verbose_every_case(files):
    def check(*options):
        return CliRunner().invoke(main, ["check", str(files[0]), str(files[2]), *ONE, *options])

    plain, quiet, verbose = check(), check("-q"), check("-v")
    assert plain.exit_code == quiet.exit_code == verbose.exit_code == 1
    lines = quiet.stdout.splitlines()
    assert all(line.endswith("FAILED") for line in lines)
    assert len(lines) < len(plain.stdout.splitlines()) < len(verbose.stdout.splitlines())
    both = check("-q", "--verbose")
    assert both.exit_code == 2
    assert "--quiet" in both.output


@pytest.mark.parametrize("runtime", [[], ["--runtime", "onnxruntime"]])
def test_a_check_of_no_artifact_could_not_be_tried_and_names_the_way_out(files, runtime):
    result = CliRunner().invoke(main, ["check", str(files[0]), *runtime])
    assert result.exit_code == 2
    assert "ARTIFACTS must have at least one" in result.output
    assert "--runtime keras" in " ".join(result.output.split())


@pytest.mark.parametrize("arguments", [["missing.onnx"], ["{0}", "{1}", "--runtime", "onxruntime"], ["{0}", "--bad"]])
def test_exits_with_2_where_it_cannot_be_tried(files, arguments):
    result = CliRunner().invoke(main, ["check", *(each.format(*files) for each in arguments)])
    assert result.exit_code == 2
    assert ("--runtime must be known" if "--runtime" in arguments else "Error") in result.stderr


@pytest.mark.slow
def test_inputs_that_the_model_refuses_are_wrong_usage_and_no_verdict(files, tmp_path):
    np.savez(tmp_path / "flat.npz", x=np.zeros(3, np.float32))
    np.savez(tmp_path / "fit.npz", x=np.zeros((2, 3), np.float32))
    flat, fit = (["--inputs", str(tmp_path / f"{name}.npz")] for name in ("flat", "fit"))
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), *ONE, *flat, "--json"])
    assert result.exit_code == 2, result.output
    assert f"--inputs must have a case that {files[0]} takes. Received: {flat[1]}, which it refuses" in result.stderr
    assert result.stdout == ""
    both = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), *ONE, *flat, *fit])
    assert both.exit_code == 0, both.output


@pytest.mark.slow
def test_an_unreadable_file_exits_with_2(tmp_path, files):
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    result = CliRunner().invoke(main, ["check", str(broken), str(files[0])])
    assert result.exit_code == 2
    assert "could not be opened" in result.output


def test_a_module_that_is_not_there_is_told_as_an_export_tells_it(tmp_path, files):
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(tmp_path / "model.keras")
    result = CliRunner().invoke(main, ["check", str(tmp_path / "model.keras"), str(files[0]), "--import", "layerz"])
    assert result.exit_code == 2
    assert result.stderr == "Error: --import layerz failed: ModuleNotFoundError: No module named 'layerz'\n"


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["one.onnx", "stored.npz"])
def test_two_files_are_compared_without_tensorflow_and_keras(files, tmp_path, reference):
    for name in ("tensorflow", "keras"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} must not be needed')")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(files[0].parent / "stored.npz", **{"inputs/x": x, "outputs/y": 2 * x})
    command = [sys.executable, "-c", "from keras_pe.cli import main; main()", "check"]
    done = subprocess.run(
        [*command, str(files[0].parent / reference), str(files[1])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "30 values compared" in " ".join(done.stdout.split()) or reference == "one.onnx"
    )  # six values at each of five optimization levels


def test_reports_are_written_by_suffix(files, tmp_path):
    paths = [tmp_path / f"report.{suffix}" for suffix in ("html", "json", "md", "xml")]
    options = [option for path in paths for option in ("--report", str(path))]
    arguments = [str(files[0]), str(files[2]), *ONE, *options]
    assert CliRunner().invoke(main, ["check", *arguments]).exit_code == 1
    assert json.loads(paths[1].read_text())["passed"] is False
    for path in paths:
        assert "onnxruntime" in path.read_text()


def test_a_report_that_cannot_be_written_exits_with_2_before_anything_runs(files, tmp_path):
    done = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), "--report", str(tmp_path / "report.pdf")])
    assert done.exit_code == 2
    assert "Error: --report: A report's name must end in one of: .html, .json, .md, .xml" in done.output
    assert "onnxruntime" not in done.output


@pytest.mark.slow
def test_a_failure_is_bundled_and_replayed_with_one_command(files, tmp_path):
    bundle = tmp_path / "failure.npz"
    done = CliRunner().invoke(main, ["check", str(files[0]), str(files[2]), *ONE, "--bundle", str(bundle)])
    assert done.exit_code == 1
    assert f"keras-pe check --replay {bundle}" in done.stderr
    assert CliRunner().invoke(main, ["check", "--replay", str(bundle)]).exit_code == 1


@pytest.mark.slow
def test_a_check_that_passes_leaves_no_bundle(files, tmp_path):
    bundle = tmp_path / "failure.npz"
    assert CliRunner().invoke(main, ["check", *map(str, files[:2]), *ONE, "--bundle", str(bundle)]).exit_code == 0
    assert not bundle.exists()


@pytest.mark.parametrize("arguments", ["", "--replay {0}", "--replay {0} {1}", "--replay {0} --seed 1"])
def test_a_replay_takes_a_bundle_and_nothing_that_it_would_pass_over(files, arguments):
    done = CliRunner().invoke(main, ["check", *(each.format(*files) for each in arguments.split())])
    assert done.exit_code == 2
    assert "Error" in done.output


@pytest.mark.slow
def test_sizes_of_a_dimension_can_be_given(files):
    one, same, _ = files
    options = ["--sizes", "length=5,9", *ONE, "--json"]
    result = CliRunner().invoke(main, ["check", str(one), str(same), *options])
    assert result.exit_code == 0, result.output
    cases = [case["name"] for case in json.loads(result.stdout)["cases"]]
    assert {name.partition("length ")[2][:1] for name in cases if "length" in name} == {"5", "9"}
    for text, said in (("length", "NAME=SIZE,SIZE"), ("height=3", "--sizes must be of batch, length")):
        result = CliRunner().invoke(main, ["check", str(one), str(same), "--sizes", text])
        assert result.exit_code == 2
        assert said in result.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "inf"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--seed", "-1"], "--seed"),
        (["--range", "tokens", "5", "1"], "--range"),
        (["--range", "tokens", "-inf", "inf"], "--range"),
        (["--atol", "1e-3", "--atol", "1e-4"], "--atol"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_the_name_of_its_option(
    tmp_path: Path, option: list[str], said: str
) -> None:
    (tmp_path / "model.keras").touch()
    result = CliRunner().invoke(main, ["check", str(tmp_path / "model.keras"), *option])
    assert result.exit_code == 2
    assert f"Invalid value for '{said}'" in result.stderr


@pytest.mark.parametrize(
    "option",
    ["--range x 0 1", "--atol x=1", "--sizes x=1", "--column x y", "--decision x argmax", "--pad x 0"],
)
def test_two_values_for_one_name_are_refused(files: tuple[Path, ...], option: str) -> None:
    data = [] if option.startswith(("--range", "--sizes")) else ["--data", str(files[0])]
    result = CliRunner().invoke(main, ["check", *map(str, files[:2]), *data, *option.split(), *option.split()])
    assert result.exit_code == 2
    assert f"{option.split()[0]} must be given once for each" in result.stderr
    assert "Received: x twice." in result.stderr


@pytest.mark.parametrize("option", [["--import", "layers"], ["--unsafe"]])
def test_how_a_keras_model_is_loaded_is_refused_where_there_is_none(files, option):
    result = CliRunner().invoke(main, ["check", *map(str, files[:2]), *option])
    assert result.exit_code == 2
    assert f"{option[0]} is about a MODEL that Keras saved" in " ".join(result.output.split())


@pytest.mark.slow
def test_accepted_differences_are_judged_by_the_given_numbers(files):
    one, _, other = map(str, files)
    for given, code in (("--rtol", "1e-2"), 0), (("--atol", "y=1e9"), 0), (("--atol", "1e-9"), 1):
        result = CliRunner().invoke(main, ["check", one, other, *ONE, *given])
        assert result.exit_code == code, result.output
    assert "accepted: atol 1e-09." in result.output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--rtol", "-1"), "--rtol must be at least 0"),
        (("--precision", "half"), "--precision must be one of: float16, bfloat16, int8, int4"),
        (("--allow-changed", "nan"), "--allow-changed must be a share"),
        (("--atol", "y="), "It must be VALUE or OUTPUT=VALUE. Received: y=."),
        (("--atol", "=1"), "It must be VALUE or OUTPUT=VALUE. Received: =1."),
        (("--atol", "1", "--atol", "y=1"), "one VALUE, or OUTPUT=VALUE for each"),
    ],
)
def test_an_invalid_allowance_exits_with_2_and_names_the_option(files, given, said):
    result = CliRunner().invoke(main, ["check", *map(str, files[:2]), *given])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.slow
def test_a_file_beside_the_address_of_its_server_is_checked_as_well(files):
    with open_inference(files[1]) as address:
        result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), "--runtime", address, "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["results"]
    assert [each["format"] for each in found] == ["onnx"] * 5 + ["served"]


def test_a_server_that_refuses_every_case_is_said_by_its_answer(files):
    with open_inference(files[1], status=500) as address:
        result = CliRunner().invoke(main, ["check", str(files[0]), "--runtime", address, "--json"])
    assert result.exit_code == 1, result.output
    (finding,) = json.loads(result.stdout)["results"][0]["findings"]
    assert finding["cause"] == Cause.REFUSED_CASE
    assert "500 Internal Server Error" in finding["evidence"]


def test_a_runtime_that_takes_none_of_the_files_is_exit_2_with_those_that_do(files):
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), "--runtime", "litert"])
    assert result.exit_code == 2
    assert "Received: litert for" in result.stderr
    assert "onnxruntime" in result.stderr


@pytest.mark.slow
def test_the_options_of_a_border_accept_a_file_of_another_exporter(tmp_path):
    image = keras.Input((4, 4, 3), name="image")
    model = keras.Model(image, keras.layers.Dense(5, name="scores")(keras.layers.Flatten()(image)), name="model")
    model.save(tmp_path / "model.keras")
    border = Border(layout={"image": "channels_first"}, postprocessing={"scores": "argmax"})
    export_onnx(model, tmp_path / "model.onnx", border=border)
    file = onnx.load(tmp_path / "model.onnx")
    del file.metadata_props[:]
    onnx.save(file, tmp_path / "model.onnx")
    command = ["check", str(tmp_path / "model.keras"), str(tmp_path / "model.onnx"), *ONE]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1, refused.output
    said = " ".join(refused.output.split())
    accepting = ["--layout", "image=channels_first", "--postprocessing", "scores=argmax"]
    assert " ".join(accepting) in said
    accepted = CliRunner().invoke(main, [*command, *accepting])
    assert accepted.exit_code == 0, accepted.output


@pytest.mark.parametrize("options", [[], ["--data", "rows.npz"]])
def test_runtimes_that_take_no_artifact_could_not_be_tried(files, tmp_path, options):
    np.savez(tmp_path / "rows.npz", x=np.ones((4, 3), "float32"))
    options = [str(tmp_path / each) if each.endswith(".npz") else each for each in options]
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), "--runtime", "litert", *options])
    assert result.exit_code == 2
    assert "--runtime must" in result.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "1e9"])
def test_a_time_that_is_no_time_names_the_option(files, seconds):
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1]), "--timeout", seconds])
    assert result.exit_code == 2
    assert "--timeout" in result.stderr


def test_a_fault_of_this_package_keeps_its_traceback(files, monkeypatch):
    def broken(*arguments, **keywords):
        return None.results

    monkeypatch.setattr("keras_pe.export.parity.check_parity.check_parity", broken)
    result = CliRunner().invoke(main, ["check", str(files[0]), str(files[1])])
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback")
    assert "test_check.py" in result.stderr


def test_an_archive_that_claims_more_than_memory_is_named(files, tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**42,)})
    with zipfile.ZipFile(tmp_path / "big.npz", "w") as file:
        file.writestr("x.npy", header.getvalue() + bytes(64))
    result = CliRunner().invoke(main, ["check", *map(str, files[:2]), "--inputs", str(tmp_path / "big.npz")])
    assert result.exit_code == 2
    assert f"{tmp_path / 'big.npz'} cannot be read" in result.stderr
