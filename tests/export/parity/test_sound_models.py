"""Not one false alarm: sound models, exported soundly, pass."""

import keras
import pytest

from keras_pe.export import check_parity, export_onnx, export_saved_model
from tests.export.parity import sound_models

WITH_SAVED_MODEL = {"positions_given", "attention", "lstm", "encoding_short_table"}  # a process with TensorFlow each


@pytest.mark.slow
@pytest.mark.parametrize("build", sound_models.ALL, ids=lambda build: build.__name__)
def test_a_sound_model_raises_no_alarm(build, tmp_path):
    keras.utils.set_random_seed(3)
    model = build()
    artifacts = [export_onnx(model, tmp_path / "model.onnx")]
    runtimes = ["keras[graph]", "onnxruntime[disabled]", "onnxruntime[all]"]
    if build.__name__ in WITH_SAVED_MODEL:
        artifacts.append(export_saved_model(model, tmp_path / "model"))
        runtimes.append("tensorflow")
    report = check_parity(model, artifacts, runtimes=runtimes)
    assert report.passed, str(report)
    assert len(report.results) == len(runtimes)
    factors = [
        c.noise_ratio for r in report.results for case in r.cases for c in case.comparisons if c.noise_ratio is not None
    ]
    assert max(factors, default=0) < 4, "a sound model stays under half of what is allowed"


def test_there_are_as_many_as_promised():
    assert len(sound_models.ALL) >= 20
