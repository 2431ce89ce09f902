"""The configuration beside a decoder names its tokens and its cache, and onnxruntime-genai runs the folder."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_pe.export import export_decoder, generate
from keras_pe.export.artifacts.artifact import Artifact, Format, TensorInfo
from keras_pe.export.artifacts.state import State, states_to_json
from keras_pe.export.decoders.genai_config import checked_tokens, genai_config
from tests.export.decoders.small_decoders import VOCABULARY, language_model
from tests.raised import about


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_configuration_has_the_tokens_and_the_names_and_the_kind_of_the_cache(is_shared: bool) -> None:
    tokenizer = SimpleNamespace(end_token_id=2, start_token_id=1, pad_token_id=None)
    backbone = SimpleNamespace(num_query_heads=4, hidden_dim=32, max_sequence_length=64)
    model = SimpleNamespace(preprocessor=SimpleNamespace(tokenizer=tokenizer), backbone=backbone, name="model")
    pairs = [("past_key_values.0.key", "present.0.key"), ("past_key_values.0.value", "present.0.value")]
    states = [State(*names, ("batch", 2, "max_length" if is_shared else 0, 8), "float32", 0.0) for names in pairs]
    outputs = (TensorInfo("logits", ("batch_size", "sequence_length", 97), "float32"),)
    path, metadata = Path("model.onnx"), {"keras_pe.state": states_to_json(states)}
    artifact = Artifact(Format.ONNX, path, (), outputs, nbytes=0, seconds=0.0, notes=(), metadata=metadata)
    content = json.loads(genai_config(model, artifact, checked_tokens(model, None, None, None, None)))
    assert content["search"]["past_present_share_buffer"] is is_shared
    found = content["model"]
    assert (found["eos_token_id"], found["bos_token_id"], found["pad_token_id"]) == (2, 1, 2)
    assert (found["vocab_size"], found["context_length"]) == (97, 64)
    decoder = found["decoder"]
    assert (decoder["num_attention_heads"], decoder["num_key_value_heads"], decoder["head_size"]) == (4, 2, 8)
    assert decoder["inputs"]["past_value_names"] == "past_key_values.%d.value"
    assert decoder["outputs"]["present_key_names"] == "present.%d.key"
    given = checked_tokens(model, [3, 4], 5, 6, 7)
    assert (given.ends, given.start, given.padding, given.length) == ((3, 4), 5, 6, 7)


def test_a_model_without_a_tokenizer_needs_its_end_tokens() -> None:
    model = SimpleNamespace(name="model")
    for ends in (None, [], [-1]):
        with pytest.raises(ValueError, check=about("end_tokens")):
            checked_tokens(model, ends, None, None, None)
    for name, given in [("start_token", (-1, 0, 1)), ("padding_token", (0, -1, 1)), ("context_length", (0, 0, 0))]:
        with pytest.raises(ValueError, check=about(name)):
            checked_tokens(model, [0], *given)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["GPT2", "Mistral", "GPTNeoX", "Gemma3"])
def test_onnxruntime_genai_generates_the_same_tokens(family: str, tmp_path: Path) -> None:
    genai = pytest.importorskip("onnxruntime_genai")
    artifact = export_decoder(language_model(family), tmp_path, end_tokens=[0])
    rng = np.random.default_rng(0)
    prompts = rng.integers(1, VOCABULARY, (2, 8))
    expected = generate(artifact, prompts, count=100)
    parameters = genai.GeneratorParams(genai.Model(str(tmp_path)))
    parameters.set_search_options(max_length=108, min_length=108, batch_size=2)
    generator = genai.Generator(genai.Model(str(tmp_path)), parameters)
    generator.append_tokens(prompts.astype("int32"))
    while not generator.is_done():
        generator.generate_next_token()
    for row, new in enumerate(expected):
        count = [*np.flatnonzero(new == 0), len(new)][0]  # genai masks the end token, since the row is too short there
        assert count > 20
        np.testing.assert_array_equal(generator.get_sequence(row)[8 : 8 + count], new[:count])
