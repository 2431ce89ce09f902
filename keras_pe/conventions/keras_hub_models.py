"""Replaces the rotations and relative biases of keras-hub's models by this package's layers, in place."""

from collections.abc import Iterator
from typing import Any

from keras_pe.argument_errors import ArgTypeError
from keras_pe.conventions.keras_hub import bias_from_keras_hub, rotary_from_keras_hub


def convert_keras_hub(model: Any) -> list[Any]:
    """Makes this package's layers compute the positions of a keras-hub model: rotary layers, and T5's biases.

    The function changes the model in place, even a built or trained one. The model keeps its weights, and the biases of
    T5 remain trainable. Keras compiles the model's functions again. A saved file (`model.save`) contains keras-hub's
    layers: convert the model again after loading.

    Args:
        model: A backbone, a task such as a `CausalLM`, or any layer or model that contains keras-hub's layers.

    Returns:
        The new layers, in the order of the model; an empty list if the model has nothing to convert.

    Raises:
        TypeError, ValueError: If `rotary_from_keras_hub` cannot read a layer whose class is called a rotary embedding,
            such as SmolLM3's own. The model is then unchanged.

    Source:
        keras-hub 0.32.0.

    >>> import keras
    >>> convert_keras_hub(keras.layers.Dense(2))
    []
    """
    import keras

    if not isinstance(model, keras.layers.Layer):
        raise ArgTypeError("model", f"must be a layer or a model. Received: a {type(model).__name__}.")
    found = list(_layers_in(model, set()))
    rotary = [(each, rotary_from_keras_hub(each)) for each in found if _is_rotary(each) and not hasattr(each, "exact")]
    biased = [(each, bias_from_keras_hub(each)) for each in found if _has_bias(each) and not _is_converted(each)]
    for theirs, ours in rotary:
        theirs.exact = ours  # an attribute, so that Keras tracks it as one of the model's layers
        theirs.call = _rotation(ours)
    for attention, bias in biased:
        attention.compute_bias = _bias(bias)
    for each in found if rotary or biased else ():
        for compiled in ("train_function", "test_function", "predict_function", "generate_function"):
            if getattr(each, compiled, None) is not None:
                vars(each)[compiled] = None
    return [ours for _, ours in (*rotary, *biased)]


def is_converted(model: Any) -> bool:
    """Whether `convert_keras_hub` has changed a model. The configuration of the model does not contain it."""
    return any(_is_converted(each) for each in _layers_in(model, set()))


def _rotation(layer: Any) -> Any:
    def call(inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        # keras-hub ignores the start index if positions are passed.
        return layer(inputs, start_index=start_index) if positions is None else layer(inputs, positions=positions)

    return call


def _bias(layer: Any) -> Any:
    def compute_bias(query_length: Any, key_length: Any, query_start_index: Any = 0) -> Any:
        from keras import ops

        queries, keys = (ops.zeros((1, length)) for length in (query_length, key_length))
        return layer(queries, keys, start_index=query_start_index)

    return compute_bias


def _is_rotary(layer: Any) -> bool:
    return any(each.__name__.endswith("RotaryEmbedding") for each in type(layer).__mro__)


def _has_bias(layer: Any) -> bool:
    return type(layer).__name__ == "T5MultiHeadAttention" and layer.use_relative_attention_bias


def _is_converted(layer: Any) -> bool:
    return (_is_rotary(layer) and hasattr(layer, "exact")) or (_has_bias(layer) and "compute_bias" in vars(layer))


def _layers_in(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yields a layer and its sublayers, or the layers of a container, each layer once."""
    import keras

    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple | dict):
        attributes = value.values() if isinstance(value, dict) else value
    elif isinstance(value, keras.layers.Layer):
        yield value
        attributes = list(vars(value).values())
    else:
        return
    for each in attributes:
        yield from _layers_in(each, seen)
