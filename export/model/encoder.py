"""The encoder of a language model, which returns the keys and values of a text for each call of the decoder."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.language_model import encode, longest_text
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange
from keras_pe.export.model.watch.known_values import KnownValues

BATCH, ENCODED = "batch_size", "encoder_sequence_length"
CacheShapes = Sequence[Sequence[int]]


class AroundLanguageModel(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model around a language model, with inputs and outputs of its own.

    Args:
        model: A built model, see `with_cache_as_arguments`.
        cache_shapes: The heads and channels of each array in the cache: keys and values of each layer in turn.
    """

    def __init__(self, model: Any, cache_shapes: CacheShapes, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.model = model
        self.cache_shapes = [(int(heads), int(channels)) for heads, channels in cache_shapes]
        self.built = True

    @property
    def cache_dtype(self) -> str:
        """The dtype of keys and values, and of logits."""
        return str(self.model.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        model = keras.saving.serialize_keras_object(self.model)
        return {"name": self.name, "model": model, "cache_shapes": self.cache_shapes}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        """Returns the model of a configuration."""
        model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
        return cls(**{**config, "model": model})

    def array_names(self, part: str) -> list[tuple[str, str]]:
        """Returns the input and the output with the keys or values of each layer in turn.

        Args:
            part: The text before "key" and "value", such as "encoder.".
        """
        places = [(layer, each) for layer in range(len(self.cache_shapes) // 2) for each in ("key", "value")]
        return [(f"past_key_values.{layer}.{part}{each}", f"present.{layer}.{part}{each}") for layer, each in places]

    def arrays(self, names: Sequence[str], length: str) -> list[TensorInfo]:
        """Returns keys and values of a length, with a name for each."""
        pairs = zip(names, self.cache_shapes, strict=True)
        return [TensorInfo(name, (BATCH, heads, length, size), self.cache_dtype) for name, (heads, size) in pairs]


@keras.saving.register_keras_serializable("keras_pe")
class Encoder(AroundLanguageModel):
    """Returns the keys and values of a text in each cross-attention of the decoder."""

    def call(self, input_ids: Any, attention_mask: Any) -> list[Any]:
        """Returns the keys and values of each layer in turn, `[batch, heads, length, channels]`.

        Args:
            input_ids: The tokens, integers `[batch, length]`.
            attention_mask: 1 for a token, 0 for padding, integers `[batch, length]`.
        """
        return encode(self.model, input_ids, attention_mask)

    @property
    def artifact_signature(self) -> Signature:
        """The inputs and outputs of the artifact."""
        inputs = tuple(TensorInfo(name, (BATCH, ENCODED), "int64") for name in ("input_ids", "attention_mask"))
        names = [present for _, present in self.array_names("encoder.")]
        vocabulary = self.model.backbone.vocabulary_size
        return Signature(
            inputs,
            tuple(self.arrays(names, ENCODED)),
            ("input_ids", "attention_mask"),
            names,
            {BATCH: 2, ENCODED: 5},
            {
                BATCH: Dimension(Kind.BATCH, BATCH),
                ENCODED: Dimension(Kind.LENGTH, ENCODED, SizeRange(most=longest_text(self.model, "encoder"))),
            },
            values=KnownValues(ranges={"input_ids": (0, vocabulary), "attention_mask": (0, 2)}),
        )
