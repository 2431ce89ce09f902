"""LiteRT-LM runs the LiteRT file of a decoder in a bundle, and writes the text of the uncached model."""

import io
import string
from pathlib import Path

import pytest

from keras_pe.export import export_litert, generate
from tests.export.decoders.small_decoders import VOCABULARY, language_model, whole_logits

_METADATA = """
start_token {{ token_ids {{ ids: 1 }} }}
stop_tokens {{ token_ids {{ ids: {stop} }} }}
max_num_tokens: {length}
llm_model_type {{ generic_model {{ }} }}
"""
_LENGTH = 64


def _tokenizer(path: Path) -> bytes:
    """Writes a model of SentencePiece in which each token is one character, and returns its content."""
    import sentencepiece

    letters = string.ascii_letters + string.digits + "".join(map(chr, range(0xE0, 0xFF)))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*letters] * 3),
        model_writer=model,
        model_type="char",
        vocab_size=VOCABULARY,
        character_coverage=1.0,
        hard_vocab_limit=True,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())
    return model.getvalue()


@pytest.mark.slow
def test_litert_lm_writes_the_text_of_the_uncached_model(tmp_path: Path) -> None:
    engine = pytest.importorskip("litert_lm")
    builder = pytest.importorskip("litert_lm_builder.litertlm_builder")
    sentencepiece = pytest.importorskip("sentencepiece")
    model = language_model("Llama")
    sizes = {"max_sequence_length": (_LENGTH,), "sequence_length": (8,)}
    artifact = export_litert(model, tmp_path / "model.tflite", state="shared_cache", sizes=sizes)
    tokenizer = sentencepiece.SentencePieceProcessor(model_proto=_tokenizer(tmp_path / "tokenizer.model"))
    prompt = "abcdefgh"
    tokens = [1, *tokenizer.encode(prompt)]
    (new,) = generate(artifact, tokens, count=_LENGTH - len(tokens))
    assert (whole_logits(model, [[*tokens, *new]])[0].argmax(-1)[len(tokens) - 1 : -1] == new).all()
    stop = next(token for token in range(VOCABULARY) if token not in new)
    (tmp_path / "metadata.pbtext").write_text(_METADATA.format(length=_LENGTH, stop=stop))
    bundle = builder.LitertLmFileBuilder()
    bundle.add_system_metadata(builder.Metadata(key="Authors", value="tests", dtype=builder.DType.STRING))
    bundle.add_llm_metadata(str(tmp_path / "metadata.pbtext"))
    bundle.add_tflite_model(str(artifact.path), builder.TfLiteModelType.PREFILL_DECODE)
    bundle.add_sentencepiece_tokenizer(str(tmp_path / "tokenizer.model"))
    with (tmp_path / "model.litertlm").open("wb") as file:
        bundle.build(file)
    with engine.Engine(str(tmp_path / "model.litertlm")) as opened, opened.create_session() as session:
        session.run_prefill([prompt])
        (text,) = session.run_decode().texts
    expected = tokenizer.decode(new.tolist())
    assert len(text) > 40
    assert expected.startswith(text) or text.startswith(expected)
