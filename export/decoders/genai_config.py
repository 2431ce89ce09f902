"""The configuration that onnxruntime-genai reads beside a decoder: `genai_config.json`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.state import State
from keras_pe.export.errors import check_whole

GENAI_CONFIG = "genai_config.json"
_TYPE = "decoder"  # the generic type: "gpt2" would expect one array for keys and values together
_DEFAULT_LENGTH = 4096  # for a model without a limit


@dataclass(frozen=True)
class Tokens:
    """The tokens and the length that a tokenizer defines.

    Attributes:
        ends: The tokens that end a text.
        start: The token before a text.
        padding: The token of padding.
        length: The largest number of tokens of a prompt and its continuation.
    """

    ends: tuple[int, ...]
    start: int
    padding: int
    length: int


def checked_tokens(
    model: Any, ends: Sequence[int] | None, start: int | None, padding: int | None, length: int | None
) -> Tokens:
    """Returns the tokens, with those of the model's tokenizer for each that is None.

    Args:
        model: The causal language model.
        ends, start, padding, length: See `export_decoder`.

    Raises:
        ValueError: If a number is negative, or no end token is known.
        TypeError: If a value is not a whole number, or `ends` is not a list.
    """
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    known = getattr(tokenizer, "end_token_id", None)
    if ends is not None and not isinstance(ends, Iterable):
        raise ArgTypeError("end_tokens", f"must be a list of whole numbers. Received: end_tokens={ends!r:.80}.")
    found = tuple(ends) if ends is not None else () if known is None else (known,)
    if not found:
        raise ArgValueError(
            "end_tokens",
            "must be given for a model without a tokenizer: onnxruntime-genai needs the tokens that end a text. "
            f"Received: end_tokens={ends!r} for {model.name!r}.",
        )
    own_length = getattr(getattr(model, "backbone", model), "max_sequence_length", None)
    start = _first(start, getattr(tokenizer, "start_token_id", None), found[0])
    padding = _first(padding, getattr(tokenizer, "pad_token_id", None), found[0])
    length = _first(length, own_length, _DEFAULT_LENGTH)
    for end in found:
        check_whole("end_tokens", end, 0)
    check_whole("start_token", start, 0)
    check_whole("padding_token", padding, 0)
    check_whole("context_length", length, 1)
    return Tokens(tuple(map(int, found)), int(start), int(padding), int(length))


def genai_config(model: Any, artifact: Artifact, tokens: Tokens) -> str:
    """Returns the text of the configuration.

    Args:
        model: The causal language model.
        artifact: The exported decoder.
        tokens: The tokens and the length.

    Raises:
        ValueError: If the vocabulary lacks a token.
    """
    backbone = getattr(model, "backbone", model)
    heads, channels = _cache_size(artifact.states)
    queries = next((getattr(backbone, name) for name in _HEADS if getattr(backbone, name, None)), heads)
    numbered = _numbered_names(artifact.states)
    decoder: dict[str, Any] = {
        "session_options": {"provider_options": []},
        "filename": artifact.path.name,
        "head_size": channels,
        "hidden_size": getattr(backbone, "hidden_dim", queries * channels),
        "num_attention_heads": queries,
        "num_key_value_heads": heads,
        "num_hidden_layers": len(artifact.states) // 2,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **numbered[0]},
        "outputs": {"logits": "logits", **numbered[1]},
    }
    ends = tokens.ends[0] if len(tokens.ends) == 1 else tokens.ends
    special = {"bos_token_id": tokens.start, "eos_token_id": ends, "pad_token_id": tokens.padding}
    vocabulary = next(int(spec.shape[-1]) for spec in artifact.outputs if spec.name == "logits")
    used = {"end_tokens": tokens.ends, "start_token": (tokens.start,), "padding_token": (tokens.padding,)}
    for name, given in used.items():
        for token in given:
            check_whole(name, token, 0, vocabulary - 1)
    content = {
        "model": {
            "type": _TYPE,
            "vocab_size": vocabulary,
            "context_length": tokens.length,
            **special,
            "decoder": decoder,
        },
        "search": {
            "max_length": tokens.length,
            "do_sample": False,
            "num_beams": 1,
            "past_present_share_buffer": artifact.states[0].is_shared,
        },
    }
    return json.dumps(content, indent=2) + "\n"


_HEADS = ("num_query_heads", "num_attention_heads", "num_heads")


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _cache_size(states: Sequence[State]) -> tuple[int, int]:
    """Returns the heads and the channels of the first layer's keys."""
    _, heads, _, channels = states[0].shape
    return int(heads), int(channels)


def _numbered_names(states: Sequence[State]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the names of the cache with a place for the number of the layer, as inputs and as outputs."""
    keys, values = states[:2]
    old, new = (
        [name.replace(".0.", ".%d.") for name in pair]
        for pair in ((keys.input, values.input), (keys.output, values.output))
    )
    return (
        {"past_key_names": old[0], "past_value_names": old[1]},
        {"present_key_names": new[0], "present_value_names": new[1]},
    )
