"""LiteRT.js in Chromium runs LiteRT files, on WebAssembly and on WebGPU."""

import tempfile
from pathlib import Path

import keras
import pytest
from keras import layers

from keras_pe.export import check_parity, export_litert
from tests.export.runtimes.external.present import need


def _small_transformer() -> keras.Model:
    tokens, scale = keras.Input((6,), name="tokens", dtype="int32"), keras.Input((1,), name="scale")
    x = layers.Embedding(20, 8)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    outputs = {"scores": layers.Dense(3, activation="gelu")(x), "mean": layers.Flatten()(x) * scale}
    return keras.Model([tokens, scale], outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["litertjs[wasm]", "litertjs[webgpu]"])
def test_a_file_for_the_web_agrees_in_litertjs(name: str, tmp_path: Path) -> None:
    need(name)
    keras.utils.set_random_seed(0)
    model = _small_transformer()
    artifact = export_litert(model, tmp_path / "model.tflite", target="web")
    (result,) = check_parity(model, artifact, runtimes=name).results
    assert result.passed, result
    assert result.providers == {name[len("litertjs[") : -1]: 1}


@pytest.mark.slow
def test_a_part_that_webgpu_does_not_take_runs_on_webassembly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("litertjs[webgpu]")
    with tempfile.TemporaryDirectory(prefix="a-user-with-a-long-name-") as folder:  # 33 characters are some users' own
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        _check_parts(tmp_path)


def _check_parts(tmp_path: Path) -> None:
    x = keras.Input((4, 4, 4, 1))
    model = keras.Model(x, layers.Dense(2)(layers.Flatten()(layers.Conv3D(2, 2)(layers.Dense(1)(x)))))
    artifact = export_litert(model, tmp_path / "model.tflite", sizes={"batch": 1})
    (result,) = check_parity(model, artifact, runtimes="litertjs[webgpu]").results
    assert result.passed
    assert result.providers == {"wasm": 1}
