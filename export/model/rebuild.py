"""Rebuilds of a model in another precision: in float32 or float16 for exports, in float64 as the reference.

Runtimes have hardly any bfloat16 kernels, and their float16 results differ by more than a comparison can tolerate.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_pe.conventions.keras_hub_models import convert_keras_hub, is_converted
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.errors import UnsupportedError, first_line
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import (
    all_layers,
    float64_promoted,
    named_functions,
    sequential_models_built_once,
)
from keras_pe.export.model.watch.temporary_patches import replaced_functions
from keras_pe.export.results import HALF


def half_dtypes(layers: Iterable[Any]) -> list[str]:
    """Returns the half-precision dtypes that the layers compute with or store weights in."""
    dtypes = {dtype for layer in layers for dtype in (layer.compute_dtype, layer.variable_dtype)}
    return sorted(dtypes.intersection(HALF))


def in_export_precision(
    model: Any, input_signature: Any, wanted: str | None, format: Format
) -> tuple[list[Any], Any, list[str]]:
    """Returns the model to export with its layers, its input signature, and notes on the differences from `model`.

    Args:
        model: The Keras model.
        input_signature: The argument of the caller. A `Signature` is converted to the new precision.
        wanted: "float32" to rebuild models of half precision; "float16" to rebuild all other models; None to keep the
            model.
        format: The format, for the error.

    Raises:
        UnsupportedError: If the model needs a rebuild and cannot be rebuilt.
    """
    layers = all_layers(model)
    found = half_dtypes(layers)
    as_wanted = ["float16"] if wanted == "float16" else []
    if wanted is None or found == as_wanted:
        return layers, input_signature, []
    given = " and ".join(found) or "float32"
    try:
        layers = all_layers(with_dtype(model, wanted))
        if half_dtypes(layers) != as_wanted:
            raise ValueError(f"some of its layers ignore their policy, and compute in {given}.")
    except ValueError as error:
        raise UnsupportedError(
            format,
            model.name,
            f"it computes in {given} and cannot be rebuilt in {wanted}: {error} "
            f"Build it under the policy {wanted!r}, load the weights, and export the new model.",
        ) from error
    if isinstance(input_signature, Signature):
        input_signature = input_signature.with_dtype(wanted)
    note = f"The model computes in {given}. The exported model has the same weights, and computes in {wanted}."
    if wanted == "float16":
        _check_range(model, layers[0], format)
        note += " float16 ends at 65,504: larger values inside the model become infinite."
    return layers, input_signature, [note]


def _check_range(model: Any, rebuild: Any, format: Format) -> None:
    """Raises UnsupportedError if a finite weight of the model is infinite in the rebuild."""
    import keras

    for own, other in zip(model.weights, rebuild.weights, strict=True):
        values = np.asarray(keras.ops.convert_to_numpy(own))
        rounded = np.asarray(keras.ops.convert_to_numpy(other))
        if rounded.dtype != values.dtype and (np.isinf(rounded) & np.isfinite(values.astype(np.float64))).any():
            reason = (
                f"its weight {own.path!r} reaches {np.nanmax(np.abs(values.astype(np.float64))):.3g}, and float16 ends "
                "at 65,504. Export it without `half_precision`."
            )
            raise UnsupportedError(format, model.name, reason)


def in_float64(model: Any) -> Any:
    """Returns a rebuild of the model in float64, with equal weights. Call the rebuild within `float64_allowed`.

    Raises:
        ValueError: If the model cannot be rebuilt.
    """
    with float64_allowed():
        return with_dtype(model, "float64")


@contextlib.contextmanager
def float64_allowed(rng: np.random.Generator | None = None) -> Iterator[None]:
    """A context in which the backend computes in float64 if the tensors are float64.

    JAX has no float64 by default. Keras casts float64 to float32 on JAX and PyTorch. TensorFlow resizes images in
    float32.

    Args:
        rng: The source of small random changes of the positions in resized images, see `exact_resizing`.
    """
    import keras

    with contextlib.ExitStack() as stack:
        if keras.backend.backend() == "tensorflow":
            stack.enter_context(exact_resizing(rng))
        else:
            stack.enter_context(float64_promoted())
        if keras.backend.backend() == "jax":
            import jax

            stack.enter_context(jax.enable_x64(True))
        yield


_HEIGHT, _WIDTH = -3, -2  # the axes of an image


def exact_resizing(rng: np.random.Generator | None = None) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which `tf.image.resize` resizes float64 images in float64, in this thread.

    Args:
        rng: Changes the positions between pixels by up to a unit in the last place of float32, at each call anew. These
            positions are as correct as Keras' own: some runtimes round them differently, for example at a ratio of
            1.75.
    """
    import tensorflow as tf

    def resize(usual: Any, images: Any, size: Any, method: str = "bilinear", *args: Any, **kwargs: Any) -> Any:
        is_plain = method == "bilinear" and not args and not any(kwargs.values())
        is_wide = tf.as_dtype(getattr(images, "dtype", "float32")) == tf.float64
        return _bilinear(images, size, rng) if is_plain and is_wide else usual(images, size, method, *args, **kwargs)

    return replaced_functions([(tf.image, "resize", resize)])


def _bilinear(images: Any, size: Any, rng: np.random.Generator | None) -> Any:
    """Interpolates linearly between the two pixels around each position, along the height and then the width."""
    import tensorflow as tf

    for axis, new in ((_HEIGHT, size[0]), (_WIDTH, size[1])):
        old = tf.shape(images)[axis]
        ratio = tf.cast(old, "float64") / tf.cast(new, "float64")
        places = (tf.range(tf.cast(new, "float64"), dtype="float64") + 0.5) * ratio
        if rng is not None:
            places *= 1 + 2.0**-23 * rng.uniform(-1, 1, int(new))
        places = tf.clip_by_value(places - 0.5, 0, tf.cast(old - 1, "float64"))
        below = tf.cast(places, "int32")
        weights = tf.reshape(places - tf.cast(below, "float64"), (-1, *[1] * (-1 - axis)))
        pixels = [tf.gather(images, indices, axis=axis) for indices in (below, tf.minimum(below + 1, old - 1))]
        images = pixels[0] + (pixels[1] - pixels[0]) * weights
    return images


_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")


def with_dtype(model: Any, dtype: str) -> Any:
    """Returns the model in another precision, which applies to the policies of layers, float inputs and weights.

    Args:
        model: A built `keras.Model` that can be rebuilt from its configuration.
        dtype: "float64", "float32" or "float16".

    Raises:
        ValueError: If the model cannot be rebuilt.
    """

    def change(config: dict[str, Any]) -> None:
        inner = config.get("config")
        if config.get("class_name") == "DTypePolicy" and isinstance(inner, dict) and inner.get("name") in _FLOATS:
            inner["name"] = dtype
        elif isinstance(inner, dict) and isinstance(inner.get("dtype"), str) and inner["dtype"] in _FLOATS:
            inner["dtype"] = dtype

    # The configuration of a model lacks the model's own policy, so Keras takes the global one for it.
    with _global_policy(dtype):
        return clone_with(model, change)


@contextlib.contextmanager
def _global_policy(dtype: str) -> Iterator[None]:
    """Sets the default policy of new layers in this thread."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def clone_with(model: Any, change: Callable[[dict[str, Any]], None]) -> Any:
    """Returns a rebuild of the model from its configuration, with equal weights.

    Warnings of the layers' constructors are ignored, since the user has seen them when the model was built. They could
    also be errors in a test suite.

    Args:
        model: A built `keras.Model`.
        change: A function that may edit each serialized object of the configuration, a dict with "class_name" and
            "config".

    Raises:
        ValueError: If the model cannot be rebuilt, or its rebuild has other weights or outputs.
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
            with keras.saving.custom_object_scope(by_name | functions), sequential_models_built_once():
                again = keras.saving.deserialize_keras_object(config)
            if not again.built:
                again.build_from_config(model.get_build_config())
            if is_converted(model):
                convert_keras_hub(again)
    except Exception as error:  # the constructor of a layer may raise any error
        raise ValueError(f"{model.name!r} cannot be made again from its configuration: {first_line(error)}.") from error
    if [v.shape for v in again.variables] != [v.shape for v in model.variables]:
        raise ValueError(f"{model.name!r} has other weights when it is made again from its configuration.")
    if _output_shapes(again) != _output_shapes(model):  # a configuration stores an empty constant without its shape
        raise ValueError(f"{model.name!r} returns other shapes when it is made again from its configuration.")
    try:
        for mine, theirs in zip(again.variables, model.variables, strict=True):
            mine.assign(keras.ops.cast(theirs, mine.dtype))
    except Exception as error:  # each backend has its own error for exhausted memory
        raise ValueError(f"{model.name!r} cannot have its weights twice: {first_line(error)}.") from error
    return again


def _output_shapes(model: Any) -> list[Any]:
    """Returns the shapes of the outputs; an empty list for a subclassed model."""
    return [tensor.shape for tensor in getattr(model, "outputs", None) or ()]


def _own_classes(model: Any) -> dict[tuple[str, str], type]:
    """Returns the classes of layers outside Keras, by the names of the class and of the layer.

    Classes of Keras are omitted. Keras finds them by module, and a name may be ambiguous: `Add` is a layer and an
    operation.
    """
    own = (layer for layer in all_layers(model) if type(layer).__module__.partition(".")[0] != "keras")
    return {(type(layer).__name__, layer.name): type(layer) for layer in own}


def _register(classes: Mapping[tuple[str, str], type], config: dict[str, Any]) -> None:
    """Stores the identity of the class of a layer in its configuration: several classes may have one name."""
    inner = config["config"]
    own = classes.get((config["class_name"], str(inner.get("name")))) if isinstance(inner, dict) else None
    if own is not None:
        config["registered_name"] = _id(own)


def _id(own: type) -> str:
    return f"{own.__module__}.{own.__qualname__} at {id(own)}"


def _begin_at_zero(config: dict[str, Any]) -> None:
    """Replaces random initializers by zeros: random float64 numbers take three times the memory of a weight."""
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
