"""Calls of language models, in whole or with a cache: tasks of keras-hub, with an encoder too, and models of users."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import keras

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.model.cache_columns import Columns
from keras_pe.export.model.cached_attention import attends_to, key_and_value, with_heads
from keras_pe.export.model.watch.keras_internals import all_layers, compute_output_spec
from keras_pe.export.model.watch.temporary_patches import replaced_functions

_INPUTS = ("token_ids", "padding_mask")
_ENCODER_INPUTS, _DECODER_INPUTS = ([f"{part}_{name}" for name in _INPUTS] for part in ("encoder", "decoder"))
_DECODER, _CROSS = "decoder", "cross_attention"  # in the paths of keras-hub's layers


@dataclass
class Source:
    """The text of an encoder, to which the tokens of a decoder attend.

    Attributes:
        tokens: The tokens, integers `[batch, length]`.
        mask: 1 for a token, 0 for padding, `[batch, length]`.
        rows: The keys and values of each cross-attention in turn, `[batch, heads, length, channels]`. If empty, the
            model computes them from the tokens. Otherwise the decoder does not depend on the tokens.
        found: The keys and values that a call has used, in the same form.
    """

    tokens: Any
    mask: Any
    rows: Sequence[Any] = ()
    found: list[Any] = field(default_factory=list)

    @classmethod
    def from_rows(cls, mask: Any, rows: Sequence[Any]) -> Self:
        """Returns the text whose keys and values are known."""
        return cls(keras.ops.zeros_like(mask), mask, rows)

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of keras-hub's model. In a row without a token each column counts, so that no softmax is empty."""
        from keras import ops

        is_token = ops.cast(self.mask, "int32") > 0
        is_token = ops.logical_or(is_token, ops.logical_not(ops.any(is_token, axis=1, keepdims=True)))
        arrays = (ops.cast(each, "int32") for each in (self.tokens, is_token))
        return dict(zip(_ENCODER_INPUTS, arrays, strict=True))

    def replacements(self, model: Any) -> list[tuple[Any, str, Callable[..., Any]]]:
        """Returns the functions of cross-attentions that project keys or values, each with its replacement."""
        attentions = [layer for layer in all_layers(model) if layer.name == _CROSS]
        return [(part, "call", self._projection(layer)) for layer in attentions for part in key_and_value(layer)]

    def _projection(self, attention: Any) -> Callable[..., Any]:
        def project(usual: Any, *given: Any, **keywords: Any) -> Any:
            return with_heads(attention, usual(*given, **keywords), self._attend)

        return project

    def _attend(self, own: Any) -> Any:
        """Returns and keeps the keys or values of the next cross-attention, `[batch, length, heads, channels]`."""
        from keras import ops

        order = (0, 2, 1, 3)
        rows = self.rows[len(self.found)] if self.rows else ops.transpose(own, order)
        self.found.append(rows)
        return ops.cast(ops.transpose(rows, order), own.dtype)


def check_language_model(model: Any) -> None:
    """Raises ValueError unless a model has the interface of a language model, see `with_cache_as_arguments`."""
    inputs = model.input if isinstance(getattr(model, "input", None), Mapping) else {}
    if not has_step(model) and not has_encoder(model) and set(inputs) != set(_INPUTS):
        received = f"the inputs {', '.join(inputs)}" if inputs else "inputs that have no names"
        raise ArgValueError(
            "model",
            "must be a causal language model of keras-hub, with the inputs token_ids and padding_mask, one with an "
            f"encoder, or a model with `step` and `cache_shapes`. Received: {model.name!r} with {received}.",
        )


def has_step(model: Any) -> bool:
    """Returns whether a model has the interface `keras_pe.protocols.CachedModel`."""
    return hasattr(model, "step") and hasattr(model, "cache_shapes")


def has_encoder(model: Any) -> bool:
    """Returns whether a model is keras-hub's task with an encoder and a decoder."""
    inputs = getattr(model, "input", None)
    has_inputs = isinstance(inputs, Mapping) and set(inputs) == {*_ENCODER_INPUTS, *_DECODER_INPUTS}
    return has_inputs and hasattr(model, "backbone")


def call_whole(model: Any, tokens: Any, is_token: Any, source: Source | None = None) -> Any:
    """Returns the logits of one call of a model.

    Args:
        model: The model.
        tokens: The tokens, integers `[batch, length]`.
        is_token: 1 for a token, 0 for padding, `[batch, length]`.
        source: The text of the encoder, for a model with one.
    """
    arrays = [keras.ops.cast(each, "int32") for each in (tokens, is_token)]
    if has_step(model):
        return model(arrays[0])
    if source is None:
        return model(dict(zip(_INPUTS, arrays, strict=True)))
    with replaced_functions(source.replacements(model)):
        return model({**source.inputs, **dict(zip(_DECODER_INPUTS, arrays, strict=True))})


def call_with_cache(model: Any, tokens: Any, columns: Columns, source: Source | None = None) -> tuple[Any, list[Any]]:
    """Returns the logits of the tokens of a call, and the keys and values of all columns.

    Args:
        model: The model.
        tokens: The tokens, integers `[batch, count]`.
        columns: The columns.
        source: See `call_whole`.
    """
    if has_step(model):
        end = columns.start + columns.count
        seen = columns.visible() if columns.first is None else columns.visible()[:, :, :end]
        return columns.call_step(model.step, tokens, seen), columns.present
    layers = all_layers(model)
    if source is not None:
        paths = {layer: str(layer.path) for layer in layers}
        layers = [layer for layer, path in paths.items() if _DECODER in path and _CROSS not in path]
    with attends_to(layers, columns):
        logits = call_whole(model, tokens, columns.is_token, source)
    return logits, columns.present


def encode(model: Any, tokens: Any, mask: Any) -> list[Any]:
    """Returns the keys and values of an encoder's text in each cross-attention in turn, see `Source`."""
    source = Source(tokens, mask)
    first = keras.ops.zeros((keras.ops.shape(mask)[0], 2), "int32")  # Keras warns of a softmax over one token
    call_whole(model, first, keras.ops.ones_like(first), source)
    return source.found


def _given_shapes(model: Any) -> list[tuple[int, int]]:
    """Returns the `cache_shapes` of a user's own model.

    Raises:
        ValueError: If they are not pairs, or not those of keys and values.
    """
    try:
        found = [(int(heads), int(channels)) for heads, channels in model.cache_shapes]
    except (TypeError, ValueError):
        found = []
    if not found or len(found) % 2 or min(map(min, found)) < 1:
        rule = "must have `cache_shapes` with the pair (heads, channels) of each array: keys and values of each layer"
        raise ArgValueError("model", f"{rule}. Received: {model.name!r} with cache_shapes={model.cache_shapes!r:.80}.")
    return found


def longest_text(model: Any, part: str = "") -> int | None:
    """Returns the largest number of tokens that a table of positions has a row for; None without a table.

    Args:
        model: The model.
        part: A part of the path of the table, such as "encoder".
    """
    tables = [layer for layer in all_layers(model) if type(layer).__name__ == "PositionEmbedding"]
    return min((table.sequence_length for table in tables if part in str(table.path)), default=None)


def cache_shapes(model: Any) -> list[tuple[int, int]]:
    """Returns the heads and channels of the keys and the values of each layer in turn."""
    if has_step(model):
        return _given_shapes(model)
    found: list[Any] = []

    def call(tokens: Any) -> Any:
        ones = keras.ops.ones_like(tokens)
        columns = Columns.from_mask(ones, keras.ops.shape(tokens)[1], ())
        logits, present = call_with_cache(model, tokens, columns, Source(tokens, ones) if has_encoder(model) else None)
        found.extend(present)
        return logits

    compute_output_spec(call, keras.KerasTensor((None, None), "int32"))
    return [(each.shape[1], each.shape[3]) for each in found]
