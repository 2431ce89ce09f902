"""A LiteRT file notes what the GPU, the NPU, a browser or a microcontroller may refuse."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_pe.argument_errors import ArgValueError
from keras_pe.export import Border, UnsupportedError, export_litert, quantize
from keras_pe.export.artifacts.litert_operators import Operator, Tensor, read_operators
from keras_pe.export.artifacts.target_layers import read_target_layers
from keras_pe.export.formats.litert_devices import device_notes, find_refusals, has_unknown_sizes
from keras_pe.export.formats.litert_targets import RULES, TARGETS
from tests.export.runtimes.external.present import need_package

VELA = os.environ.get("KERAS_PE_TEST_VELA") or shutil.which("vela") or ""
VIEW: Any = SimpleNamespace(place=lambda path: f"layer {path.partition('/')[0]!r}")


def operator(kind: str, *shape: int, name: str = "a/out") -> Operator:
    tensor = Tensor(name, shape, "float32")
    return Operator(kind, (tensor,), (tensor,))


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ([operator("ADD", 1, 2, 3, 4)], []),
        ([operator("ADD", -1, 4)], ["unknown sizes"]),
        ([operator("CONV_3D", 1, 2, 3, 4, 5)], ["more than four axes (CONV_3D of layer 'a')"]),
        ([operator("WHILE", 1, name="b/while")], ["loops (WHILE of layer 'b')"]),
        ([operator("WHILE", 1, -1, name=each) for each in "bcde"], ["unknown sizes", "layer 'b'", "layer 'd', ...)"]),
    ],
)
def test_a_note_names_unknown_sizes_more_than_four_axes_and_loops(operators: list[Operator], words: list[str]) -> None:
    notes = device_notes(operators, VIEW)
    assert len(notes) == bool(words)
    assert all(each in notes[0] for each in words)


def _first_axis_normalized() -> keras.Model:
    x = keras.Input((3, None, None), name="x")
    y = layers.BatchNormalization(axis=1)(x)
    return keras.Model(x, layers.Conv2D(4, 3, padding="same")(layers.Permute((2, 3, 1))(y)))


def _sequences() -> keras.Model:
    x = keras.Input((None, 8), name="x")
    y = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    return keras.Model(x, layers.UpSampling1D(2)(layers.GRU(4, return_sequences=True)(y)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "sizes"), [(_first_axis_normalized, {"height": [8], "width": [12]}), (_sequences, {"length": [6]})]
)
def test_a_file_of_fixed_sizes_has_no_unknown_size_in_any_graph(make: Any, sizes: Any, tmp_path: Path) -> None:
    model = make()
    by_sizes = export_litert(model, tmp_path / "sizes.tflite", sizes={**sizes, "batch": 2})
    by_border = export_litert(model, tmp_path / "border.tflite", sizes=sizes, border=Border(batch=2))
    free = export_litert(model, tmp_path / "free.tflite")
    for each in (by_sizes, by_border):
        assert not has_unknown_sizes(read_operators(each.path.read_bytes()))
        assert not any("unknown sizes" in note for note in each.notes)
        assert each.inputs[0].shape[0] == 2
        assert all(isinstance(dim, int) for spec in (*each.inputs, *each.outputs) for dim in spec.shape)
    assert has_unknown_sizes(read_operators(free.path.read_bytes()))
    assert any("unknown sizes" in note for note in free.notes)


def tensor(*shape: int, dtype: str = "float32", is_stored: bool = False) -> Tensor:
    return Tensor("a/out", shape, dtype, is_stored)


FLOATS = tensor(1, 6, 8)
BROKEN: list[tuple[Operator, str, dict[str, bool]]] = [
    (Operator("ADD", (FLOATS, FLOATS), (FLOATS,)), "", {"gpu": False, "npu": False, "web": False, "micro": False}),
    (Operator("ADD", (tensor(-1, 4),), (tensor(-1, 4),)), "sizes", {"gpu": True, "npu": True, "micro": True}),
    (Operator("RESHAPE", (FLOATS,), (tensor(1, 2, 3, 2, 4),)), "axes", {"gpu": True, "web": True, "micro": False}),
    (Operator("WHILE", (FLOATS,), (FLOATS,)), "list", {"gpu": True, "npu": True, "web": True, "micro": False}),
    (Operator("GELU", (FLOATS,), (FLOATS,)), "list", {"gpu": False, "npu": False, "micro": True}),
    (Operator("CAST", (FLOATS,), (tensor(1, 6, 8, dtype="int64"),)), "dtypes", {"gpu": True, "npu": False}),
    (Operator("CAST", (FLOATS,), (tensor(1, 6, 8, dtype="bool"),)), "kernels", {"gpu": False, "micro": True}),
    (Operator("CAST", (tensor(2, dtype="bool"),), (tensor(2, dtype="int32"),)), "", {"gpu": False, "micro": False}),
    (Operator("TRANSPOSE_CONV", (tensor(4, dtype="int32"), FLOATS, FLOATS), (FLOATS,)), "", {"micro": False}),
    (Operator("SELECT_V2", (tensor(dtype="bool"), FLOATS, FLOATS), (FLOATS,)), "", {"micro": False}),
    (Operator("SUM", (tensor(2, dtype="int32"),), (tensor(dtype="int32"),)), "kernels", {"gpu": False, "micro": True}),
    (Operator("MEAN", (tensor(2, dtype="int32"),), (tensor(2, dtype="int32"),)), "dtypes", {"gpu": True}),
    (Operator("ADD", (FLOATS, tensor(8, dtype="int64", is_stored=True)), (FLOATS,)), "", {"gpu": False}),
    (Operator("GATHER", (FLOATS, tensor(1, 6, dtype="int32")), (FLOATS,)), "indices", {"gpu": True, "micro": False}),
    (Operator("STRIDED_SLICE", (FLOATS,), (tensor(1, 8),), {"shrinkAxisMask": 2}), "slices", {"gpu": True}),
    (Operator("SELECT_V2", (FLOATS, tensor(), tensor(8)), (FLOATS,)), "choices", {"gpu": True, "micro": False}),
]


@pytest.mark.parametrize(("given", "rule", "refused"), BROKEN)
def test_a_target_refuses_an_operator_by_a_rule_with_a_source(
    given: Operator, rule: str, refused: dict[str, bool]
) -> None:
    for name, is_refused in refused.items():
        found = list(find_refusals([given], TARGETS[name]))
        assert len(found) == is_refused
        for each in found:
            assert each.reason == RULES[rule] if rule in RULES else given.kind in each.reason
            assert each.source.startswith("https://")


def _small_transformer() -> keras.Model:
    tokens = keras.Input((None,), name="tokens", dtype="int32")
    x = layers.Embedding(20, 8, name="words")(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    return keras.Model(tokens, layers.Dense(3, activation="exponential", name="scores")(x[:, -1]))


@pytest.mark.slow
def test_a_file_for_a_target_has_operators_of_its_list_and_a_layer_outside_is_refused(tmp_path: Path) -> None:
    model = _small_transformer()
    file = tmp_path / "model.tflite"
    with pytest.raises(ValueError, match="'length'"):
        export_litert(model, file, target="gpu")
    artifact = export_litert(model, file, target="gpu", sizes={"length": 6})
    assert artifact.inputs[0].shape == (1, 6)
    operators = read_operators(artifact.path.read_bytes())
    assert not list(find_refusals(operators, TARGETS["gpu"]))
    found = {layer.layer: layer for layer in read_target_layers(artifact.metadata)}
    assert "GATHER" in found["words"].operators
    assert not any(layer.reasons for layer in found.values())
    with pytest.raises(UnsupportedError, match="'EXP' of layer 'scores'") as error:
        export_litert(model, file, target="npu", sizes={"length": 6})
    assert (error.value.layer, error.value.operator) == ("scores", "EXP")
    assert {layer.layer for layer in error.value.layers if layer.reasons} == {"scores"}
    for wrong in ("phone", ["gpu"]):
        with pytest.raises(ArgValueError) as refused:
            export_litert(model, file, target=wrong)  # type: ignore[arg-type]
        assert refused.value.argument == "target"


def _compile(file: Path, folder: Path) -> tuple[set[str], int]:
    """Returns the types of the operators that ethos-u-vela leaves to the CPU, and the number of those on the NPU."""
    command = [VELA, str(file), "--output-dir", str(folder), "--accelerator-config", "ethos-u55-128"]
    said = subprocess.run([*command, "--show-cpu-operations"], capture_output=True, text=True, check=True).stdout
    on_cpu = set(re.findall(r"operators\) operator: (\w+)", said))
    return on_cpu, int(re.findall(r"NPU operators = (\d+)", said)[0])


def _small_classifier() -> keras.Model:
    images = keras.Input((16, 16, 3), name="x")
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(images)
    x = layers.Add()([x, layers.DepthwiseConv2D(3, padding="same", activation="relu6")(x)])
    x = layers.Concatenate()([layers.MaxPooling2D(2)(x), layers.AveragePooling2D(2)(x)])
    x = layers.Multiply()([x, layers.Conv2D(16, 1, activation="sigmoid")(x)])
    x = layers.UpSampling2D(2, interpolation="bilinear")(layers.Conv2D(4, 1, activation="tanh")(x))
    x = layers.Conv2DTranspose(4, 3, strides=2, padding="same")(x)
    return keras.Model(images, layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(x)))


@pytest.mark.slow
@pytest.mark.skipif(not VELA, reason="ethos-u-vela is not installed")
def test_ethos_u_takes_every_operator_of_a_file_that_quantize_wrote_and_none_in_float32(tmp_path: Path) -> None:
    need_package("ai_edge_quantizer")
    keras.utils.set_random_seed(0)
    model = _small_classifier()
    model.save(tmp_path / "model.keras")
    artifact = export_litert(model, tmp_path / "model.tflite", target="micro")
    on_cpu, on_npu = _compile(artifact.path, tmp_path)
    assert on_npu == 0
    assert "CONV_2D" in on_cpu
    rows = {"x": np.random.default_rng(0).normal(size=(1100, 16, 16, 3)).astype("float32")}
    quantized = tmp_path / "int8.tflite"
    quantize(tmp_path / "model.keras", artifact, quantized, rows, error=1.0, trials=1, write_nearest=True)
    on_cpu, on_npu = _compile(quantized, tmp_path)
    assert on_cpu == {"QUANTIZE", "DEQUANTIZE"}  # inputs and outputs are float32
    assert on_npu >= 12
