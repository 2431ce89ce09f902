"""Generation of tokens from the file of a decoder: a reference, and a tool of checks."""

import os
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.decoders.running_decoder import RunningDecoder, Tokens, has_encoder, open_decoder
from keras_pe.export.errors import check_whole, first_line


def generate(
    artifact: Artifact | str | os.PathLike[str],
    prompt: Sequence[int] | Sequence[Sequence[int]] | npt.NDArray[np.integer[Any]],
    *,
    count: int,
    start: int | Sequence[int] | None = None,
    end: int | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    temperature: float = 1.0,
    seed: int | None = None,
) -> list[Tokens]:
    """Returns the tokens that a decoder adds to prompts, in ONNX Runtime or LiteRT on the CPU.

    Without `top_k`, `top_p` and `seed`, each token is the most likely one. Prompts of different lengths are padded at
    their ends.

    Args:
        artifact: The result of `export_decoder`, or the path of the `.onnx` or `.tflite` file.
        prompt: The tokens of one prompt, or those of several prompts, which a LiteRT file does not take.
        count: The largest number of new tokens of a prompt.
        start: The first token, or tokens, of a decoder that has an encoder, whose file is beside the decoder's: 0 for
            T5, and `[2, 0]` for Bart. The prompt is then the text of the encoder.
        end: The token that ends a row. The row contains it. By default no token ends a row.
        top_k: The number of most likely tokens to draw from.
        top_p: The least total probability of the most likely tokens to draw from, above 0 and up to 1.
        temperature: The divisor of the logits before a draw, above 0.
        seed: The seed of the draws. Equal seeds yield equal tokens.

    Returns:
        The new tokens of each prompt, int64 `[number of tokens]`.

    Raises:
        ValueError: If an argument is wrong, or the file is not that of a decoder.
        ImportError: If the runtime is missing.
    """
    check_whole("count", count, 1)
    for name, number, least in (("top_k", top_k, 1), ("seed", seed, 0)):
        if number is not None:
            check_whole(name, number, least)
    limits = [
        ("temperature", temperature, np.inf, "a number above 0"),
        ("top_p", 1 if top_p is None else top_p, 1, "a number above 0 and up to 1"),
    ]
    for name, value, most, rule in limits:
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) <= most:
            raise ArgValueError(name, f"must be {rule}. Received: {name}={value!r}.")
    artifact = artifact if isinstance(artifact, Artifact) else read_artifact(artifact)
    last_token = next((int(spec.shape[-1]) - 1 for spec in artifact.outputs if spec.name == "logits"), None)
    if end is not None:
        check_whole("end", end, 0, last_token)
    tokens, mask = _pad("prompt", prompt, last_token)
    if has_encoder(artifact) != (start is not None):
        rule = "must be the first tokens of a decoder with an encoder, and left out for other decoders."
        raise ArgValueError("start", f"{rule} Received: start={start!r} for {artifact.path}.")
    text = None
    if start is not None:
        text, (tokens, mask) = (tokens, mask), _pad("start", [np.atleast_1d(start)] * len(tokens), last_token)
    decoder = open_decoder(artifact, len(tokens), tokens.shape[1] + count, text)
    last, rows = mask.sum(axis=1) - 1, np.arange(len(tokens))
    draws = None if top_k is None and top_p is None and seed is None else np.random.default_rng(seed)
    new: list[Tokens] = []
    while True:
        logits = _step(decoder, tokens, mask)[rows, last].astype(np.float64)
        new.append(logits.argmax(-1) if draws is None else _draw(draws, logits / temperature, top_k, top_p))
        added = np.stack(new, axis=1)
        if len(new) == count or (end is not None and (added == end).any(axis=1).all()):
            return [_cut(row, end) for row in added]
        tokens, last = new[-1][:, None], np.zeros_like(last)
        mask = np.concatenate([mask, np.ones_like(tokens)], axis=1)


def _step(decoder: RunningDecoder, tokens: Tokens, mask: Tokens) -> npt.NDArray[Any]:
    """Returns the logits of the next tokens, see `RunningDecoder`.

    Raises:
        ValueError: If the runtime refuses the call, as it does behind the last row of a table of positions.
    """
    try:
        return decoder.step(tokens, mask)
    except Exception as error:  # each runtime has its own exception types
        rule = "must leave the prompts with their continuations no longer than the decoder's positions"
        received = f"a call that has failed with {mask.shape[1]} tokens in a row"
        raise ArgValueError("count", f"{rule}. Received: {received}: {first_line(error)}") from error


def _pad(name: str, prompt: Any, last_token: int | None) -> tuple[Tokens, Tokens]:
    """Returns prompts with zeros at their ends, and a mask of their own tokens, both `[batch, length]`."""
    is_list = isinstance(prompt, Sequence) or (isinstance(prompt, np.ndarray) and prompt.ndim > 0)
    several = [*prompt] if is_list and len(prompt) and np.ndim(prompt[0]) else [prompt]
    rows = [np.asarray(row) for row in several]
    is_right = all(row.size and row.ndim == 1 and row.dtype.kind in "iu" and row.min() >= 0 for row in rows)
    if not is_right or (last_token is not None and max(map(np.max, rows)) > last_token):
        rule = f"must be whole numbers from 0 to {last_token}, or rows of them with at least one"
        raise ArgValueError(name, f"{rule}. Received: {prompt!r:.80}")
    length = max(map(len, rows))
    mask = np.stack([np.arange(length) < len(row) for row in rows]).astype(np.int64)
    return np.stack([np.pad(row.astype(np.int64), (0, length - len(row))) for row in rows]), mask


def _draw(rng: np.random.Generator, logits: npt.NDArray[np.float64], top_k: int | None, top_p: float | None) -> Tokens:
    """Returns a token for each row, drawn from its most likely tokens."""
    order = np.argsort(-logits, axis=-1, kind="stable")
    likely = np.take_along_axis(logits, order, -1)
    odds = np.exp(likely - likely[:, :1])
    odds[:, top_k or logits.shape[-1] :] = 0
    odds /= odds.sum(axis=-1, keepdims=True)
    if top_p is not None:
        odds[np.cumsum(odds, axis=-1) - odds >= top_p] = 0
        odds /= odds.sum(axis=-1, keepdims=True)
    places = [rng.choice(len(row), p=row) for row in odds]
    return order[np.arange(len(order)), places]


def _cut(row: Tokens, end: int | None) -> Tokens:
    stops = [] if end is None else np.flatnonzero(row == end).tolist()
    return row[: stops[0] + 1] if stops else row
