"""A LiteRT file notes what the GPU, the NPU, a browser or a microcontroller may refuse."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
from keras import layers

from keras_pe.export import Border, export_litert
from keras_pe.export.artifacts.litert_operators import Operator, Tensor, read_operators
from keras_pe.export.formats.litert_devices import device_notes, has_unknown_sizes

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
