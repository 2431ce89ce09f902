"""A language model with a shared cache for LiteRT: calls of fixed lengths, and positions as inputs."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State
from keras_pe.export.model.decoder import LENGTH, Decoder
from keras_pe.export.model.language_model import call_with_cache
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange
from keras_pe.export.model.watch.known_values import KnownValues

PREFILL, DECODE = "prefill_{}", "decode"


@keras.saving.register_keras_serializable("keras_pe")
class PositionedDecoder(Decoder):
    """Calls a causal language model on the tokens of one text from a position on, with the names of LiteRT-LM.

    Args:
        model, cache_shapes, vocabulary_size: See `Decoder`.
        lengths: The length of the cache, then the number of tokens of each kind of call.
    """

    def __init__(
        self,
        model: Any,
        cache_shapes: Sequence[Sequence[int]],
        vocabulary_size: int | None = None,
        lengths: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        self.cache_length, *counts = map(int, lengths)
        self.counts = sorted({1, *counts})
        super().__init__(model, cache_shapes, vocabulary_size, is_shared=True, **kwargs)

    def call(self, tokens: Any, input_pos: Any, past: Any) -> Any:  # type: ignore[override]  # it has no encoder
        """Returns the logits of the tokens, and the cache with their keys and values.

        Args:
            tokens: The tokens, integers `[1, length]`.
            input_pos: The positions of the tokens, integers `[length]`, each one more than the position before. Only
                the first is read; rows that would end behind the cache begin earlier.
            past: The keys and values of all positions, each `[1, heads, cache length, channels]`.
        """
        from keras import ops

        count = ops.shape(tokens)[1]
        start = ops.clip(ops.cast(input_pos[0], "int32"), 0, self.cache_length - count)
        mask = ops.arange(self.cache_length, dtype="int32") < start + count
        columns = self.make_columns(mask[None], count, past, is_shared=True, first=start)
        return call_with_cache(self.model, ops.cast(tokens, "int32"), columns)

    @property
    def signatures(self) -> dict[str, Signature]:
        """The signature of each kind of call, by its name in the file."""
        names = {count: DECODE if count == 1 else PREFILL.format(count) for count in self.counts}
        return {name: self.artifact_signature.fix_sizes({LENGTH: count}) for count, name in names.items()}

    @property
    def cache_names(self) -> list[tuple[str, str]]:
        places = [(part, number) for number in range(len(self.cache_shapes) // 2) for part in ("k", "v")]
        return [(f"kv_cache_{part}_{number}",) * 2 for part, number in places]

    @property
    def exchanged(self) -> tuple[State, ...]:
        """The inputs and outputs of the cache, which begins with zeros."""
        return tuple(State(spec.name, spec.name, spec.shape, spec.dtype, 0.0) for spec in self._cache)

    @property
    def artifact_signature(self) -> Signature:
        """The inputs and outputs of all calls, in the layout and with the names of LiteRT-LM."""
        inputs = TensorInfo("tokens", (1, LENGTH), "int32"), TensorInfo("input_pos", (LENGTH,), "int32")
        logits = TensorInfo("logits", (1, LENGTH, self.vocabulary_size), self.cache_dtype)
        names = [spec.name for spec in self._cache]
        ranges = {"tokens": (0, self.vocabulary_size), "input_pos": (0, self.cache_length)}
        sizes = SizeRange(given=tuple(self.counts))
        return Signature(
            (*inputs, *self._cache),
            (logits, *self._cache),
            ("tokens", "input_pos", names),
            ("logits", names),
            {LENGTH: self.counts[-1]},
            {LENGTH: Dimension(Kind.LENGTH, LENGTH, sizes)},
            values=KnownValues(ranges=ranges),
        )

    @property
    def _cache(self) -> tuple[TensorInfo, ...]:
        shapes = [(1, heads, self.cache_length, channels) for heads, channels in self.cache_shapes]
        pairs = zip(self.cache_names, shapes, strict=True)
        return tuple(TensorInfo(name, shape, self.cache_dtype) for (name, _), shape in pairs)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["is_shared"]
        return {**config, "lengths": [self.cache_length, *self.counts]}
