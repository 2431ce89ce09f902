"""A decoder in ONNX Runtime generates the tokens of the uncached model, and draws depend on the seed."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras_hub
import numpy as np
import onnx
import pytest

from keras_pe.export import (
    check_parity,
    export_decoder,
    export_litert,
    export_onnx,
    export_saved_model,
    generate,
    read_artifact,
)
from keras_pe.export.decoders.generation import _draw
from keras_pe.export.decoders.running_decoder import OnnxDecoder, open_decoder
from tests.export.decoders.small_decoders import FAMILIES, VOCABULARY, language_model, own_decoder, whole_logits
from tests.raised import about

_EXHAUSTIVE = pytest.mark.exhaustive
_RNG = np.random.default_rng(0)


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_200_greedy_tokens_are_those_of_the_uncached_model(family: str, tmp_path: Path) -> None:
    model = language_model(family)
    rng = np.random.default_rng(0)
    prompts = [rng.integers(1, VOCABULARY, 8), rng.integers(1, VOCABULARY, 3)]
    artifact = export_decoder(model, tmp_path, end_tokens=[0])
    for prompt, new in zip(prompts, generate(artifact, prompts, count=200), strict=True):
        whole = whole_logits(model, np.concatenate([prompt, new])[None])[0]
        assert len(new) == 200
        np.testing.assert_array_equal(new, whole.argmax(-1)[len(prompt) - 1 : -1])


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Layer '.*_attention' .of type T5MultiHeadAttention. was passed an input with")
@pytest.mark.parametrize(("family", "cache"), [("Bart", "shared"), ("T5", "growing")])
def test_a_decoder_attends_to_the_text_of_its_encoder(family: str, cache: Any, tmp_path: Path) -> None:
    model, start = language_model(family), [2, 0]
    earlier = tmp_path / f"shared_weights.{'0' * 16}.data"
    earlier.write_text("weights of an earlier export")
    artifact = export_decoder(model, tmp_path, cache=cache)
    assert artifact.nbytes == read_artifact(artifact.path).nbytes
    assert {path.suffix: path.name for path in tmp_path.iterdir()}.keys() == {".onnx", ".data"}
    assert not earlier.exists()
    table = model.backbone.token_embedding.embeddings.numpy().tobytes()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert stored.count(table) == 1
    texts = [_RNG.integers(1, VOCABULARY, 12), _RNG.integers(1, VOCABULARY, 7)]
    rows = generate(artifact, texts, count=50, start=start)
    assert (rows[0] != rows[1]).any()
    for text, new in zip(texts, rows, strict=True):
        whole = whole_logits(model, [[*start, *new]], text[None])[0]
        np.testing.assert_array_equal(new, whole.argmax(-1)[1:-1])
    if family == "Bart":  # one family is enough
        assert check_parity(model, artifact, runtimes="onnxruntime[all]").passed
    assert len(generate(artifact, texts, count=1, start=2)) == len(texts)
    with pytest.raises(ValueError, check=about("start")):
        generate(artifact, texts, count=1)
    with pytest.raises(ValueError, check=about("prompt")):
        generate(artifact, [VOCABULARY + 1], count=1, start=start)
    (tmp_path / "encoder.onnx").unlink()
    with pytest.raises(ValueError, check=about("artifact")):
        generate(artifact, texts, count=1, start=start)


@pytest.mark.slow
def test_a_model_with_an_encoder_has_no_configuration_and_no_litert_file(tmp_path: Path) -> None:
    model = language_model("Bart")
    for name, value in (("end_tokens", [0]), ("start_token", 2)):
        with pytest.raises(ValueError, check=about(name)):
            export_decoder(model, tmp_path, **{name: value})
    with pytest.raises(ValueError, check=about("model")):
        export_decoder(model.backbone, tmp_path)
    with pytest.raises(ValueError, check=about("model")):
        export_litert(model, tmp_path / "a.tflite", state="shared_cache", sizes={"max_sequence_length": (64,)})
    with pytest.raises(ValueError, check=about("model")):
        export_onnx(own_decoder(), tmp_path / "own.onnx", state="encoder")


@pytest.mark.exhaustive
@pytest.mark.parametrize("family", FAMILIES)
def test_a_shared_cache_yields_the_same_tokens(family: str, tmp_path: Path) -> None:
    model, prompts = language_model(family), [[5, 6, 7, 8, 9], [3, 4]]
    artifact = export_decoder(model, tmp_path, end_tokens=[0], cache="shared")
    assert check_parity(model, artifact.path).passed
    for prompt, new in zip(prompts, generate(artifact, prompts, count=200), strict=True):
        whole = whole_logits(model, np.concatenate([prompt, new])[None])[0]
        np.testing.assert_array_equal(new, whole.argmax(-1)[len(prompt) - 1 : -1])


@pytest.mark.slow
def test_a_shared_cache_is_in_memory_once_and_a_call_writes_its_own_rows(tmp_path: Path) -> None:
    model = language_model("Mistral")  # grouped heads and a window
    artifact = export_decoder(model, tmp_path, end_tokens=[0], cache="shared")
    choices = [node for node in onnx.load(artifact.path, load_external_data=False).graph.node if node.op_type == "If"]
    for each in choices:  # nothing splits or joins heads for one token
        branches = {attribute.name: attribute.g for attribute in each.attribute}
        assert [node.op_type for node in branches["then_branch"].node] == ["GroupQueryAttention", "Mul"]
    assert len(choices) == model.backbone.num_layers
    (new,) = generate(artifact, [5, 6, 7], count=50)
    np.testing.assert_array_equal(new, whole_logits(model, [[5, 6, 7, *new]])[0].argmax(-1)[2:-1])
    tokens, mask = np.array([[5, 6, 7]]), np.ones((1, 3), "int64")
    decoder = open_decoder(artifact, 1, 2**19)
    assert isinstance(decoder, OnnxDecoder)
    decoder.step(tokens, mask)
    decoder.step(tokens[:, :1], np.ones((1, 4), "int64"))
    places = [value.data_ptr() for value in decoder.cache.values()]
    before = [value.numpy().copy() for value in decoder.cache.values()]  # reads every page
    with _peak_growth() as growth:
        decoder.step(tokens[:, :1], np.ones((1, 5), "int64"))
    assert [value.data_ptr() for value in decoder.cache.values()] == places
    for old, value in zip(before, decoder.cache.values(), strict=True):
        assert np.flatnonzero((value.numpy() != old).any(axis=(0, 1, 3))).tolist() == [4]
    assert growth() < before[0].nbytes / 2  # a copy would add as much as the array has


@contextlib.contextmanager
def _peak_growth() -> Iterator[Callable[[], float]]:
    """Yields a function that returns the bytes by which the process grew at its largest."""

    def peak() -> float:
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024

    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not reset.exists():
        pytest.skip("the peak of the memory is read from Linux")
    reset.write_text("5")
    before = peak()
    yield lambda: peak() - before


def test_a_shared_cache_needs_an_operator_set_with_its_operator(tmp_path: Path) -> None:
    with pytest.raises(ValueError, check=about("opset_version")):
        export_onnx(own_decoder(), tmp_path / "own.onnx", state="shared_cache", opset_version=23)
    with pytest.raises(ValueError, check=about("cache")):
        export_decoder(own_decoder(), tmp_path, end_tokens=[0], cache="ring")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=pytest.mark.slow if each == "Llama" else _EXHAUSTIVE) for each in FAMILIES]
)
def test_signatures_of_litert_yield_the_tokens_of_the_uncached_model(family: str, tmp_path: Path) -> None:
    model, prompt = language_model(family), [5, 6, 7, 8, 9, 10, 11]
    sizes = {"max_sequence_length": (256,), "sequence_length": (4,)}
    artifact = export_litert(model, tmp_path / "decoder.tflite", state="shared_cache", sizes=sizes)
    assert artifact.nbytes < 1.5 * sum(4 * weight.numpy().size for weight in model.weights) + 2**17  # weights once
    (new,) = generate(artifact, prompt, count=200)
    whole = whole_logits(model, [[*prompt, *new]])[0]
    np.testing.assert_array_equal(new, whole.argmax(-1)[len(prompt) - 1 : -1])
    with pytest.raises(ValueError, check=about("prompt")):
        generate(artifact, prompt, count=256)


@pytest.mark.slow
def test_a_decoder_in_float16_and_one_of_the_user_generate_tokens(tmp_path: Path) -> None:
    model = language_model("Llama")
    artifact = export_decoder(model, tmp_path / "half", end_tokens=[0], half_precision=True, cache="shared")
    assert {state.dtype for state in artifact.states} == {"float16"}
    prompt = [5, 6, 7]
    (new,) = generate(artifact, prompt, count=20)
    whole = whole_logits(model, [[*prompt, *new]])[0, 2:-1]
    assert (whole[np.arange(20), new] > whole.max(-1) - 0.05).all()
    own = export_onnx(own_decoder(), tmp_path / "own.onnx", state="cache")
    assert [len(row) for row in generate(own, [prompt, [1]], count=5)] == [5, 5]
    drawn = [generate(own, prompt, count=30, top_k=20, top_p=0.9, seed=seed)[0].tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    (row,) = generate(own, prompt, count=30, top_k=20, seed=1, end=drawn[0][4])
    assert len(row) <= 30


def test_draws_take_only_the_most_likely_tokens() -> None:
    rng = np.random.default_rng(0)
    logits = np.log([[0.1, 0.5, 0.15, 0.25]] * 500)
    assert set(_draw(rng, logits, 2, None)) == {1, 3}
    assert set(_draw(rng, logits, None, 0.6)) == {1, 3}
    assert set(_draw(rng, logits, None, 0.5)) == {1}
    assert set(_draw(rng, logits, None, None)) == {0, 1, 2, 3}


WRONG: list[tuple[str, Any]] = [
    *(("top_p", value) for value in (0.0, 2, "a", float("nan"))),
    *(("temperature", value) for value in (0.0, "a", None)),
    *(("top_k", value) for value in (0, 1.5, True)),
    *(("seed", value) for value in (-1, 1.5, "a")),
]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for name, value in WRONG:
        with pytest.raises((ValueError, TypeError), check=about(name)):
            generate(tmp_path, [1], count=1, **{name: value})
    for path in (None, 5):
        with pytest.raises(TypeError, check=about("path")):
            generate(path, [1], count=1)  # type: ignore[arg-type]
    for name, value in {"cache": ["growing"], "folder": None}.items():
        with pytest.raises((ValueError, TypeError), check=about(name)):
            export_decoder(own_decoder(), **{"folder": tmp_path, name: value})  # type: ignore[arg-type]


@pytest.mark.slow
def test_wrong_tokens_are_refused(tmp_path: Path) -> None:
    artifact = export_decoder(own_decoder(), tmp_path, end_tokens=[0])
    for prompt in ([], [[]], [1.5], "text", None, 5, [[1], 5], [-1], [VOCABULARY]):
        with pytest.raises(ValueError, check=about("prompt")):
            generate(artifact, prompt, count=1)  # type: ignore[arg-type]
    for end in ("a", [1, 2], VOCABULARY):
        with pytest.raises((ValueError, TypeError), check=about("end")):
            generate(artifact, [1], count=1, end=end)  # type: ignore[arg-type]
    with pytest.raises(ValueError, check=about("count")):
        generate(artifact, [1], count=100)  # the table has 64 positions
    with pytest.raises(ValueError, match=r"model\.onnx", check=about("path")):
        generate(tmp_path, [1], count=1)
    with pytest.raises(ValueError, check=about("end_tokens")):
        export_decoder(own_decoder(), tmp_path, end_tokens=[VOCABULARY])
    with pytest.raises(TypeError, check=about("end_tokens")):
        export_decoder(own_decoder(), tmp_path, end_tokens=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, check=about("context_length")):
        export_decoder(language_model("GPT2"), tmp_path, end_tokens=[0], context_length=1000)
    sizes = {"max_sequence_length": (512,)}
    with pytest.raises(ValueError, check=about("sizes")):
        export_litert(language_model("GPT2"), tmp_path / "a.tflite", state="shared_cache", sizes=sizes)
    with pytest.raises(ValueError, check=about("state")):
        export_saved_model(own_decoder(), tmp_path / "a", state="cache")  # type: ignore[arg-type]
    cache = artifact.initial_state(2) | {"past_key_values.0.key": np.zeros((2, 3, 0, 4), "float32")}
    tokens = np.ones((2, 3), "int64")
    for changed in ({"attention_mask": np.ones((2, 5), "int64")}, {"attention_mask": tokens, **cache}):
        inputs = {"input_ids": tokens, **artifact.initial_state(2), **changed}
        with pytest.raises(ValueError, check=about("inputs")):
            check_parity(own_decoder(), artifact, inputs=inputs)


_GROWTH = """
import sys
from pathlib import Path
from keras_pe.export import generate
import onnxruntime

status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
peak = lambda: next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
reset.write_text("5")
before = peak()
generate(sys.argv[1], range(1, 9), count=8)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("cache", ["growing", "shared"])
def test_weights_are_in_memory_once_for_prompt_and_steps(cache: Any, tmp_path: Path) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak of the memory is read from Linux")
    sizes = {"num_query_heads": 8, "num_key_value_heads": 4, "hidden_dim": 768, "intermediate_dim": 2048}
    backbone = keras_hub.models.LlamaBackbone(vocabulary_size=VOCABULARY, num_layers=2, **sizes)
    model = keras_hub.models.LlamaCausalLM(backbone=backbone, preprocessor=None)
    artifact = export_decoder(model, tmp_path, end_tokens=[0], cache=cache)
    nbytes = sum(weight.numpy().nbytes for weight in model.weights)
    run = subprocess.run([sys.executable, "-c", _GROWTH, artifact.path], capture_output=True, check=True)
    assert int(run.stdout) < 1.5 * nbytes  # a second copy would add `nbytes`
