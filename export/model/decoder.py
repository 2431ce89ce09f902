"""A language model with the keys and values of earlier tokens as inputs and outputs, for prompts and single steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.state import State
from keras_pe.export.model.cached_attention import Columns, attends_to
from keras_pe.export.model.rebuild import half_dtypes
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import Dimension, Kind, SizeRange
from keras_pe.export.model.watch.keras_internals import all_layers, compute_output_spec
from keras_pe.export.model.watch.known_values import KnownValues

BATCH, LENGTH, PAST, TOTAL = "batch_size", "sequence_length", "past_sequence_length", "total_sequence_length"
BUFFER, SPARE = "max_sequence_length", "spare_sequence_length"
_INPUTS = ("token_ids", "padding_mask")


@keras.saving.register_keras_serializable("keras_pe")
class Decoder(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Calls a causal language model on tokens, with the keys and values of the tokens before.

    Args:
        model: A built model, see `with_cache_as_arguments`.
        cache_shapes: The heads and channels of each array in the cache: keys and values of each layer in turn.
        vocabulary_size: The number of logits of each token.
        is_shared: Whether a call writes its keys and values into the arrays of earlier ones, which have rows for all
            tokens of a text. Otherwise it returns longer arrays.
    """

    make_columns = staticmethod(Columns.from_mask)

    def __init__(
        self,
        model: Any,
        cache_shapes: Sequence[Sequence[int]],
        vocabulary_size: int | None = None,
        is_shared: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.model = model
        self.cache_shapes = [(int(heads), int(channels)) for heads, channels in cache_shapes]
        self.is_shared = is_shared
        self.built = True
        self.vocabulary_size = self._count_logits() if vocabulary_size is None else vocabulary_size

    def call(self, input_ids: Any, attention_mask: Any, past: Any) -> Any:
        """Returns the logits of the tokens, and the keys and values of all tokens.

        Args:
            input_ids: The tokens, integers `[batch, length]`.
            attention_mask: Integers `[batch, past + length]`: 1 for a token, 0 for padding.
            past: The keys and values of the tokens before, each `[batch, heads, past, channels]`; with more rows in a
                shared cache.
        """
        count = keras.ops.shape(input_ids)[1]
        columns = self.make_columns(attention_mask, count, past, is_shared=self.is_shared)
        return call_model(self.model, keras.ops.cast(input_ids, "int32"), columns)

    def call_uncached(self, tokens: Any) -> Any:
        """Returns the logits of whole sequences without padding, integers `[batch, length]`, in one call of the model.

        The result defines the numbers of the decoder.
        """
        tokens = keras.ops.cast(tokens, "int32")
        return self.model(tokens if _has_step(self.model) else _hub_inputs(tokens, keras.ops.ones_like(tokens)))

    @property
    def cache_names(self) -> list[tuple[str, str]]:
        """The input and the output of each array in the cache."""
        places = ((f"{number}", part) for number in range(len(self.cache_shapes) // 2) for part in ("key", "value"))
        return [(f"past_key_values.{number}.{part}", f"present.{number}.{part}") for number, part in places]

    @property
    def exchanged(self) -> tuple[State, ...]:
        """The inputs and outputs of the cache, which begins without rows unless its length is fixed."""
        length = BUFFER if self.is_shared else 0
        shapes = ((Kind.BATCH.value, heads, length, channels) for heads, channels in self.cache_shapes)
        pairs = zip(self.cache_names, shapes, strict=True)
        return tuple(State(*names, shape, self.cache_dtype, 0.0) for names, shape in pairs)

    @property
    def decoder_signature(self) -> Signature:
        """The inputs and outputs in the layout and with the names of onnxruntime-genai."""
        pairs = list(zip(self.cache_names, self.cache_shapes, strict=True))
        old, new = (
            [TensorInfo(names[place], (BATCH, heads, length, size), self.cache_dtype) for names, (heads, size) in pairs]
            for place, length in enumerate((BUFFER, BUFFER) if self.is_shared else (PAST, TOTAL))
        )
        inputs = (
            TensorInfo("input_ids", (BATCH, LENGTH), "int64"),
            TensorInfo("attention_mask", (BATCH, TOTAL), "int64"),
        )
        logits = TensorInfo("logits", (BATCH, LENGTH, self.vocabulary_size), self.cache_dtype)
        sizes = SizeRange(most=self._longest and self._longest // 2)
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
        return Signature(
            (*inputs, *old),
            (logits, *new),
            ("input_ids", "attention_mask", [spec.name for spec in old]),
            ("logits", [spec.name for spec in new]),
            {BATCH: 2, LENGTH: 3, PAST: 5, TOTAL: 8, **({SPARE: 4, BUFFER: 12} if self.is_shared else {})},
            {each.name: each for each in dimensions},
            values=KnownValues(ranges={"input_ids": (0, self.vocabulary_size), "attention_mask": (0, 2)}),
        )

    @property
    def cache_dtype(self) -> str:
        """The dtype of keys and values, and of logits."""
        return str(self.model.compute_dtype)

    @property
    def compute_is_short(self) -> bool:
        """Whether a layer computes in 16 bits."""
        return bool(half_dtypes(all_layers(self)))

    def _count_logits(self) -> int:
        past = [keras.KerasTensor((None, heads, None, size), self.cache_dtype) for heads, size in self.cache_shapes]
        integers = [keras.KerasTensor((None, None), "int64") for _ in range(2)]
        logits, _ = compute_output_spec(self.call, *integers, past)
        return int(logits.shape[-1])

    @property
    def _longest(self) -> int | None:
        """The largest number of tokens that a table of positions has a row for; None without a table."""
        lengths = [
            layer.sequence_length for layer in all_layers(self.model) if type(layer).__name__ == "PositionEmbedding"
        ]
        return min(lengths, default=None)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        model = keras.saving.serialize_keras_object(self.model)
        names = ("cache_shapes", "vocabulary_size", "is_shared")
        own = {name: getattr(self, name) for name in names}
        return {"name": self.name, "model": model, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Mapping[str, Any] | None = None) -> "Decoder":
        """Returns the model of a configuration."""
        model = keras.saving.deserialize_keras_object(config["model"], custom_objects)
        return cls(**{**config, "model": model})


def with_cache_as_arguments(model: Any, *, is_shared: bool = False) -> Decoder:
    """Returns a decoder after a comparison of its calls with whole calls of the model, on a few tokens.

    Args:
        model: A built causal language model of keras-hub; or a model whose `call` takes tokens, `[batch, length]`, with
            a method `step` and an attribute `cache_shapes`, see `CachedModel`.
        is_shared: See `Decoder`.

    Raises:
        ValueError: If the model is another one, or if calls with a cache differ from whole calls.
    """
    check_language_model(model)
    shapes = model.cache_shapes if _has_step(model) else _hub_shapes(model)
    if not shapes:
        raise ArgValueError("model", f"must have attention layers of keras-hub. Received: {model.name!r}.")
    decoder = Decoder(model, shapes, is_shared=is_shared, name=model.name)
    error, largest = _difference(decoder)
    tolerance = 0.1 if decoder.compute_is_short else 1e-3
    if not error <= tolerance * largest:
        raise ArgValueError(
            "model",
            "must return the same logits with a cache as in whole calls. "
            f"Received: {model.name!r}, whose logits differ by {error:.2g}; the largest is {largest:.2g}. One of its "
            "layers depends on positions in an unknown way. Write a model with `step` and `cache_shapes`.",
        )
    return decoder


def check_language_model(model: Any) -> None:
    """Raises ValueError unless a model has the interface of a causal language model, see `with_cache_as_arguments`."""
    inputs = model.input if isinstance(getattr(model, "input", None), Mapping) else {}
    if not _has_step(model) and set(inputs) != set(_INPUTS):
        received = f"the inputs {', '.join(inputs)}" if inputs else "inputs that have no names"
        raise ArgValueError(
            "model",
            "must be a causal language model of keras-hub, with the inputs token_ids and padding_mask, or a model with "
            f"`step` and `cache_shapes`. Received: {model.name!r} with {received}.",
        )


_TRIED = (5, 1, 1, 3, 2)  # the lengths of calls


def _difference(decoder: Decoder) -> tuple[float, float]:
    """Returns the largest difference between calls with a cache and whole calls, and the largest logit.

    The second row of the batch has padding behind its first tokens.
    """
    from keras_pe.export.model.watch.recording import state_left_alone

    length, padding = sum(_TRIED), 2
    tokens = np.random.default_rng(0).integers(0, decoder.vocabulary_size, (2, length))
    mask = np.ones((2, length), "int64")
    mask[1, _TRIED[0] - padding : _TRIED[0]] = 0
    past = [state.start(2, length + padding) for state in decoder.exchanged]
    with state_left_alone():
        whole = [decoder.call_uncached(row[kept > 0][None]) for row, kept in zip(tokens, mask, strict=True)]
        parts, end = [], 0
        for count in _TRIED:
            start, end = end, end + count
            logits, past = decoder(tokens[:, start:end], mask[:, :end], past)
            parts.append(keras.ops.convert_to_numpy(logits).astype("float64"))
    found = np.concatenate(parts, axis=1)
    expected = [keras.ops.convert_to_numpy(each)[0].astype("float64") for each in whole]
    errors = [abs(row[kept > 0] - right).max() for row, kept, right in zip(found, mask, expected, strict=True)]
    return float(max(errors)), float(max(abs(each).max() for each in expected))


def _has_step(model: Any) -> bool:
    return hasattr(model, "step") and hasattr(model, "cache_shapes")


def _hub_inputs(tokens: Any, mask: Any) -> dict[str, Any]:
    return dict(zip(_INPUTS, (tokens, mask), strict=True))


def call_model(model: Any, tokens: Any, columns: Columns) -> tuple[Any, list[Any]]:
    """Returns the logits of the tokens of a call, and the keys and values of all columns."""
    if _has_step(model):
        end = columns.start + columns.count
        seen = columns.visible() if columns.first is None else columns.visible()[:, :, :end]
        return columns.call_step(model.step, tokens, seen), columns.present
    with attends_to(all_layers(model), columns):
        logits = model(_hub_inputs(tokens, keras.ops.cast(columns.is_token, "int32")))
    return logits, columns.present


def _hub_shapes(model: Any) -> list[tuple[int, int]]:
    """Returns the heads and channels of the keys and the values of each layer in turn."""
    found: list[Any] = []

    def call(tokens: Any) -> Any:
        columns = Columns.from_mask(keras.ops.ones_like(tokens), keras.ops.shape(tokens)[1], ())
        logits, present = call_model(model, tokens, columns)
        found.extend(present)
        return logits

    compute_output_spec(call, keras.KerasTensor((None, None), "int32"))
    return [(each.shape[1], each.shape[3]) for each in found]
