"""`keras-pe export` from the outside: what it writes, prints and returns."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from click.testing import CliRunner, Result

from keras_pe.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((None, 4), name="values"), keras.layers.Dense(2, name="out")]).save(path)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)])


def test_one_format_is_written_where_it_was_asked_for(model: Path, tmp_path: Path) -> None:
    result = run(model, tmp_path / "out.onnx", "--opset", 19, "--explain")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.onnx").is_file()
    assert "(batch, length, 4)" in result.output
    assert "19" in result.output
    assert "MatMul" in result.output
    assert "8·batch·length" in result.output


@pytest.mark.slow
def test_quiet_prints_paths_and_verbose_the_seconds_of_stages(model: Path, tmp_path: Path) -> None:
    quiet = run(model, tmp_path / "quiet.onnx", "--quiet")
    assert quiet.output == f"{tmp_path / 'quiet.onnx'}\n"
    verbose = run(model, tmp_path / "verbose.onnx", "-v")
    for stage in ("signature", "trace", "convert", "run"):
        assert any(line.startswith(f"onnx: {stage}: ") and line.endswith(" s") for line in verbose.stderr.splitlines())


@pytest.mark.slow
def test_a_target_prints_whether_the_device_takes_each_layer(tmp_path: Path) -> None:
    path, out = tmp_path / "model.keras", tmp_path / "out.tflite"
    inputs = keras.Input((4, 4, 4, 1))
    x = keras.layers.Conv3D(2, 2, name="volumes")(keras.layers.Rescaling(2.0, name="scale")(inputs))
    keras.Model(inputs, keras.layers.Flatten(name="flat")(x)).save(path)
    refused = run(path, out, "--target", "web", "--explain")
    assert refused.exit_code == 1
    assert not out.exists()
    (row,) = (line for line in refused.stdout.splitlines() if "volumes" in line)
    assert "falls back" in row
    assert "CONV_3D" in refused.stderr
    flat = run(path, tmp_path / "out.onnx", "--target", "gpu")
    assert (flat.exit_code, "--target" in flat.stderr) == (2, True)


@pytest.mark.slow
def test_explain_prints_why_an_lstm_of_a_litert_file_stays_a_loop(tmp_path: Path) -> None:
    path, out = tmp_path / "model.keras", tmp_path / "out.tflite"
    keras.Sequential([keras.Input((3, 2)), keras.layers.LSTM(2, name="memory")]).save(path)
    written = run(path, out, "--explain")
    assert written.exit_code == 0, written.output
    assert any("memory" in line and "UNIDIRECTIONAL_SEQUENCE_LSTM" in line for line in written.stdout.splitlines())
    refused = run(path, tmp_path / "out", "--format", "tf_saved_model", "--explain")
    assert (refused.exit_code, "--explain" in refused.stderr) == (2, True)


@pytest.mark.slow
def test_several_formats_share_the_beginning_of_their_names(model: Path, tmp_path: Path) -> None:
    result = run(
        model,
        tmp_path / "out",
        "--format",
        "onnx",
        "--format",
        "tf_saved_model",
        "--external-data",
        "--json",
        "--explain",
    )
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    assert [each["layer"] for each in written[0]["contents"]] == ["out"]
    assert "contents" not in written[1]
    assert [Path(entry["path"]).name for entry in written] == ["out.onnx", "out"]
    assert written[0]["inputs"] == [{"name": "values", "shape": ["batch", "length", 4], "dtype": "float32"}]
    assert (tmp_path / "out" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_the_border_of_an_artifact_is_told_by_name(model: Path, tmp_path: Path) -> None:
    doubled = tmp_path / "doubled.keras"
    keras.Sequential([keras.Input((None, 4)), keras.layers.Rescaling(2.0)]).save(doubled)
    border = ["--batch", 3, "--dtype", "values=uint8", "--preprocessing", f"values={doubled}", "--output", "label=out"]
    result = run(model, tmp_path / "out.onnx", *border, "--postprocessing", "label=argmax", "--json")
    assert result.exit_code == 0, result.output
    (written,) = json.loads(result.stdout)
    assert written["inputs"] == [{"name": "values", "shape": [3, "length", 4], "dtype": "uint8"}]
    assert written["outputs"] == [{"name": "label", "shape": [3, "length"], "dtype": "int32"}]


def test_a_border_that_is_not_written_as_one_cannot_be_tried(model: Path, tmp_path: Path) -> None:
    result = run(model, tmp_path / "out.onnx", "--dtype", "uint8")
    assert (result.exit_code, "--dtype must be NAME=VALUE. Received: uint8." in result.stderr) == (2, True)
    for given in ("=out", "new=", ""):
        result = run(model, tmp_path / "out.onnx", "--output", given)
        assert (result.exit_code, "--output must be NAME=VALUE. Received: " in result.stderr) == (2, True)
    result = run(model, tmp_path / "out.onnx", "--output", "x=out", "--output", "x=other")
    assert (result.exit_code, "--output must be given once for each name. Received: x twice." in result.stderr) == (
        2,
        True,
    )
    result = run(model, tmp_path / "out.onnx", "--rename-input", "photo=nope")
    assert (result.exit_code, "--rename-input must be of " in result.stderr) == (2, True)
    result = run(model, tmp_path / "out.onnx", "--layout", "values=nchw")
    assert (result.exit_code, "Received: 'values': 'nchw'" in result.stderr) == (2, True)


def test_a_truncated_model_cannot_be_tried_and_says_which_file(model: Path, tmp_path: Path) -> None:
    model.write_bytes(model.read_bytes()[:1000])
    result = run(model, tmp_path / "out.onnx")
    assert result.exit_code == 2
    assert "model.keras could not be loaded" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.keras"]


def test_a_foreign_file_in_the_way_is_named_and_kept(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out.onnx").write_text("mine")
    result = run(model, tmp_path / "out.onnx")
    assert result.exit_code == 2
    assert "Move it away" in result.stderr
    assert (tmp_path / "out.onnx").read_text() == "mine"


def test_a_refused_export_exits_with_one(tmp_path: Path) -> None:
    x = keras.Input((4, 4))
    keras.Model(x, keras.layers.Hashing(8, name="buckets")(keras.ops.cast(x, "int32"))).save(tmp_path / "model.keras")
    result = run(tmp_path / "model.keras", tmp_path / "out.onnx")
    assert result.exit_code == 1
    assert "layer 'buckets'" in result.stderr


def test_an_unknown_format_is_a_usage_error(model: Path, tmp_path: Path) -> None:
    assert run(model, tmp_path / "out", "--format", "onx").exit_code == 2


def test_an_option_of_another_format_is_a_usage_error(model: Path, tmp_path: Path) -> None:
    for option in (["--opset", 19], ["--external-data"]):
        result = run(model, tmp_path / "out.tflite", *option)
        assert result.exit_code == 2
        assert f"{option[0]} must go with the format onnx. Received: litert." in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.keras"]


@pytest.mark.slow
def test_several_formats_are_written_and_reported_if_sound(tmp_path: Path) -> None:
    x = keras.Input((4, 4))
    keras.Model(x, keras.ops.svd(x)[1], name="net").save(tmp_path / "model.keras")
    result = run(tmp_path / "model.keras", tmp_path / "out", "--format", "onnx", "--format", "tf_saved_model", "--json")
    assert result.exit_code == 1
    assert "ONNX export of 'net' stopped" in result.stderr
    assert [entry["format"] for entry in json.loads(result.stdout)] == ["tf_saved_model"]
    assert not (tmp_path / "out.onnx").exists()


def test_the_sizes_that_were_found_are_shown(model: Path, tmp_path: Path) -> None:
    result = run(model, tmp_path / "out.onnx")
    assert "batch, length" in result.output
    assert "any" in result.output


def test_sizes_can_be_given(model: Path, tmp_path: Path) -> None:
    result = run(model, tmp_path / "out.onnx", "--sizes", "length=64,224")
    assert result.exit_code == 0, result.output
    assert "64, 224 (given)" in result.output


def test_sizes_of_a_dimension_that_is_given_twice_are_refused(model: Path, tmp_path: Path) -> None:
    result = run(model, tmp_path / "out.onnx", "--sizes", "length=3", "--sizes", "length=5")
    assert result.exit_code == 2
    assert "--sizes must be given once for each dimension. Received: length twice." in result.stderr


@pytest.mark.parametrize("text", ["length", "length=", "=3", "length=3,x", "length=0"])
def test_sizes_of_another_form_are_refused(model: Path, tmp_path: Path, text: str) -> None:
    result = run(model, tmp_path / "out.onnx", "--sizes", text)
    assert result.exit_code == 2
    assert "--sizes must be NAME=SIZE,SIZE" in result.stderr


def test_sizes_of_no_dimension_are_refused_by_name(model: Path, tmp_path: Path) -> None:
    result = run(model, tmp_path / "out.onnx", "--sizes", "height=64")
    assert result.exit_code == 2
    assert "--sizes must be of the dynamic dimensions batch, length" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_a_model_on_another_backend_is_handed_over_without_being_asked(
    backend: str, model: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    command = [sys.executable, "-m", "keras_pe", "export", str(model), str(tmp_path / "out.onnx"), "--json"]
    environment = {**os.environ, "KERAS_BACKEND": backend}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)[0]["inputs"][0]["shape"] == ["batch", "length", 4]
    assert (tmp_path / "out.onnx").is_file()


@pytest.mark.parametrize("name", ["out.pb", "out", "out.keras"])
def test_a_name_that_ends_like_no_format_is_a_usage_error_that_lists_them(
    model: Path, tmp_path: Path, name: str
) -> None:
    result = run(model, tmp_path / name)
    assert result.exit_code == 2
    assert ".onnx for onnx, .tflite for litert" in result.stderr
    assert "tf_saved_model" in result.stderr
    assert not (tmp_path / name).exists()


OWN_LAYER = """
import keras

@keras.saving.register_keras_serializable("own")
class Doubled(keras.layers.Layer):
    def call(self, inputs):
        return 2 * inputs
"""
SAVED = "from own_layers import Doubled; keras.Sequential([keras.Input((3,)), Doubled()])"
LAMBDA = "keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: 2 * x)])"


def in_a_fresh_process(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "keras_pe", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def special(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of a layer of one's own, and one of a Lambda layer."""
    folder = tmp_path_factory.mktemp("special")
    (folder / "own_layers.py").write_text(OWN_LAYER)
    code = f"import keras; m = {LAMBDA}; m.save('lambda.keras'); {SAVED}.save('own.keras')"
    code = code.replace("from own_layers", "\nfrom own_layers").replace("Doubled; keras", "Doubled\nkeras")
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return folder


@pytest.mark.slow
def test_layers_of_ones_own_are_known_where_their_module_is_imported(special: Path) -> None:
    refused = run(special / "own.keras", special / "own.onnx")
    assert refused.exit_code == 2
    assert "Could not locate class 'Doubled'. Import the module that" in refused.stderr
    assert refused.stderr.endswith("with --import MODULE.\n")
    assert refused.stderr.startswith("Error: "), "an empty line where a bar would have been"
    assert not (special / "own.onnx").exists()
    done = in_a_fresh_process(special, "export", "own.keras", "own.onnx", "--import", "own_layers")
    assert done.returncode == 0, done.stderr
    checked = in_a_fresh_process(special, "check", "own.keras", "own.onnx", "--import", "own_layers")
    assert checked.returncode == 0, checked.stderr
    missing = run(special / "own.keras", special / "own.onnx", "--import", "own_layerz")
    assert missing.exit_code == 2
    assert "--import own_layerz failed: ModuleNotFoundError" in missing.output


@pytest.mark.slow
def test_a_lambda_is_loaded_only_where_that_is_allowed(special: Path) -> None:
    refused = run(special / "lambda.keras", special / "lambda.onnx")
    assert refused.exit_code == 2
    assert "lambda.keras could not be loaded: it holds the Python code of a Lambda layer." in refused.output
    assert "allow it with --unsafe" in refused.output
    done = run(special / "lambda.keras", special / "lambda.onnx", "--unsafe")
    assert done.exit_code == 0, done.output
