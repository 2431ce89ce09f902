"""Reads the rotary layers of keras-hub and the relative biases of its T5."""

from typing import TYPE_CHECKING, Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError

if TYPE_CHECKING:
    from keras_pe.layers.relative_position_bias import RelativePositionBias
    from keras_pe.layers.rotary_position_encoding import RotaryPositionEncoding

# The rotary layers of ESM and others have other arguments.
_ROTARY = ("RotaryEmbedding", "LlamaRotaryEmbedding", "Phi3SuScaledRotaryEmbedding")


def rotary_from_keras_hub(layer: Any, **kwargs: Any) -> "RotaryPositionEncoding":
    """Returns a layer that computes the intended function of a rotary layer of keras-hub.

    The call is equal: `layer(inputs, start_index=..., positions=...)`. Outputs agree to the rounding of float32 angles,
    except for two faults of keras-hub. Llama's `position_scaling_factor`, which has no effect there, scales positions
    here. YaRN's temperature is not rounded to the compute dtype here.

    Args:
        layer: A `keras_hub.layers.RotaryEmbedding`, or Llama's or Phi-3's own.
        **kwargs: Further arguments of `RotaryPositionEncoding`, which override those of `layer`.

    Raises:
        TypeError: If the class of the layer is not supported.
        ValueError: If the layer has a `denominator_dim`, or is "dynamic": its rates then differ from those of dynamic
            NTK at any length.

    Source:
        keras-hub 0.32.0, layers/modeling/rotary_embedding.py, models/llama/llama_rotary_embedding.py and
        models/phi3/phi3_rotary_embedding.py.
    """
    from keras_pe.layers.rotary_position_encoding import RotaryPositionEncoding

    if type(layer).__name__ not in _ROTARY or not hasattr(layer, "max_wavelength"):
        raise ArgTypeError(
            "layer",
            f"must be a RotaryEmbedding of keras-hub, or Llama's or Phi-3's own. Received: {type(layer).__name__}.",
        )
    if layer.denominator_dim is not None:
        raise ArgValueError(
            "denominator_dim",
            "must be None: its rates are those of a wider head, `max_wavelength ** (channels / "
            f"denominator_dim)` as the base. Received: denominator_dim={layer.denominator_dim}.",
        )
    read = {
        "base": layer.max_wavelength,
        "scaling": _scaling(layer),
        "sequence_axis": layer.sequence_axis,
        "feature_axis": layer.feature_axis,
        "dtype": layer.dtype_policy,
    }
    return RotaryPositionEncoding(**{**read, **kwargs})


def bias_from_keras_hub(attention: Any) -> "RelativePositionBias":
    """Returns a layer with the relative biases of T5's attention, which shares the weights of the attention.

    Args:
        attention: A built `T5MultiHeadAttention` of keras-hub with its own biases: the first layer of a stack.

    Source:
        keras-hub 0.32.0, models/t5/t5_multi_head_attention.py.
    """
    from keras_pe.layers.relative_position_bias import RelativePositionBias

    class OfAttention(RelativePositionBias):
        def build(self, queries_shape: Any) -> None:
            self._table = attention.relative_attention_bias

    return OfAttention(
        attention.num_heads,
        num_buckets=attention.relative_attention_buckets,
        max_distance=attention.relative_attention_max_distance,
        bidirectional=not attention.is_decoder,
        dtype=attention.dtype_policy,
    )


def _scaling(layer: Any) -> dict[str, Any] | None:
    """Returns the scaling of a layer with Hugging Face's names."""
    if getattr(layer, "inverese_freq_long_factor", None) is not None:  # the spelling of keras-hub
        return {
            "rope_type": "longrope",
            "short_factor": [float(each) for each in layer.inverese_freq_short_factor],
            "long_factor": [float(each) for each in layer.inverese_freq_long_factor],
            "original_max_position_embeddings": layer.pretraining_sequence_length,
            "attention_factor": layer.embedding_scaling_factor,
        }
    if getattr(layer, "frequency_adjustment_factor", None) is not None:
        return {
            "rope_type": "llama3",
            "factor": layer.frequency_adjustment_factor,
            "low_freq_factor": layer.low_freq_factor,
            "high_freq_factor": layer.high_freq_factor,
            "original_max_position_embeddings": layer.pretraining_sequence_length,
        }
    if layer.rope_type == "yarn":
        return {
            "rope_type": "yarn",
            "factor": layer.scaling_factor,
            "beta_fast": layer.beta_fast,
            "beta_slow": layer.beta_slow,
            "original_max_position_embeddings": layer.original_max_position_embeddings,
            "truncate": layer.truncate,
        }
    if layer.scaling_factor == 1.0:
        return None
    if layer.rope_type == "linear":
        return {"rope_type": "linear", "factor": layer.scaling_factor}
    raise ArgValueError(
        "rope_type",
        "must be 'linear' or 'yarn': its 'dynamic' divides all rates at any length, as no model was "
        "trained. RotaryPositionEncoding.from_rope_parameters(config, length=...) reads the model's own configuration. "
        f"Received: rope_type={layer.rope_type!r}.",
    )
