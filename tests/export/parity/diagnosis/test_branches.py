"""An omitted branch is one fault with one cause, and the report lists the layers of the branch as consequences."""

import keras
import numpy as np
import onnx
import pytest
from fault_examples import seeded
from keras import layers as L  # noqa: N812

from keras_pe.export import check_parity, export_onnx, export_saved_model
from keras_pe.export.comparison.inputs.sweep import sweep
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.parity.diagnosis.diagnose import diagnose


def _without_branch(source, path, joining):
    """Writes a file whose joining operator returns its first input; what nothing reads any more is taken out."""
    file = onnx.load(source)
    (node,) = (node for node in file.graph.node if node.name.startswith(f"{joining}/") and len(node.input) == 2)
    node.op_type = "Identity"
    del node.input[1]
    while True:
        read = {name for node in file.graph.node for name in node.input} | {each.name for each in file.graph.output}
        dead = [node for node in file.graph.node if not read & set(node.output)]
        for node in dead:
            file.graph.node.remove(node)
        if not dead:
            break
    kept = [tensor for tensor in file.graph.initializer if tensor.name in read]
    del file.graph.initializer[:], file.graph.value_info[:]
    file.graph.initializer.extend(kept)
    onnx.save(file, path)
    return path


def _blocks() -> keras.Model:
    """Three blocks of the same shapes, each with a branch beside it."""
    x = y = keras.Input((None, 8), name="x")
    for i in range(3):
        branch = L.Dense(8, name=f"down{i}")(L.Dense(16, "relu", name=f"up{i}")(y))
        y = L.LayerNormalization(name=f"norm{i}")(L.Add(name=f"add{i}")([y, branch]))
    return keras.Model(x, L.Dense(3, name="head")(y), name="blocks")


def _gate_model(has_gate: bool = True) -> keras.Model:
    """An image whose channels are weighed by what is squeezed out of them."""
    x = keras.Input((8, 8, 4), name="x")
    y = L.Conv2D(6, 3, name="conv")(x)
    if has_gate:
        gate = L.Dense(3, "relu", name="reduce")(L.GlobalAveragePooling2D(keepdims=True, name="squeeze")(y))
        y = L.Multiply(name="excite")([y, L.Dense(6, "sigmoid", name="expand")(gate)])
    return keras.Model(x, L.Dense(3, name="head")(L.GlobalAveragePooling2D(name="pool")(y)), name="gated")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "joining", "absent"),
    [(_blocks, "add2", ("up2", "down2")), (_gate_model, "excite", ("squeeze", "reduce", "expand"))],
    ids=["a feed-forward block", "squeeze and excitation"],
)
def test_a_branch_left_out_is_one_cause_with_the_layers_that_went_with_it(
    build, joining, absent, tmp_path, plain_worker
):
    model = seeded(build())
    path = _without_branch(export_onnx(model, tmp_path / "whole.onnx").path, tmp_path / "without.onnx", joining)
    reference = KerasReference(model)
    cases = sweep(reference.inputs, reference.roles, seed=0)[:3]
    run = run_cases(plain_worker, plain_worker.spec, path, reference, reference.answer(cases))
    result = diagnose(run, plain_worker, reference, reference.roles)
    (finding,) = result.findings
    assert (finding.cause, finding.layer, finding.absent) == ("layer left out", joining, absent)
    assert [layer.layer for layer in result.layers if layer.originates_here] == [joining]
    assert result.proof.layers == (joining,)
    assert result.proof.holds
    assert np.isinf([layer.max_abs_diff for layer in result.layers if layer.layer in absent]).all()


@pytest.mark.slow
def test_layers_absent_in_the_file_of_another_model_follow_from_the_layer_that_has_the_cause(tmp_path, plain_worker):
    model = seeded(_gate_model())
    artifact = export_onnx(seeded(_gate_model(has_gate=False)), tmp_path / "without.onnx")
    reference = KerasReference(model)
    cases = sweep(reference.inputs, reference.roles, seed=0)[:3]
    run = run_cases(plain_worker, plain_worker.spec, artifact.path, reference, reference.answer(cases))
    result = diagnose(run, plain_worker, reference, reference.roles)
    (finding,) = result.findings
    assert (finding.layer, finding.absent) == ("excite", ("squeeze", "reduce", "expand"))
    assert [layer.layer for layer in result.layers if layer.originates_here] == ["excite"]


def _gated_blocks(has_gates: bool = True) -> keras.Model:
    """Two blocks whose channels are weighed by an activation that TensorFlow has a gradient of its own for."""
    x = y = keras.Input((None, 8), name="x")
    for i in range(2):
        gate, value = L.Dense(16, "silu", name=f"gate{i}")(y), L.Dense(16, name=f"value{i}")(y)
        both = L.Multiply(name=f"both{i}")([gate, value]) if has_gates else gate
        y = L.Add(name=f"add{i}")([y, L.Dense(8, name=f"down{i}")(both)])
    return keras.Model(x, L.Dense(3, name="head")(y), name="gated_blocks")


@pytest.mark.slow
def test_in_a_saved_model_no_tensor_of_another_layer_is_taken_for_one_that_is_absent(tmp_path):
    model, without = seeded(_gated_blocks()), seeded(_gated_blocks(has_gates=False))
    for layer in without.layers:
        layer.set_weights(model.get_layer(layer.name).get_weights())
    (result,) = check_parity(model, export_saved_model(without, tmp_path / "m"), runtimes="tensorflow").results
    found = [(finding.cause, finding.layer, finding.absent) for finding in result.findings]
    assert found == [("layer left out", f"both{i}", (f"value{i}",)) for i in range(2)]
