"""A language model with the keys and values of earlier tokens as inputs and outputs, for prompts and single steps."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State
from keras_pe.export.model.cache_columns import Columns
from keras_pe.export.model.encoder import BATCH, ENCODED, AroundLanguageModel, CacheShapes
from keras_pe.export.model.language_model import Source, call_whole, call_with_cache, has_encoder, longest_text
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import BUFFER, SPARE, Dimension, Kind, SizeRange
from keras_pe.export.model.watch.keras_internals import compute_output_spec
from keras_pe.export.model.watch.known_values import KnownValues

LENGTH, PAST, TOTAL = "sequence_length", "past_sequence_length", "total_sequence_length"
_ENCODER_MASK = "encoder_attention_mask"


@keras.saving.register_keras_serializable("keras_pe")
class Decoder(AroundLanguageModel):
    """Calls a causal language model on tokens, with the keys and values of the tokens before.

    Args:
        model: A built model, see `with_cache_as_arguments`. If it has an encoder, a call also takes the keys and values
            of the encoder's text, see `Encoder`.
        cache_shapes: The heads and channels of each array in the cache: keys and values of each layer in turn.
        vocabulary_size: The number of logits of each token.
        is_shared: Whether a call writes its keys and values into the arrays of earlier ones, which have rows for all
            tokens of a text. Otherwise it returns longer arrays.
    """

    make_columns = staticmethod(Columns.from_mask)
    has_values_at_padding = True

    def __init__(
        self,
        model: Any,
        cache_shapes: CacheShapes,
        vocabulary_size: int | None = None,
        is_shared: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, cache_shapes, **kwargs)
        self.is_shared = is_shared
        self.vocabulary_size = self._count_logits() if vocabulary_size is None else vocabulary_size

    def call(
        self,
        input_ids: Any,
        attention_mask: Any,
        past: Any,
        encoder_attention_mask: Any = None,
        encoded: Sequence[Any] = (),
    ) -> Any:
        """Returns the logits of the tokens, and the keys and values of all tokens.

        Args:
            input_ids: The tokens, integers `[batch, length]`.
            attention_mask: Integers `[batch, past + length]`: 1 for a token, 0 for padding.
            past: The keys and values of the tokens before, each `[batch, heads, past, channels]`; with more rows in a
                shared cache.
            encoder_attention_mask: 1 for a token of the encoder's text, 0 for padding, `[batch, length]`.
            encoded: The keys and values of this text, each `[batch, heads, length, channels]`.
        """
        count = keras.ops.shape(input_ids)[1]
        columns = self.make_columns(attention_mask, count, past, is_shared=self.is_shared)
        source = None if encoder_attention_mask is None else Source.from_rows(encoder_attention_mask, encoded)
        return call_with_cache(self.model, keras.ops.cast(input_ids, "int32"), columns, source)

    def call_uncached(self, tokens: Any, context: Sequence[Any] = ()) -> Any:
        """Returns the logits of whole sequences without padding, integers `[batch, length]`, in one call of the model.

        The result defines the numbers of the decoder.

        Args:
            tokens: The tokens.
            context: The arrays of `context_names`.
        """
        source = Source.from_rows(context[0], context[1:]) if context else None
        return call_whole(self.model, tokens, keras.ops.ones_like(tokens), source)

    @property
    def cache_names(self) -> list[tuple[str, str]]:
        """The input and the output of each array in the cache."""
        return self.array_names("decoder." if has_encoder(self.model) else "")

    @property
    def context_names(self) -> list[str]:
        """The inputs that are equal in all calls of a text: the mask, keys and values of an encoder's text."""
        if not has_encoder(self.model):
            return []
        return [_ENCODER_MASK, *(past for past, _ in self.array_names("encoder."))]

    @property
    def exchanged(self) -> tuple[State, ...]:
        """The inputs and outputs of the cache, which begins without rows unless its length is fixed."""
        length = BUFFER if self.is_shared else 0
        shapes = ((Kind.BATCH.value, heads, length, channels) for heads, channels in self.cache_shapes)
        pairs = zip(self.cache_names, shapes, strict=True)
        return tuple(State(*names, shape, self.cache_dtype, 0.0) for names, shape in pairs)

    @property
    def artifact_signature(self) -> Signature:
        """The inputs and outputs in the layout and with the names of onnxruntime-genai."""
        lengths = (BUFFER, BUFFER) if self.is_shared else (PAST, TOTAL)
        old, new = map(self.arrays, zip(*self.cache_names, strict=True), lengths)
        inputs = (
            TensorInfo("input_ids", (BATCH, LENGTH), "int64"),
            TensorInfo("attention_mask", (BATCH, TOTAL), "int64"),
        )
        logits = TensorInfo("logits", (BATCH, LENGTH, self.vocabulary_size), self.cache_dtype)
        longest = longest_text(self.model, "decoder" if self.context_names else "")
        sizes = SizeRange(most=longest and longest // 2)
        dimensions = [
            Dimension(Kind.BATCH, BATCH),
            Dimension(Kind.LENGTH, LENGTH, sizes),
            Dimension(Kind.LENGTH, PAST, sizes),
            Dimension(Kind.LENGTH, TOTAL, SizeRange(2), parts=(PAST, LENGTH)),
        ]
        if self.is_shared:
            dimensions += [
                Dimension(Kind.LENGTH, SPARE),
                Dimension(Kind.LENGTH, BUFFER, SizeRange(3), parts=(PAST, LENGTH, SPARE)),
            ]
        ranges = {"input_ids": (0, self.vocabulary_size), "attention_mask": (0, 2)}
        signature = Signature(
            (*inputs, *old),
            (logits, *new),
            ("input_ids", "attention_mask", [spec.name for spec in old]),
            ("logits", [spec.name for spec in new]),
            {BATCH: 2, LENGTH: 3, PAST: 5, TOTAL: 8, **({SPARE: 4, BUFFER: 12} if self.is_shared else {})},
            {each.name: each for each in dimensions},
            values=KnownValues(ranges=ranges),
        )
        if not self.context_names:
            return signature
        mask, *names = self.context_names
        return replace(
            signature,
            inputs=(*signature.inputs, TensorInfo(mask, (BATCH, ENCODED), "int64"), *self.arrays(names, ENCODED)),
            arguments=(*signature.arguments, mask, names),
            sizes={**signature.sizes, ENCODED: 7},
            dimensions={**signature.dimensions, ENCODED: Dimension(Kind.LENGTH, ENCODED)},
            values=KnownValues(ranges={**ranges, mask: (0, 2)}),
        )

    def _count_logits(self) -> int:
        past = [keras.KerasTensor((None, heads, None, size), self.cache_dtype) for heads, size in self.cache_shapes]
        integers = [keras.KerasTensor((None, None), "int64") for _ in range(2)]
        context = [integers[1], past] if self.context_names else []
        logits, _ = compute_output_spec(self.call, *integers, past, *context)
        return int(logits.shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        own = {name: getattr(self, name) for name in ("vocabulary_size", "is_shared")}
        return {**super().get_config(), **own}
