"""A decoder with the inputs of a file of another exporter: positions may be an input, and padding has no values."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import keras

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.border import Border, own_signature
from keras_pe.export.model.border_record import BorderRecord, border_depth
from keras_pe.export.model.decoder import LENGTH, Decoder
from keras_pe.export.model.encoder import BATCH
from keras_pe.export.model.language_model import call_with_cache, check_language_model, has_encoder, longest_text
from keras_pe.export.model.language_model_adapter import with_cache_as_arguments
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.signature.signature import Signature
from keras_pe.protocols import Model

POSITIONS = "position_ids"
_TOKENS = {"input_ids", "attention_mask"}
_FURTHEST = 2048  # positions of a model without a table


@keras.saving.register_keras_serializable("keras_pe")
class ForeignDecoder(Decoder):
    """Calls a causal language model like the files of other exporters.

    Args:
        model, cache_shapes, vocabulary_size: See `Decoder`.
        has_positions: Whether the positions of the tokens are an input.
    """

    has_values_at_padding = False

    def __init__(self, *args: Any, has_positions: bool = False, **kwargs: Any) -> None:
        self.has_positions = has_positions
        super().__init__(*args, **kwargs)

    def call(self, input_ids: Any, attention_mask: Any, past: Any, position_ids: Any = None) -> Any:  # type: ignore[override]  # it has no encoder
        """Returns the logits of the tokens, and the keys and values of all tokens.

        Args:
            input_ids, attention_mask, past: See `Decoder`.
            position_ids: The positions of the tokens, integers `[batch, length]`. By default those of the mask.
        """
        columns = self.make_columns(attention_mask, keras.ops.shape(input_ids)[1], past)
        columns.given_positions = None if position_ids is None else keras.ops.cast(position_ids, "int32")
        return call_with_cache(self.model, keras.ops.cast(input_ids, "int32"), columns)

    @property
    def artifact_signature(self) -> Signature:
        """The inputs and outputs. Single calls have no padding; sequences of calls have it."""
        own = super().artifact_signature
        ranges = {**own.values.ranges, "attention_mask": (1, 2)}
        if not self.has_positions:
            return replace(own, values=replace(own.values, ranges=ranges))
        return replace(
            own,
            inputs=(*own.inputs, TensorInfo(POSITIONS, (BATCH, LENGTH), "int64")),
            arguments=(*own.arguments, POSITIONS),
            values=replace(own.values, ranges={**ranges, POSITIONS: (0, longest_text(self.model) or _FURTHEST)}),
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        config = super().get_config()
        del config["is_shared"]
        return {**config, "has_positions": self.has_positions}


@dataclass(frozen=True)
class ForeignDecoderRecord(BorderRecord):
    """The adapter of a decoder that another exporter wrote.

    Attributes:
        has_positions: Whether the file takes the positions of the tokens.
    """

    has_positions: bool = False

    def around(self, model: Model, input_signature: Any = None, fixed: FixedSizes | None = None) -> tuple[Any, Any]:
        if border_depth(model) >= self.depth:
            return model, own_signature(model) or input_signature
        plain = with_cache_as_arguments(model)
        sizes = plain.cache_shapes, plain.vocabulary_size
        outer = ForeignDecoder(model, *sizes, has_positions=self.has_positions, name=plain.name)
        return outer, own_signature(outer)


def foreign_decoder_record(model: Any, inputs: Iterable[TensorInfo]) -> ForeignDecoderRecord | None:
    """Returns the adapter for a file of another exporter; None unless the file is a decoder of the model with a cache.

    Args:
        model: The Keras model.
        inputs: The inputs of the file.
    """
    ranks = {spec.name: len(spec.shape) for spec in inputs}
    cache = ranks.keys() - _TOKENS - {POSITIONS}
    if not ranks.keys() >= _TOKENS or len(cache) < 2 or any(ranks[name] != 4 for name in cache):
        return None
    try:
        check_language_model(model)
    except ArgValueError:
        return None
    if has_encoder(model):
        return None
    border, has_positions = Border(state="cache"), POSITIONS in ranks
    return ForeignDecoderRecord(f"{border!r} {has_positions}", border, border_depth(model) + 1, has_positions)
