"""The same model again, with the same weights and one thing about its layers changed."""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from keras_pe.conventions.keras_hub_models import convert_keras_hub, is_converted
from keras_pe.export.messages import first_line
from keras_pe.export.model.watch.keras_internals import all_layers, named_functions

_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")


def with_dtype(model: Any, dtype: str) -> Any:
    """Returns the model in another precision: every layer's policy, every float input, the weights cast.

    Args:
        model: A built `keras.Model` that can be made again from its configuration.
        dtype: "float64", "float32" or "float16".

    Raises:
        ValueError: If the model cannot be made again.
    """

    def change(config: dict[str, Any]) -> None:
        inner = config.get("config")
        if config.get("class_name") == "DTypePolicy" and isinstance(inner, dict) and inner.get("name") in _FLOATS:
            inner["name"] = dtype
        elif isinstance(inner, dict) and isinstance(inner.get("dtype"), str) and inner["dtype"] in _FLOATS:
            inner["dtype"] = dtype

    # A model takes its own policy from the global one: its configuration has none.
    with _global_policy(dtype):
        return clone_with(model, change)


@contextlib.contextmanager
def _global_policy(dtype: str) -> Iterator[None]:
    """Sets the policy of layers that are made without one; Keras keeps it for each thread."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def clone_with(model: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Returns the model made again from its configuration, with the same weights.

    Args:
        model: A built `keras.Model`.
        change: Called with each serialized object in the configuration, a dict with "class_name" and "config", which it
            may edit.

    What the model's layers warn of when they are made, they have warned of before: a warning is no refusal, though a
    suite of tests may make an error of it.

    Raises:
        ValueError: If the model cannot be made again, or has other weights or outputs then.
    """
    import keras

    classes = _own_classes(model)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with named_functions(model) as functions:
                config = keras.saving.serialize_keras_object(model)
            _walk(config, functools.partial(_register, classes))
            _walk(config, change)
            _walk(config, _begin_at_zero)
            by_name = {own.__name__: own for own in classes.values()} | {_id(own): own for own in classes.values()}
            with keras.saving.custom_object_scope(by_name | functions):
                again = keras.saving.deserialize_keras_object(config)
            if not again.built:
                again.build_from_config(model.get_build_config())
            if is_converted(model):
                convert_keras_hub(again)
    except Exception as error:  # any layer's constructor may refuse
        raise ValueError(f"{model.name!r} cannot be made again from its configuration: {first_line(error)}.") from error
    if [v.shape for v in again.variables] != [v.shape for v in model.variables]:
        raise ValueError(f"{model.name!r} has other weights when it is made again from its configuration.")
    if _output_shapes(again) != _output_shapes(model):  # it holds an empty constant without its shape
        raise ValueError(f"{model.name!r} returns other shapes when it is made again from its configuration.")
    try:
        for mine, theirs in zip(again.variables, model.variables, strict=True):
            mine.assign(keras.ops.cast(theirs, mine.dtype))
    except Exception as error:  # each backend has its own where memory ends
        raise ValueError(f"{model.name!r} cannot have its weights twice: {first_line(error)}.") from error
    return again


def _output_shapes(model: Any) -> list[Any]:
    """Returns the shapes of the outputs, none of a model whose code alone tells them."""
    return [tensor.shape for tensor in getattr(model, "outputs", None) or ()]


def _own_classes(model: Any) -> dict[tuple[str, str], type]:
    """Returns the classes of the layers that are not Keras' own, by their name and that of the layer.

    Keras finds its own by their modules: by name its layer `Add` would stand for its operation `Add` as well.
    """
    own = (layer for layer in all_layers(model) if type(layer).__module__.partition(".")[0] != "keras")
    return {(type(layer).__name__, layer.name): type(layer) for layer in own}


def _register(classes: Mapping[tuple[str, str], type], config: dict[str, Any]) -> None:
    """Says whose class a layer is: a function that makes layers may make several classes of one name."""
    inner = config["config"]
    own = classes.get((config["class_name"], str(inner.get("name")))) if isinstance(inner, dict) else None
    if own is not None:
        config["registered_name"] = _id(own)


def _id(own: type) -> str:
    return f"{own.__module__}.{own.__qualname__} at {id(own)}"


def _begin_at_zero(config: dict[str, Any]) -> None:
    """Spares the random numbers that weights begin with: in float64 they take three times the memory of a weight."""
    if config.get("module") == "keras.initializers" and "seed" in config["config"]:
        config.update(class_name="Zeros", config={})


def _walk(value: Any, change: Callable[[dict[str, Any]], None]) -> None:
    if isinstance(value, dict):
        if "class_name" in value and "config" in value:
            change(value)
        for item in value.values():
            _walk(item, change)
    elif isinstance(value, list | tuple):
        for item in value:
            _walk(item, change)
