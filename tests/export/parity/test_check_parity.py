"""The whole check, on a small model and its real artifacts."""

import inspect

import keras
import numpy as np
import pytest
from onnx import TensorProto, helper

import keras_pe
from keras_pe.export import check_dataset, check_parity, export_onnx, export_saved_model, replay_bundle
from keras_pe.export.runtimes import worker as worker_module
from tests.raised import about


class Reversing(keras.Model):
    """A model that accepts any length in a call, and no length if compiled for all."""

    def __init__(self):
        super().__init__(name="reversing")
        self.input_spec = keras.layers.InputSpec(shape=(None, None, 4), dtype="float32")

    def call(self, x):
        return keras.ops.stack([x[:, i] for i in reversed(range(int(x.shape[1])))], axis=1)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(50, 8, mask_zero=True)(tokens)
    x = keras_pe.SinusoidalPositionEncoding()(x)
    x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(tokens, keras.layers.Dense(5, activation="softmax", name="scores")(x), name="small")


@pytest.fixture(scope="module")
def artifacts(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifacts")
    return export_onnx(model, folder / "small.onnx"), export_saved_model(model, folder / "small")


def test_every_check_calls_the_same_things_by_the_same_names_with_the_same_defaults():
    parity, data, replay = (
        {name: (each.kind, each.default) for name, each in inspect.signature(each_check).parameters.items()}
        for each_check in (check_parity, check_dataset, replay_bundle)
    )
    assert set(data) - set(parity) == {"data", "batching", "acceptance", "workers", "checkpoint_dir"}
    assert set(replay) - set(parity) == {"bundle"}
    shared = set(parity) & set(data) - {"artifacts"}  # a sweep needs no artifacts
    assert {name: parity[name] for name in shared} == {name: data[name] for name in shared}
    limits = ("timeout", "diagnosis_seconds", "progress")
    assert [parity[name] for name in limits] == [replay[name] for name in limits]


@pytest.mark.slow
def test_a_sound_model_passes_in_every_runtime_on_shapes_never_traced(model, artifacts):
    report = check_parity(model, artifacts)
    assert report.passed, str(report)
    ran = {result.runtime for result in report.results}
    levels = {f"onnxruntime[{level}]" for level in ("disabled", "basic", "extended", "layout", "all")}
    assert ran == {"keras[graph]", "tensorflow", *levels}
    assert len(report.cases) == 8
    for case in report.cases:
        batch, length = eval(case.inputs["tokens"].removeprefix("int32 "))
        assert batch != length
    assert report.compared > 10_000


@pytest.mark.slow
def test_a_model_that_cannot_be_compiled_is_a_result_and_no_end_of_the_check():
    model = Reversing()
    model(np.zeros((1, 3, 4), np.float32))
    (result,) = check_parity(model, runtimes="keras[graph]").results
    assert (result.runtime, result.status, result.passed) == ("keras[graph]", "not loaded", False)
    assert "TypeError" in result.error


@pytest.mark.parametrize(("artifacts", "runtimes"), [((), None), ([], None), ([], ["onnxruntime"])])
def test_a_check_of_nothing_is_an_error_with_a_way_out(model, artifacts, runtimes):
    with pytest.raises(ValueError, match=r"`artifacts` must have at least one\. Received: none\. .*runtimes='keras'"):
        check_parity(model, artifacts, runtimes=runtimes)


@pytest.mark.parametrize("artifacts", [None, 3, [None]])
def test_artifacts_that_are_no_paths_are_refused_by_the_name_of_the_argument(model, artifacts):
    with pytest.raises(TypeError, match=r"`artifacts` must be paths.* Received: (None|3)"):
        check_parity(model, artifacts)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_a_seed_that_is_no_whole_number_from_zero_is_refused_by_its_name(model, seed):
    with pytest.raises(ValueError, match=rf"`seed` must be a whole number from 0\. Received: seed={seed}\."):
        check_parity(model, seed=seed, runtimes="keras[graph]")


@pytest.mark.slow
def test_ids_stay_within_the_vocabulary_and_the_report_says_what_was_tried(model):
    report = check_parity(model, runtimes="keras")
    assert [case.error for case in report.cases] == [None] * len(report.cases)
    assert "all padding" in {case.name for case in report.cases}


@pytest.mark.slow
def test_an_input_that_the_model_refuses_everywhere_compares_nothing_and_fails(model):
    report = check_parity(model, inputs=[{"tokens": np.array([[50, 51]], np.int32)}], runtimes="keras[graph]")
    assert not report.passed
    assert report.cases[0].error is not None


@pytest.mark.slow
def test_an_artifact_that_no_runtime_ran_has_failed_whatever_else_passed(model, artifacts):
    report = check_parity(model, artifacts, runtimes=["keras[graph]", "onnxruntime[all]"])
    assert [(result.runtime, result.passed) for result in report.results] == [
        ("keras[graph]", True),
        ("onnxruntime[all]", True),
        ("none", False),
    ]
    assert not report.passed
    assert "runtime accepts tf_saved_model" in str(report)


@pytest.mark.slow
def test_stored_arrays_may_have_the_types_that_numpy_gives_by_default(model, artifacts, tmp_path):
    tokens = np.array([[1, 2, 3], [4, 5, 0]])  # int64
    scores = model(tokens.astype(np.int32)).numpy().astype(np.float64)
    np.savez(tmp_path / "stored.npz", **{"inputs/tokens": tokens, "outputs/scores": scores})
    for reference, inputs in ((tmp_path / "stored.npz", None), (model, [{"tokens": tokens}])):
        report = check_parity(reference, artifacts[0], inputs=inputs, runtimes="onnxruntime[all]")
        assert report.passed, str(report)
        assert report.compared == scores.size


def test_a_model_is_not_an_artifact(model, tmp_path):
    model.save(tmp_path / "small.keras")
    with pytest.raises(ValueError, check=about("artifacts")):
        check_parity(model, tmp_path / "small.keras")


@pytest.mark.slow
def test_a_model_that_takes_certain_sizes_only_is_asked_for_these(tmp_path):
    x = inputs = keras.Input((None, None, 1), name="x")
    x = keras.layers.UpSampling2D()(keras.layers.MaxPooling2D()(x))
    model = keras.Model(inputs, keras.layers.Concatenate(name="y")([x, inputs]))
    artifact = export_onnx(model, tmp_path / "m.onnx")
    for reference in (model, artifact):  # the reference has cached its results
        report = check_parity(reference, artifact, runtimes="onnxruntime[all]")
        assert report.passed
        assert not any(case.error for case in report.cases)
    report = check_parity(model, artifact, runtimes="onnxruntime[all]", sizes={"height": (6,), "width": (4, 8)})
    sizes = {case.name.partition(", ")[2].removesuffix(", again") for case in report.cases if "height" in case.name}
    assert sizes == {"height 6, width 4", "height 6, width 8"}


@pytest.mark.slow
def test_a_check_of_many_files_has_few_processes_at_once(tmp_path, monkeypatch):
    present, most = set(), []

    class Counted(worker_module.Worker):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            present.add(self)
            most.append(len(present))

        def close(self):
            present.discard(self)
            super().close()

    monkeypatch.setattr(worker_module, "Worker", Counted)
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10).SerializeToString()
    files = [tmp_path / f"{number}.onnx" for number in range(worker_module.AT_ONCE + 3)]
    for file in files:
        file.write_bytes(content)
    report = check_parity(files[0], [*files, files[0]], runtimes="onnxruntime[all]")
    assert report.passed
    assert [result.artifact for result in report.results] == [
        str(file) for file in files
    ]  # one that is named twice once
    assert len(most) == len(files)
    assert max(most) == worker_module.AT_ONCE
    assert not present
