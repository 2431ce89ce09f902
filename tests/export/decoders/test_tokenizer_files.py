"""The files of a tokenizer yield the tokens of keras-hub in `tokenizers` and in onnxruntime-genai."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras_hub
import numpy as np
import pytest
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from keras_pe.export import export_decoder, generate
from keras_pe.export.decoders.tokenizer_files import SENTENCE_PIECE, SETTINGS, TOKENIZER, tokenizer_files
from tests.export.decoders.small_decoders import FAMILIES

_TEXTS = [  # without ">>>", which a unigram model splits in two ways of equal score
    *(line for line in json.__doc__.splitlines() if line.strip() and ">>>" not in line),
    "import json\njson.dumps(['foo', {'bar': ('baz', None, 1.0, 2)}])",
]
_OTHER = ["  two  spaces ", "1234567 + x\t=\n\n\n  y", "caf\u00e9 \u65e5\u672c \U0001f642", "don't WE'LL", "", " "]
_SPECIAL = ["<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"]
_PLAIN = {
    "byte_fallback": True,
    "remove_extra_whitespaces": False,
    "normalization_rule_name": "identity",
    "split_digits": True,
}

SENTENCE_PIECES: dict[str, dict[str, Any]] = {
    "as Llama": {"model_type": "bpe", **_PLAIN},
    "as Gemma": {"model_type": "bpe", **_PLAIN, "add_dummy_prefix": False, "user_defined_symbols": ["<turn>", "\n\n"]},
    "as T5": {"model_type": "unigram"},
}


def _sentence_piece(vocabulary_size: int = 150, **options: Any) -> bytes:
    written = io.BytesIO()
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "pad_piece": "<pad>"}
    options = {"vocab_size": vocabulary_size + 256 * options.get("byte_fallback", False), **ids, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_TEXTS), model_writer=written, minloglevel=2, hard_vocab_limit=False, **options
    )
    return written.getvalue()


def _llama(proto: bytes) -> Any:
    return keras_hub.models.LlamaTokenizer(proto)


def _byte_pairs(family: str) -> Any:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=_SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(_TEXTS, trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [" ".join(pair) for pair in model["merges"]]
    return getattr(keras_hub.models, f"{family}Tokenizer")(vocabulary=model["vocab"], merges=merges)


def _preprocessor(tokenizer: Any, *, starts: bool = True) -> Any:
    return SimpleNamespace(tokenizer=tokenizer, add_start_token=starts)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return [int(token) for token in tokenizer(text)]


@pytest.mark.parametrize("kind", [*SENTENCE_PIECES, "GPT2", "Qwen"])
def test_tokenizers_reads_the_tokens_of_keras_hub_behind_the_start_token(kind: str) -> None:
    own = _llama(_sentence_piece(**SENTENCE_PIECES[kind])) if kind in SENTENCE_PIECES else _byte_pairs(kind)
    start = [] if own.start_token_id is None else [own.start_token_id]
    for starts in (True, False):
        files = tokenizer_files(_preprocessor(own, starts=starts))
        assert (SENTENCE_PIECE in files) is (kind in SENTENCE_PIECES)
        settings, written = json.loads(files[SETTINGS]), Tokenizer.from_str(files[TOKENIZER].decode())
        assert settings["eos_token"] == own.end_token
        assert settings["add_bos_token"] is (starts and bool(start))
        for text in [*_TEXTS, *_OTHER]:
            assert written.encode(text).ids == (start if starts else []) + _ids(own, text)
            assert written.encode(text, add_special_tokens=False).ids == _ids(own, text)
            known = [token for token in _ids(own, text) if token != 3]  # SentencePiece decodes unknown pieces as "⁇"
            assert written.decode(known) == (own.detokenize(known) if known else "")


def test_a_tokenizer_without_an_exact_form_has_no_tokenizer_json() -> None:
    for options in (
        {"model_type": "bpe"},
        {"model_type": "bpe", **_PLAIN, "split_digits": False},
        {"model_type": "unigram", "byte_fallback": True},
        {"model_type": "unigram", "add_dummy_prefix": False},
        {"model_type": "bpe", **_PLAIN, "user_defined_symbols": ["<turn>"]},
        {"model_type": "bpe", **_PLAIN, "add_dummy_prefix": False, "user_defined_symbols": ["\u2581\u2581"]},
    ):
        proto = _sentence_piece(**options)
        assert tokenizer_files(_preprocessor(_llama(proto))) == {SENTENCE_PIECE: proto}
    assert tokenizer_files(_preprocessor(keras_hub.tokenizers.ByteTokenizer())) == {}
    assert tokenizer_files(None) == {}


def test_a_preprocessor_of_a_user_needs_no_attribute_of_keras_hub() -> None:
    own = _llama(_sentence_piece(**SENTENCE_PIECES["as Llama"]))
    files = tokenizer_files(SimpleNamespace(tokenizer=own))
    assert files == tokenizer_files(_preprocessor(own, starts=False))
    assert TOKENIZER in files
    for tokenizer in (SimpleNamespace(merges=["a b"]), SimpleNamespace(proto="a path"), object(), None):
        assert tokenizer_files(SimpleNamespace(tokenizer=tokenizer)) == {}


@pytest.mark.slow
def test_onnxruntime_genai_reads_the_tokens_of_keras_hub_and_generates_its_text(tmp_path: Path) -> None:
    genai = pytest.importorskip("onnxruntime_genai")
    own = _llama(_sentence_piece(**SENTENCE_PIECES["as Llama"]))
    options = {**FAMILIES["Llama"][1], "vocabulary_size": own.vocabulary_size()}
    preprocessor = keras_hub.models.LlamaCausalLMPreprocessor(own, sequence_length=32)
    model = keras_hub.models.LlamaCausalLM(keras_hub.models.LlamaBackbone(**options), preprocessor)
    artifact = export_decoder(model, tmp_path)
    prompt = [own.start_token_id, *_ids(own, _TEXTS[0])]
    (new,) = generate(artifact, prompt, count=8)
    opened = genai.Model(str(tmp_path))
    parameters = genai.GeneratorParams(opened)
    parameters.set_search_options(max_length=len(prompt) + 8)
    generator = genai.Generator(opened, parameters)
    generator.append_tokens(np.array([own.start_token_id, *genai.Tokenizer(opened).encode(_TEXTS[0])], "int32"))
    while not generator.is_done():
        generator.generate_next_token()
    np.testing.assert_array_equal(generator.get_sequence(0), [*prompt, *new])
    others = [_llama(_sentence_piece(**options)) for options in SENTENCE_PIECES.values()]
    for each in [*others, *map(_byte_pairs, ("GPT2", "OPT", "Bloom", "Falcon", "GPTNeoX", "Qwen"))]:
        for name, content in tokenizer_files(_preprocessor(each)).items():
            (tmp_path / name).write_bytes(content)
        reader = genai.Tokenizer(genai.Model(str(tmp_path)))
        for text in [*_TEXTS, *_OTHER]:
            assert list(reader.encode(text)) == _ids(each, text)
