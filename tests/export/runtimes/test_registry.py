"""Runtimes by name: variants, missing packages, typing errors."""

from pathlib import Path

import pytest

from keras_pe.export.runtimes import registry, runtime
from keras_pe.export.runtimes.registry import default_runtimes, find_runtimes, runtimes_for
from keras_pe.export.runtimes.runtime import RuntimeSpec


def test_a_name_without_brackets_stands_for_all_variants():
    names = [spec.name for spec in find_runtimes(["onnxruntime"])]
    assert names[:5] == [f"onnxruntime[{level}]" for level in ("disabled", "basic", "extended", "layout", "all")]
    assert [spec.name for spec in find_runtimes(["onnxruntime[all]"])] == ["onnxruntime[all]"]


def test_a_name_of_one_runtime_stands_for_it_alone():
    assert [spec.name for spec in find_runtimes("litert")] == ["litert"]
    assert [spec.options for spec in find_runtimes("litert[builtin]")] == [{"xnnpack": False}]
    assert "litert[builtin]" not in [spec.name for spec in default_runtimes()]


def test_a_runtime_has_to_take_one_of_the_artifacts_and_the_error_names_those_that_do():
    artifacts = [("onnx", Path("model.onnx"))]
    said = r"Received: litert for model\.onnx\. Choose one of: onnxruntime, onnx_reference, openvino"
    with pytest.raises(ValueError, match=said):
        runtimes_for(artifacts, "litert")
    several = runtimes_for([*artifacts, ("tf_saved_model", Path("model"))], "onnxruntime[all]")
    assert [spec.name for spec in several] == ["onnxruntime[all]"]


def test_a_file_beside_a_server_goes_through_the_runtimes_of_a_check_that_names_none():
    server = RuntimeSpec("http://host/v2/models/m", "served", "", "sys", "")
    chosen = runtimes_for([("onnx", Path("model.onnx"))], server)
    assert chosen == (server, *(spec for spec in default_runtimes() if spec.format == "onnx"))
    assert runtimes_for([], server) == (server,)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"`runtimes` must be known. Received: 'onxruntime'.*Did you mean 'onnxruntime'\?"
    ):
        find_runtimes(["onxruntime"])


@pytest.mark.parametrize("names", [3, b"onnxruntime", [3], ["onnxruntime", None]])
def test_another_object_than_a_name_or_a_spec_is_refused(names):
    with pytest.raises(TypeError, match=r"^`runtimes` must be names or specs of runtimes\. Received: runtimes="):
        find_runtimes(names)


def test_a_runtime_that_is_not_installed_is_an_error_by_name_and_a_line_in_the_report_otherwise(monkeypatch):
    missing = RuntimeSpec("absent", "onnx", "absent:Runtime", "no_such_package", "pip install absent")
    monkeypatch.setattr(registry, "known_runtimes", lambda: (missing,))
    with pytest.raises(ImportError, match=r"needs the package 'no_such_package'. Install it with: pip install absent"):
        find_runtimes(["absent"])
    assert default_runtimes() == (missing,)


def test_a_slow_or_rare_runtime_runs_only_by_name():
    named = {"keras[xla]", "onnx_reference", "openvino"}
    assert not named & {spec.name for spec in default_runtimes()}
    assert {spec.name for spec in find_runtimes(["keras[xla]", "onnx_reference"])} <= named


def test_one_name_or_one_spec_is_as_good_as_a_list_of_one():
    (spec,) = find_runtimes("onnxruntime[all]")
    assert find_runtimes(spec) == find_runtimes(["onnxruntime[all]"]) == (spec,)


def test_no_execution_provider_but_the_processor_runs_without_being_named():
    assert all("provider" not in spec.options for spec in default_runtimes())


def test_the_model_itself_runs_on_the_backend_that_keras_has(monkeypatch):
    variants = {"tensorflow": ["keras[graph]"], "jax": ["keras[jit]"], "torch": []}
    for backend, names in variants.items():
        monkeypatch.setattr(runtime, "keras_backend", lambda backend=backend: backend)
        assert [spec.name for spec in default_runtimes() if spec.format == "keras"] == names
    with pytest.raises(ImportError, match=r"'keras\[graph\]' needs Keras on another backend than torch. Set KERAS_B"):
        find_runtimes("keras")


@pytest.mark.parametrize(
    "names",
    [
        ["onnxruntime[all]", "onnxruntime[all]"],
        ["onnxruntime", "onnxruntime[all]", "onnxruntime"],
        ["keras[graph]", "keras"],
        ["onnx_reference", *find_runtimes("onnx_reference")],
    ],
)
def test_a_runtime_that_is_named_twice_runs_once(names):
    found = [spec.name for spec in find_runtimes(names)]
    assert len(found) == len(set(found))
    assert {name if isinstance(name, str) else name.name for name in names} & set(found)


def test_two_runtimes_of_one_name_are_refused():
    mine = RuntimeSpec("onnxruntime[all]", "onnx", "mine:Runtime", "numpy", "pip install numpy")
    with pytest.raises(ValueError, match=r"`runtimes` must .*Received: 'onnxruntime\[all\]'"):
        find_runtimes(["onnxruntime", mine])
