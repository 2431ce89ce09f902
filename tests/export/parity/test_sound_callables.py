"""Not one false alarm: each op, activation and layer of the survey, exported by itself, passes."""

from pathlib import Path

import keras
import pytest

from keras_pe.export import check_parity, export_onnx
from tests.export.onnx.survey.case import Case
from tests.export.onnx.survey.refused import REFUSED
from tests.export.onnx.survey.table import ROWS
from tests.samples import sample_cases

# TensorFlow does not define these results, and ONNX Runtime returns others. They are integers beyond their type, shifts
# by more bits than the type has, and indices in an undefined order. A slice from a number must end within the array.
OPEN = {
    *("power int", "cast uint8", "bitwise_left_shift", "bitwise_right_shift", "left_shift", "right_shift"),
    *("right_shift int64", "searchsorted", "searchsorted right", "slice dynamic"),
}
# Cases without a symbolic model: these need known sizes or values, or Keras fails to trace them.
NO_MODELS = {
    *("adaptive_average_pool", "adaptive_max_pool", "arange", "arange float", "broadcast_to", "cond", "conv_transpose"),
    *("custom_gradient", "empty", "eye", "full", "histogram", "ndim", "ones", "rearrange", "shape", "softmax axes"),
    *("view_as_real", "while_loop", "zeros", "Equalization"),
    *("arange of a value", "arange of none", "ones of a value", "repeat by values", "get_item by values"),
    *("roll by a value", "while_loop of a value"),
    *(f"activations.{name}" for name in ("hard_silu", "hard_swish", "mish", "sparsemax")),
}
SOUND = [name for name in ROWS if name not in OPEN | NO_MODELS and name not in REFUSED]


def _model(case: Case) -> keras.Model:
    shapes = [array.shape if case.is_static or not array.ndim else (None, *array.shape[1:]) for array in case.inputs]
    dtypes = ["string" if array.dtype.kind in "OSU" else array.dtype.name for array in case.inputs]
    inputs = [
        keras.Input(batch_shape=shape, dtype=dtype, name=f"input_{number}")
        for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    return keras.Model(inputs, case.make()(*inputs))


def _returns_numbers(case: Case) -> bool:
    return any(keras.ops.size(each) > 0 for each in keras.tree.flatten(case.make()(*case.inputs)))


@pytest.mark.filterwarnings("ignore::UserWarning")  # layers issue warnings that a survey ignores
@pytest.mark.parametrize("name", sample_cases(SOUND, SOUND[::45]))  # the whole takes some six minutes
def test_a_sound_callable_raises_no_alarm(name: str, tmp_path: Path) -> None:
    keras.utils.set_random_seed(0)
    model = _model(ROWS[name])
    report = check_parity(model, export_onnx(model, tmp_path / "model.onnx"), runtimes=["onnxruntime[all]"])
    assert report.passed is _returns_numbers(ROWS[name]), str(report)  # a check that compared nothing has failed


def test_omitted_cases_are_in_the_survey() -> None:
    assert ROWS.keys() - REFUSED.keys() >= OPEN | NO_MODELS
