"""A fault in the `call` of a subclassed model is named by its line, like one in the `call` of a layer."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import check_parity, export_litert, export_onnx

SIGNATURE = [keras.InputSpec(shape=(None, None, 6), dtype="float32")]


class Net(keras.Model):
    def __init__(self, fault: str = "") -> None:
        super().__init__(name="net")
        self.fault, self.mix, self.head = fault, layers.Dense(8, name="mix"), layers.Dense(4, name="head")

    def call(self, x: Any) -> Any:
        hidden = self.mix(x)
        if self.fault != "unscaled":
            hidden = hidden / ops.sqrt(8.0)  # unscaled
        shares = ops.softmax(hidden, axis=-2 if self.fault == "other axis" else -1)  # other axis
        if self.fault == "added":
            return self.head(shares) + x[..., :4]
        return self.head(shares) - x[..., :4]  # added


def net(fault: str = "") -> keras.Model:
    keras.utils.set_random_seed(1)
    model = Net(fault)
    model(np.zeros((2, 5, 6), "float32"))
    return model


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize(("export", "name"), [(export_onnx, "m.onnx"), (export_litert, "m.tflite")])
@pytest.mark.parametrize("fault", ["unscaled", "other axis", "added"])
def test_the_line_of_the_models_own_call_is_named(fault: str, export: Any, name: str, tmp_path: Path) -> None:
    artifact = export(net(fault), tmp_path / name, input_signature=SIGNATURE)
    report = check_parity(net(), artifact.path, input_signature=SIGNATURE)
    result = next(each for each in report.results if not each.passed)
    (finding,) = result.findings
    lines = Path(__file__).read_text().splitlines()
    marked = next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {fault}"))
    assert (finding.layer, finding.file, finding.line) == (None, __file__, marked)
    assert [each.layer for each in result.layers if each.originates_here] == ["net"]


@pytest.mark.slow
def test_a_fault_in_a_layer_of_a_subclassed_model_is_the_layers(tmp_path: Path) -> None:
    changed = net()
    changed.head.kernel.assign(changed.head.kernel * 1.5)
    artifact = export_onnx(changed, tmp_path / "m.onnx", input_signature=SIGNATURE)
    report = check_parity(net(), artifact.path, input_signature=SIGNATURE)
    result = next(each for each in report.results if not each.passed)
    assert {finding.layer for finding in result.findings} == {"head"}
