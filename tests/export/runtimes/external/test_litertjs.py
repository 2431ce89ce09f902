"""LiteRT.js in Chromium runs LiteRT files, on WebAssembly and on WebGPU."""

import tempfile
from pathlib import Path

import keras
import pytest
from keras import layers, ops

from keras_pe.export import Cause, check_parity, export_litert
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


def _negative_numbers() -> keras.Model:
    x = keras.Input((7, 6), batch_size=1, name="x")
    negative = -ops.abs(layers.Dense(6)(x)) - 1.0
    rows = ops.reshape(negative, (7, 6)) * ops.reshape(ops.arange(42, dtype="float32"), (7, 6))
    sums = ops.max(negative + layers.Dense(6, bias_initializer=keras.initializers.Constant(-9))(x), axis=1)
    return keras.Model(
        x,
        {
            "place": ops.argmax(negative, -1),
            "largest": ops.top_k(x, 6)[0],
            "rows": rows,
            "sums": sums,
            "shared": ops.matmul(ops.reshape(x, (1, 7, 2, 3)), ops.reshape(x[:, :1], (1, 1, 3, 2))),
            "known": ops.take(x, [3, 0, 5], axis=1),
        },
    )


def _two_slopes() -> keras.Model:
    x = keras.Input((8, 8, 3), batch_size=1, name="x")
    y = layers.PReLU(alpha_initializer="random_normal", shared_axes=[1, 2])(layers.Conv2D(4, 3)(x))
    return keras.Model(x, layers.LeakyReLU()(y))


@pytest.mark.slow
def test_a_file_for_the_web_has_no_operator_that_webgpu_computes_wrongly(tmp_path: Path) -> None:
    need("litertjs[webgpu]")
    model = _negative_numbers()
    artifact = export_litert(model, tmp_path / "model.tflite", target="web")
    assert check_parity(model, artifact, runtimes="litertjs[webgpu]").passed


@pytest.mark.slow
def test_a_program_that_webgpu_does_not_compile_is_an_error(tmp_path: Path) -> None:
    need("litertjs[webgpu]")
    model = _two_slopes()
    artifact = export_litert(model, tmp_path / "model.tflite")
    (result,) = check_parity(model, artifact, runtimes="litertjs[webgpu]").results
    assert {finding.cause for finding in result.findings} == {Cause.REFUSED_CASE}
    assert "WGSL" in result.cases[0].error
    for_web = export_litert(model, tmp_path / "web.tflite", target="web")
    assert check_parity(model, for_web, runtimes="litertjs[webgpu]").passed
