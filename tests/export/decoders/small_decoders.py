"""Small causal language models of keras-hub with random weights: two layers of width 32, and 97 tokens."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_pe.export.model.decoder import Decoder

VOCABULARY = 97
_COMMON = {"vocabulary_size": VOCABULARY, "num_layers": 2, "hidden_dim": 32, "intermediate_dim": 64}
_GROUPED = {**_COMMON, "num_query_heads": 4, "num_key_value_heads": 2}
_WINDOW = {"use_sliding_window_attention": True, "sliding_window_size": 8}
_SU = {"rope_scaling_type": "su", "rope_scaling_short_factor": [1, 1.1, 1.2, 1.3]}
_SOFT = {"attention_logit_soft_cap": 5.0, "final_logit_soft_cap": 3.0, "query_head_dim_normalize": True}
_BANDS = {"rope_low_freq_factor": 1.0, "rope_high_freq_factor": 4.0, "rope_pretraining_sequence_length": 64}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2": ("GPT2", {**_COMMON, "num_heads": 4, "max_sequence_length": 256}),
    "Llama": ("Llama", _GROUPED),
    "OPT": ("OPT", {**_COMMON, "num_heads": 4, "max_sequence_length": 256}),
    "Bloom": ("Bloom", {**_COMMON, "num_heads": 4}),
    "Falcon": ("Falcon", {**_COMMON, "num_attention_heads": 4}),
    "GPTNeoX": ("GPTNeoX", {**_COMMON, "num_heads": 4}),
    "Llama3": ("Llama3", {**_GROUPED, "rope_frequency_adjustment_factor": 8.0, **_BANDS}),
    "Mistral": ("Mistral", {**_GROUPED, "sliding_window": 8}),
    "Mixtral": ("Mixtral", {**_GROUPED, "sliding_window": 8, "num_experts": 4, "top_k": 2}),
    "Qwen": ("Qwen", _GROUPED),
    "Qwen, window": ("Qwen", {**_GROUPED, **_WINDOW}),
    "Qwen3": ("Qwen3", {**_GROUPED, "head_dim": 16}),
    "Phi3": ("Phi3", _GROUPED),
    "Phi3, su": (
        "Phi3",
        {
            **{**_GROUPED, **_SU, "rope_scaling_long_factor": [2, 2.1, 2.2, 2.3]},
            "max_sequence_length": 512,
            "pretraining_sequence_length": 256,
        },
    ),
    "Gemma": ("Gemma", {**_GROUPED, "head_dim": 8}),
    "Gemma 2": ("Gemma", {**_GROUPED, "head_dim": 8, **_WINDOW, **_SOFT, "use_post_ffw_norm": True}),
    "Gemma3": (
        "Gemma3",
        {**_GROUPED, "head_dim": 8, **_WINDOW, "use_query_key_norm": True, "image_size": 16, "vision_encoder": None},
    ),
}

WITH_ENCODER: dict[str, tuple[str, dict[str, Any]]] = {  # a layer in each of two parts
    "T5": ("T5", {**_COMMON, "num_layers": 1, "num_heads": 4, "tie_embedding_weights": False}),
    "Bart": ("Bart", {**_COMMON, "num_layers": 1, "num_heads": 4, "max_sequence_length": 256}),
}


def language_model(family: str) -> Any:
    """Returns the model of a family. Its weights are large enough that generated tokens vary."""
    name, options = {**FAMILIES, **WITH_ENCODER}[family]
    backbone = getattr(keras_hub.models, f"{name}Backbone")(**options)
    task = f"{name}Seq2SeqLM" if family in WITH_ENCODER else f"{name}CausalLM"
    model = getattr(keras_hub.models, task)(backbone=backbone, preprocessor=None)
    rng = np.random.default_rng(1)
    for weight in model.weights:
        if len(weight.shape) > 1:
            is_varied = family in WITH_ENCODER and "token_embedding" not in weight.path
            weight.assign(rng.normal(0, 0.5 if is_varied else 0.15, weight.shape))
    return model


def whole_logits(model: Any, tokens: Any, text: Any = None) -> Any:
    """Returns the logits of one call without a cache, `[batch, length, vocabulary]`.

    Args:
        model: The model.
        tokens: The tokens, `[batch, length]`.
        text: The tokens of the encoder, for a model with one.
    """
    given = {"": tokens} if text is None else {"encoder_": text, "decoder_": tokens}
    arrays = {part: np.asarray(each) for part, each in given.items()}
    ids = {f"{part}token_ids": each for part, each in arrays.items()}
    return np.asarray(model({**ids, **{f"{part}padding_mask": np.ones_like(each) for part, each in arrays.items()}}))


def empty_cache(decoder: Decoder, batch: int) -> list[Any]:
    """Returns the cache before the first call."""
    return [np.zeros((batch, heads, 0, size), "float32") for heads, size in decoder.cache_shapes]


@keras.saving.register_keras_serializable("tests")
class OwnDecoder(keras.Model):
    """A decoder of one attention layer with learned positions, written with `step` and `cache_shapes`.

    Args:
        fault: The fault of `step`; empty for a sound one.
    """

    cache_shapes = ((2, 4), (2, 4))

    def __init__(self, fault: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fault = fault
        self.tokens, self.places = keras.layers.Embedding(VOCABULARY, 8), keras.layers.Embedding(64, 8)
        self.projections = [keras.layers.EinsumDense("bsc,chd->bhsd", (2, None, 4)) for _ in range(3)]
        self.out = keras.layers.Dense(VOCABULARY)

    def call(self, tokens: Any) -> Any:
        """Returns the logits of whole sequences."""
        from keras import ops

        length = ops.shape(tokens)[1]
        places = ops.arange(length, dtype="int32")
        empty = [ops.zeros((ops.shape(tokens)[0], heads, 0, size)) for heads, size in self.cache_shapes]
        return self.attend(tokens, empty, places[None], (places[:, None] >= places[None])[None])[0]

    def step(self, tokens: Any, cache: Any, positions: Any, mask: Any) -> Any:
        """Returns the logits of the tokens and the longer cache, with the planted fault."""
        from keras import ops

        past, places = ops.shape(cache[0])[2], ops.arange(ops.shape(mask)[2], dtype="int32")
        columns = places[None, past:]
        causal = places[None, None, :] <= columns[:, :, None]
        if self.fault == "each call begins at 0":
            positions = positions - positions[:, :1]
        if self.fault == "one position later":
            positions = positions + 1
        if self.fault in ("padding has positions", "no mask"):
            positions = columns
        if self.fault in ("padding is visible", "no mask"):
            mask = causal
        if self.fault == "newest row hidden":
            mask = ops.logical_and(mask, places[None, None, :] != past - 1)
        if self.fault == "oldest row hidden":
            mask = ops.logical_and(mask, ops.logical_or(places[None, None, :] > 0, past == 0))
        if self.fault == "one position later after the first call":
            positions = positions + ops.cast(past > 0, "int32")
        if self.fault == "window of 6":
            every = ops.cumsum(ops.cast(mask[:, -1], "int32"), axis=1) - 1
            mask = ops.logical_and(mask, positions[:, :, None] - every[:, None, :] < 6)
        if self.fault == "rounded to float16":
            cache = [ops.cast(ops.cast(each, "float16"), each.dtype) for each in cache]
        if self.fault == "oldest row lost":
            cache = [ops.concatenate([0 * each[:, :, :1], each[:, :, :-1]], axis=2) for each in cache]
        if self.fault == "three rows lost":
            cache = [ops.concatenate([0 * each[:, :, :3], each[:, :, :-3]], axis=2)[:, :, :past] for each in cache]
        if self.fault == "keys shifted by 3":
            cache = [ops.concatenate([0 * cache[0][:, :, :3], cache[0][:, :, :-3]], axis=2)[:, :, :past], cache[1]]
        if self.fault == "heads reversed":
            cache = [each[:, ::-1] for each in cache]
        if self.fault == "half of the rows counted":
            positions = positions - past // 2
        if self.fault == "keys turned again":
            cache = [self.turn(cache[0], places[None, :past]), cache[1]]
        if self.fault == "order on reading":
            cache = cache[::-1]
        logits, cache = self.attend(tokens, cache, positions, mask)
        return logits, cache[::-1] if self.fault == "order" else cache

    def attend(self, tokens: Any, cache: Any, positions: Any, mask: Any) -> Any:
        """Returns the logits of the tokens and the longer cache."""
        from keras import ops

        x = self.embed(tokens, positions)
        query, key, value = (project(x) for project in self.projections)
        query, key = self.turn(query, positions), self.turn(key, positions)
        key, value = (self.join(pair) for pair in zip(cache, (key, value), strict=True))
        scores = self.relate(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))), positions, mask)
        weights = ops.softmax(ops.where(mask[:, None], scores, -1e9))
        y = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return self.out(ops.reshape(y, (ops.shape(y)[0], ops.shape(y)[1], 8))), [key, value]

    def embed(self, tokens: Any, positions: Any) -> Any:
        """Returns the tokens with their positions."""
        return self.tokens(tokens) + self.places(positions)

    def turn(self, rows: Any, positions: Any) -> Any:
        """Returns the queries or keys at positions; here positions are in the tokens."""
        return rows

    def relate(self, scores: Any, positions: Any, mask: Any) -> Any:
        """Returns the scores, which may depend on distances."""
        return scores

    @staticmethod
    def join(pair: Any) -> Any:
        """Returns the rows of earlier calls and of this one."""
        return keras.ops.concatenate(pair, axis=2)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"name": self.name, "fault": self.fault}


@keras.saving.register_keras_serializable("tests")
class RotaryDecoder(OwnDecoder):
    """A decoder that rotates queries and keys."""

    def embed(self, tokens: Any, positions: Any) -> Any:
        """Returns the tokens, all at the position 0."""
        return self.tokens(tokens) + self.places(0 * positions)

    def turn(self, rows: Any, positions: Any) -> Any:
        """Returns the rotated queries or keys."""
        from keras import ops

        angles = ops.cast(positions, rows.dtype)[:, None, :, None] * np.array([1, 0.1], "float32")
        (one, other), cos, sin = ops.split(rows, 2, axis=-1), ops.cos(angles), ops.sin(angles)
        return ops.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)


def own_decoder(fault: str = "", kind: type[OwnDecoder] = OwnDecoder) -> OwnDecoder:
    """Returns a built decoder of the user's kind."""
    keras.utils.set_random_seed(0)
    model = kind(fault)
    model(np.zeros((1, 3), "int32"))
    return model
