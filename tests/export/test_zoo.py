"""Every model of the zoo agrees with Keras in ONNX Runtime, or is refused by name; none is wrong in silence."""

from pathlib import Path

import keras
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import ExportError, export_onnx, model_signature
from tests.export.zoo import hub, plain, sequences
from tests.export.zoo.entry import Entry

ZOO = {**plain.ENTRIES, **sequences.ENTRIES, **hub.ENTRIES}
HANDFUL = ("sequential", "dicts", "subclassed", "lstm", "conv1d")
AGREEING = [name for name, entry in ZOO.items() if not entry.refused]
# The tolerance is a share of the largest value: 84 half-ulps of float32. A sum of n products is off by some sqrt(n)
# half-ulps in any order. The longest sums here have 64 terms, and about a dozen of them follow each other.
TOLERANCE = 5e-6

agreeing = [pytest.param(n, marks=[] if n in HANDFUL else pytest.mark.slow) for n in AGREEING]
refused = [pytest.param(n, marks=pytest.mark.slow) for n in ZOO if n not in AGREEING]


def check(entry: Entry, folder: Path) -> None:
    """Raises AssertionError unless the exported model agrees with Keras at every size of the entry."""
    keras.utils.set_random_seed(0)
    model = entry.make()
    artifact = export_onnx(model, folder / "model.onnx", input_signature=entry.signature)
    signature = model_signature(model, entry.signature)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(artifact.path, options, providers=["CPUExecutionProvider"])
    assert len(entry.sizes) >= 3
    for batch, length in entry.sizes:
        arrays = entry.inputs(artifact.inputs, batch, length)
        truth = signature.unpack(model(*signature.pack(arrays), training=False))
        actual = session.run(list(truth), arrays)
        for (name, value), found in zip(truth.items(), actual, strict=True):
            value = np.asarray(value)
            assert value.size > 0
            np.testing.assert_allclose(
                found, value, rtol=0, atol=TOLERANCE * max(1.0, np.abs(value).max()), strict=True, err_msg=name
            )


# keras-hub's T5 warns of a mask that its own attention does not pass on.
@pytest.mark.slow_rows(13)
@pytest.mark.quick_rows(2)
@pytest.mark.filterwarnings(r"ignore:Layer '\w+' \(of type T5MultiHeadAttention\) was passed an input with a mask")
@pytest.mark.parametrize("name", agreeing)
def test_the_exported_model_agrees_with_keras_at_sizes_never_traced(name: str, tmp_path: Path) -> None:
    check(ZOO[name], tmp_path)


@pytest.mark.parametrize("name", refused)
def test_a_model_without_a_sound_form_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=ZOO[name].refused):
        check(ZOO[name], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_zoo_holds_more_than_forty_models_that_agree() -> None:
    assert len(AGREEING) > 40
    assert set(HANDFUL) <= set(AGREEING)
    assert all(batch != length for entry in ZOO.values() for batch, length in entry.sizes)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(
    ("factor", "error", "said"),
    [
        (-1.0, ExportError, "differs from Keras' by"),
        (1.0001, AssertionError, "Not equal to tolerance"),  # the export's own comparison is coarse
    ],
)
def test_a_broken_handler_is_noticed(
    factor: float, error: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keras_pe.export.onnx.handlers import all_handlers, called_operators, opsets

    def broken(ctx, x) -> str:
        error = ctx.emit("Erf", ctx.emit("Mul", x, ctx.constant_like(np.sqrt(0.5), x)))
        half = ctx.emit("Mul", x, ctx.constant_like(0.5 * factor, x))
        return ctx.emit("Mul", half, ctx.emit("Add", error, 1))

    all_handlers(opsets.DEFAULT)  # registered
    monkeypatch.setitem(called_operators.FORMS, "Gelu", broken)
    with pytest.raises(error, match=said):
        check(ZOO["sequential"], tmp_path)
