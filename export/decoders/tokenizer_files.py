"""The files of a keras-hub tokenizer that onnxruntime-genai and `tokenizers` read, such as `tokenizer.json`."""

import importlib
import json
import re
from typing import Any

TOKENIZER_FILES = TOKENIZER, SETTINGS, SENTENCE_PIECE = "tokenizer.json", "tokenizer_config.json", "tokenizer.model"
_SPACE = "\u2581"  # SentencePiece writes a space as this character
_UNIGRAM = 1  # SentencePiece stores the kind of a model as this number

# Texts with spaces, digits, other scripts, and characters outside of a small vocabulary.
_TRIED = (
    "Hello world",
    " two  spaces and an end ",
    "line\n\n\tand tab",
    "in 2024, 3.14159 or 1,000,000!",
    "na\u00efve \ufb01ne \uff26\uff55\uff4c\uff4c \u2460",  # a ligature, and letters and a digit of other forms
    "\u65e5\u672c \u0438 \u0440\u0443\u0441 \U0001f642\U0001f44d\U0001f3fd",
    "",
)


def tokenizer_files(preprocessor: Any) -> dict[str, bytes]:
    """Returns the content of each file by its name, which is empty if the tokenizer has no such form.

    The files yield the tokens of keras-hub's tokenizer. `tokenizers` also adds the start token if the preprocessor
    does. A SentencePiece model that differs in one of the readers yields its own file alone.

    Args:
        preprocessor: The preprocessor of a task of keras-hub; None for a model without one. The preprocessor and the
            tokenizer of a user need no attribute of keras-hub.
    """
    own: Any = getattr(preprocessor, "tokenizer", None)
    proto = getattr(own, "proto", None)
    files = {SENTENCE_PIECE: proto} if isinstance(proto, bytes) else {}
    written = _from_sentence_piece(proto) if isinstance(proto, bytes) else _from_byte_pairs(own)
    if written is None:
        return files
    start = getattr(own, "start_token", None) if getattr(preprocessor, "add_start_token", False) else None
    if start is not None:
        from tokenizers import processors

        written.post_processor = processors.TemplateProcessing(
            single=f"{start} $A", pair=f"{start} $A $B", special_tokens=[(start, own.start_token_id)]
        )
    text = written.to_str(pretty=True)
    is_unigram = json.loads(text)["model"]["type"] == "Unigram"
    settings = {
        # onnxruntime-genai reads unigram models under this name alone
        "tokenizer_class": "T5Tokenizer" if is_unigram else "PreTrainedTokenizerFast",
        "add_bos_token": start is not None,
        "add_eos_token": False,
        "clean_up_tokenization_spaces": False,
    }
    special = {"bos_token": "start_token", "eos_token": "end_token", "pad_token": "pad_token"}
    settings |= {name: token for name, its in special.items() if (token := getattr(own, its, None)) is not None}
    return {**files, TOKENIZER: text.encode(), SETTINGS: (json.dumps(settings, indent=2) + "\n").encode()}


def _from_byte_pairs(own: Any) -> Any:
    """Returns the tokenizer that keras-hub runs, with regular expressions instead of literal patterns, or None.

    keras-hub splits texts at a literal pattern in some versions. onnxruntime-genai reads any pattern as an expression.
    None stands for a tokenizer that is not a byte-pair tokenizer of keras-hub.
    """
    if getattr(own, "merges", None) is None or not hasattr(own, "_maybe_initialized_tokenizers"):
        return None
    from tokenizers import Tokenizer

    own._maybe_initialized_tokenizers()
    content = json.loads(own._tokenizer.to_str())
    for part in content["pre_tokenizer"]["pretokenizers"]:
        literal = part.get("pattern", {}).get("String")
        if literal is not None:
            part["pattern"] = {"Regex": re.escape(literal)}
    return Tokenizer.from_str(json.dumps(content))


def _from_sentence_piece(proto: bytes) -> Any:
    """Returns a tokenizer of `tokenizers` with the tokens of a SentencePiece model, or None.

    onnxruntime-genai reads unigram models as those of T5, which trim texts and put a space before them. It reads byte
    pairs as those of Llama or Gemma, which keep texts and split numbers into digits. None stands for other models.
    """
    from sentencepiece import SentencePieceProcessor
    from tokenizers import AddedToken, Tokenizer

    schema: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")  # a module without types
    parsed = schema.ModelProto.FromString(proto)
    kinds, rules = schema.ModelProto.SentencePiece, parsed.normalizer_spec
    by_kind: dict[int, list[str]] = {}
    for each in parsed.pieces:
        by_kind.setdefault(each.type, []).append(each.piece)
    symbols, has_bytes = by_kind.get(kinds.USER_DEFINED, []), kinds.BYTE in by_kind
    if parsed.trainer_spec.model_type == _UNIGRAM:
        is_known = rules.add_dummy_prefix and rules.remove_extra_whitespaces and not has_bytes and not symbols
    else:
        has_numbers = any(len(each) > 1 and re.search(r"\d", each) for each in by_kind[kinds.NORMAL])
        is_known = not (rules.precompiled_charsmap or rules.remove_extra_whitespaces or has_numbers)
        is_known &= not symbols or not (rules.add_dummy_prefix or any(_SPACE in each for each in symbols))
    if not is_known:
        return None
    (unknown,) = by_kind[kinds.UNKNOWN]
    written = Tokenizer(_model(parsed, unknown, has_bytes))
    written.normalizer, written.decoder = _normalizer(rules), _decoder(rules.add_dummy_prefix, has_bytes)
    written.add_special_tokens([*by_kind.get(kinds.CONTROL, []), unknown])
    written.add_tokens([AddedToken(each, normalized=False) for each in symbols])
    original = SentencePieceProcessor(model_proto=proto)
    tried = [*_TRIED, *(f"a{each}b {each} c" for each in symbols[:20])]
    is_equal = all(written.encode(text).ids == original.Encode(text) for text in tried)
    return written if is_equal else None


def _model(parsed: Any, unknown: str, has_bytes: bool) -> Any:
    """Returns the pieces of a SentencePiece model with their scores, or with the merges that the scores imply."""
    from tokenizers import models

    scores = {each.piece: each.score for each in parsed.pieces}
    places = {piece: place for place, piece in enumerate(scores)}
    if parsed.trainer_spec.model_type == _UNIGRAM:
        return models.Unigram(list(scores.items()), unk_id=places[unknown], byte_fallback=has_bytes)
    splits = ((piece[:cut], piece[cut:]) for piece in scores for cut in range(1, len(piece)))
    merges = sorted(
        (pair for pair in splits if pair[0] in places and pair[1] in places),
        key=lambda pair: (-scores["".join(pair)], places[pair[0]], places[pair[1]]),
    )
    return models.BPE(vocab=places, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=has_bytes)


def _normalizer(rules: Any) -> Any:
    from tokenizers import Regex, normalizers

    parts: list[Any] = [normalizers.Replace(" ", _SPACE)]
    if rules.add_dummy_prefix:
        parts.insert(0, normalizers.Prepend(_SPACE))
    if rules.remove_extra_whitespaces:
        parts[:0] = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if rules.precompiled_charsmap:
        parts.insert(0, normalizers.Precompiled(rules.precompiled_charsmap))
    return normalizers.Sequence(parts)


def _decoder(has_prefix: bool, has_bytes: bool) -> Any:
    from tokenizers import decoders

    parts = [decoders.Replace(_SPACE, " "), *([decoders.ByteFallback()] if has_bytes else []), decoders.Fuse()]
    return decoders.Sequence([*parts, *([decoders.Strip(" ", 1, 0)] if has_prefix else [])])
