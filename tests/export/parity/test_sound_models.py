"""Not one false alarm: sound models, exported soundly, pass."""

import keras
import pytest

from keras_pe.export import check_parity, export_onnx, export_saved_model
from tests.export.parity import sound_models
from tests.export.zoo import applications, hub
from tests.export.zoo.statistics import as_trained
from tests.samples import sample_cases

WITH_SAVED_MODEL = {"positions_given", "attention", "lstm", "encoding_short_table"}  # a process with TensorFlow each
FAMILIES = (  # the smallest of each
    *("ConvNeXtTiny", "DenseNet121", "EfficientNetB0", "EfficientNetV2B0", "InceptionResNetV2", "InceptionV3"),
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "NASNetMobile", "ResNet50", "ResNet50V2", "VGG16", "Xception"),
)
EVERY = [(name, kind) for name in FAMILIES for kind in applications.TRIALS]
APPLICATIONS = [each for each in EVERY if each not in applications.REFUSED]  # Keras calls it at no size
SAMPLE = {("MobileNet", "free"), "Bert", "Gemma"}  # all models would take an hour


def _assert_no_alarm(model, path, artifacts=(), runtimes=()):
    file = export_onnx(model, path)
    runtimes = ["keras[graph]", "onnxruntime[disabled]", "onnxruntime[all]", *runtimes]
    # A model may return NaN alone in one of its outputs, of which nothing can be compared.
    report = check_parity(model, [file, *artifacts], runtimes=runtimes, least_compared=0.0)
    assert report.passed, str(report)
    assert len(report.results) == len(runtimes)


@pytest.mark.slow_rows(6)
@pytest.mark.slow
@pytest.mark.parametrize("build", sound_models.ALL, ids=lambda build: build.__name__)
def test_a_sound_model_raises_no_alarm(build, tmp_path):
    keras.utils.set_random_seed(3)
    model = build()
    if build.__name__ not in WITH_SAVED_MODEL:
        _assert_no_alarm(model, tmp_path / "model.onnx")
    else:
        saved_model = export_saved_model(model, tmp_path / "model")
        _assert_no_alarm(model, tmp_path / "model.onnx", [saved_model], ["tensorflow"])


@pytest.mark.timeout(1800)  # two networks of a thousand layers, each called at seven sizes in two precisions
@pytest.mark.parametrize("case", sample_cases(APPLICATIONS, SAMPLE), ids=str)
def test_an_application_raises_no_alarm(case, tmp_path):
    _assert_no_alarm(applications.make(*case), tmp_path / "model.onnx")


# T5's own constructor warns so, before anything here runs; as an error it would leave the model half built.
@pytest.mark.slow_rows(1)
@pytest.mark.filterwarnings(r"ignore:Layer '\w+' \(of type T5MultiHeadAttention\) was passed an input with a mask")
@pytest.mark.parametrize("name", sample_cases(hub.ENTRIES, SAMPLE))
def test_a_model_of_keras_hub_raises_no_alarm(name, tmp_path):
    keras.utils.set_random_seed(3)
    _assert_no_alarm(as_trained(hub.ENTRIES[name].make()), tmp_path / "model.onnx")


def test_there_are_as_many_as_promised():
    assert len(sound_models.ALL) + len(APPLICATIONS) + len(hub.ENTRIES) >= 60
    assert sum(name[0].isupper() for name in hub.ENTRIES) >= 15  # backbones; its layers are in lower case
    modules = {name: getattr(keras.applications, name).__module__ for name in applications.NAMES}
    # VGG16 represents its family
    assert {modules[name] for name in FAMILIES} == set(modules.values()) - {modules["VGG19"]}
