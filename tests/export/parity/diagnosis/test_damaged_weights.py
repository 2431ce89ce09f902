"""Each weight of ten models damaged, by a little and by a lot: the layer that owns it is named, and no other."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker
from tests.export.parity.diagnosis import damaged
from tests.export.parity.diagnosis.damaged import MODELS, built, check, damage, damages, export_model, faulty_layers

# A bias of the keys adds the same to all that a query is compared with: softmax takes it away, and no output changes.
WITHOUT_EFFECT = ("key/bias",)

SAMPLE = [
    (damaged.functional, "norm/gamma", 0.01),
    (damaged.subclassed_model, "one/kernel", 0.01),
    (damaged.subclassed_model, "two/bias", 1.0),
    (damaged.two_outputs, "shared/kernel", 1.0),
]


@pytest.fixture(scope="module")
def worker():
    with Worker(*find_runtimes("onnxruntime[all]"), timeout=120) as started:
        yield started


def _is_owner(layer: str, path: str) -> bool:
    return layer.rpartition("/")[2] == path.split("/")[-2]


@pytest.mark.slow
@pytest.mark.parametrize(("build", "path", "size"), SAMPLE, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_owner_of_a_damaged_weight_is_the_only_layer_named(build, path, size, worker, tmp_path):
    source = export_model(build, tmp_path)
    (weight,) = [each for each in damages(built(build)[0]) if each[0].endswith(path) and each[2] == size]
    result = check(build, damage(source, tmp_path / "damaged.onnx", {weight[0]: size}), worker)
    assert not result.passed
    (layer,) = faulty_layers(result)
    assert _is_owner(layer, weight[0])
    assert [finding.cause for finding in result.findings] == ["changed values"]
    assert result.proof is not None
    assert result.proof.holds


@pytest.mark.slow
def test_two_damages_in_two_layers_are_both_named_and_proved_together(worker, tmp_path):
    source = export_model(damaged.functional, tmp_path)
    sizes = {"first/kernel": 0.3, "last/bias": 0.3}
    result = check(damaged.functional, damage(source, tmp_path / "damaged.onnx", sizes), worker)
    assert faulty_layers(result) == {"first", "last"}
    assert result.proof is not None
    assert set(result.proof.layers) == {"first", "last"}
    assert result.proof.holds


@pytest.mark.slow
def test_the_truth_is_computed_once_and_not_again_for_what_looks_for_causes(worker, tmp_path, monkeypatch):
    _, reference, expectations = built(damaged.functional)
    predict, ran = reference.predict, []
    monkeypatch.setattr(reference, "predict", lambda model, inputs: ran.append(model) or predict(model, inputs))
    reference.answer([each.case for each in expectations])
    assert ran.count(reference.float64_model) == len(expectations)
    ran.clear()
    source = export_model(damaged.functional, tmp_path)
    path = damage(source, tmp_path / "damaged.onnx", {"first/kernel": 1.0})
    assert faulty_layers(check(damaged.functional, path, worker)) == {"first"}
    assert ran.count(reference.float64_model) == 1  # layer by layer, in one case
    ran.clear()
    assert reference.expect(expectations[0].case.inputs) is not None
    assert ran == [reference.model]


@pytest.mark.parametrize(
    ("models", "fewest"),
    [
        pytest.param(MODELS[::4], 25, marks=pytest.mark.slow),
        pytest.param(MODELS, 100, marks=pytest.mark.exhaustive),
    ],
    ids=["sample", "all"],
)
def test_at_least_98_of_100_damages_name_their_owner_alone(models, fewest, worker, tmp_path):
    wrong, count = [], 0
    for build in models:
        source = export_model(build, tmp_path)
        stored = {tensor.name for tensor in onnx.load(source).graph.initializer}
        assert check(build, source, worker).passed
        for path, _, size in damages(built(build)[0]):
            if path not in stored or path.endswith(WITHOUT_EFFECT):
                continue
            count += 1
            result = check(build, damage(source, tmp_path / "damaged.onnx", {path: size}), worker)
            layers = faulty_layers(result)
            if result.passed or len(layers) != 1 or not _is_owner(*layers, path):
                wrong.append((build.__name__, path, size, result.passed, layers))
    assert count >= fewest
    assert len(wrong) <= 0.02 * count, wrong


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # Keras asks NumPy 2.4 for it
def test_in_files_that_keras_exports_at_least_90_of_100_damages_name_their_owner_alone(worker, tmp_path):
    wrong, count = [], 0
    for build in (damaged.functional, damaged.convolutional, damaged.attention):
        source, owners = _by_keras(build, tmp_path / f"{build.__name__}.onnx")
        assert check(build, source, worker).passed
        for name, path in owners.items():
            for size in (0.01, 1.0):
                count += 1
                result = check(build, damage(source, tmp_path / "damaged.onnx", {name: size}), worker)
                layers = faulty_layers(result)
                if result.passed or len(layers) != 1 or not _is_owner(*layers, path):
                    wrong.append((build.__name__, path, size, result.passed, layers))
    assert count >= 20
    assert len(wrong) <= 0.1 * count, wrong


def _by_keras(build, path):
    """Returns a file that Keras exported, with the signature's names, and the weight in each constant of its own."""
    model, reference, _ = built(build)
    model.export(path, format="onnx", verbose=False)
    file = onnx.load(path)
    pairs = [*zip(file.graph.input, reference.signature.inputs, strict=True)]
    pairs += zip(file.graph.output, reference.signature.outputs, strict=True)
    names = {value.name: spec.name for value, spec in pairs}
    for node in file.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value, spec in pairs:
        value.name = spec.name
    onnx.save(file, path)
    weights = {v.path: np.sort(v.numpy(), axis=None) for v in model.weights if not v.path.endswith(WITHOUT_EFFECT)}
    read = {
        name for node in file.graph.node if node.op_type != "Shape" for name in node.input
    }  # not for its shape alone
    constants = {t.name: np.sort(numpy_helper.to_array(t), axis=None) for t in file.graph.initializer if t.name in read}
    return path, {
        name: weight
        for name, values in constants.items()
        for weight, own in weights.items()
        if len(own) > 1 and np.array_equal(values, own)
    }
