"""Traces models that Keras only runs eagerly, and follows the data in a graph.

Keras 3.15 traces the calls of its layers as they are written. Python's loop over the steps of an input does not become
a loop of the graph, unless AutoGraph converts its `for` and `if`. Eagerly, a CenterCrop resizes a small image. In a
graph, the layer treats an unknown size as a large one, and crops too little.

Here all steps of a TimeDistributed layer become one call. Keras 3.15 calls the layer once for each step. If the number
of steps is dynamic, Keras traces as many steps as the batch has rows. In inference, a layer treats each row separately,
so that one call on the rows of all steps returns equal values. The run of the artifact beside Keras detects a layer
that mixes rows.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from keras_pe.export.model.watch.keras_internals import open_scopes, resizing_to_tensors
from keras_pe.export.model.watch.mask_scopes import masks_in_scopes
from keras_pe.export.model.watch.nested_arguments import FlatModel, free_shape
from keras_pe.export.model.watch.recording import recorded_arguments, state_left_alone
from keras_pe.export.model.watch.temporary_patches import replaced_functions

_Result = TypeVar("_Result")


def as_traceable(layers: Sequence[Any], trace: Callable[[], _Result]) -> _Result:
    """Returns the result of a function that traces a model.

    If the function raises, it is called again while AutoGraph converts the calls of layers outside Keras. Models are
    traced one at a time.

    Args:
        layers: The model, then every layer in it.
        trace: Traces the model.

    Raises:
        Exception: Any error that the layers raise without AutoGraph.
    """
    with (
        open_scopes(),
        masks_in_scopes(layers),
        resizing_to_tensors(),
        replaced_functions(_crops(layers)),
        batch_time_distributed(layers),
    ):
        try:
            return trace()
        except Exception as error:  # a layer may raise anything where a size is not known
            calls = _converted_calls(layers)
            try:
                with replaced_functions(calls):
                    return trace()
            except Exception:
                raise error from None


def traced_flat(model: FlatModel, function: Callable[..., Any], variables: Iterable[Any] = ()) -> Any:
    """Returns the concrete `tf.function` of a function of a model's inputs, of any size, and of variables.

    Raises:
        Exception: Whatever the layers raise where a size is not known.
    """
    import tensorflow as tf

    specs = [tf.TensorSpec(free_shape(shape), dtype) for shape, dtype in zip(model.shapes, model.dtypes, strict=True)]
    specs += [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]
    traced = tf.function(function, input_signature=specs, autograph=False)
    return as_traceable(model.layers, traced.get_concrete_function)


def layers_reached(model: FlatModel, kinds: tuple[type, ...]) -> dict[str, list[Any]]:
    """Returns the layers of some kinds that each input reaches, by its name.

    Raises:
        Exception: Whatever the layers raise if the model cannot be traced.
    """
    found: dict[str, list[Any]] = {}

    def flat(*inputs: Any) -> list[Any]:
        found.clear()
        with state_left_alone(), recorded_arguments(model.layers[0]) as calls:
            results = model.outputs(inputs)
        names = {tensor.op.name: name for name, tensor in zip(model.names, inputs, strict=True)}
        for layer, arguments in calls:
            name = names.get(_source(arguments[0])) if isinstance(layer, kinds) and arguments else None
            if name is not None:
                found.setdefault(name, []).append(layer)
        return results

    traced_flat(model, flat)
    return found


def _source(tensor: Any) -> str | None:
    """Returns the name of the operator whose values a tensor has, in whichever shape; None for a ragged one."""
    operator = getattr(tensor, "op", None)
    while operator is not None and operator.inputs and operator.inputs[0].dtype == tensor.dtype:
        operator = operator.inputs[0].op
    return getattr(operator, "name", None)


def batch_time_distributed(layers: Iterable[Any], *, even_if_fixed: bool = False) -> AbstractContextManager[None]:
    """Replaces the steps of TimeDistributed layers by rows of one call, if the number of steps is dynamic.

    Args:
        layers: Layers of any class.
        even_if_fixed: Whether to replace a fixed number of steps too. Then the shapes are inferred in one call.
    """
    import keras

    wrappers = [layer for layer in layers if isinstance(layer, keras.layers.TimeDistributed)]
    return replaced_functions(
        (each, "call", functools.partial(_call_on_rows, each.layer, even_if_fixed)) for each in wrappers
    )


def _call_on_rows(
    inner: Any,
    even_if_fixed: bool,
    usual: Callable[..., Any],
    inputs: Any,
    training: bool | None = None,
    mask: Any = None,
) -> Any:
    import keras
    from keras import ops

    if inputs.shape[1] is not None and not even_if_fixed:
        return usual(inputs, training=training, mask=mask)
    batch, steps = ops.shape(inputs)[:2]

    def rows(tensor: Any) -> Any:
        return ops.reshape(tensor, (-1, *ops.shape(tensor)[2:]))

    parameters = inspect.signature(inner.call).parameters
    given = {"training": training, "mask": None if mask is None or len(mask.shape) < 2 else rows(mask)}
    options = {name: value for name, value in given.items() if name in parameters and value is not None}
    outputs = inner.call(rows(inputs), **options)
    return keras.tree.map_structure(lambda y: ops.reshape(y, (batch, steps, *ops.shape(y)[1:])), outputs)


def _crops(layers: Iterable[Any]) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Returns the replaced function of each layer that crops, which accepts images of any size."""
    import keras

    crops = (layer for layer in layers if isinstance(layer, keras.layers.CenterCrop))
    return [(layer, "transform_images", functools.partial(_crop, layer)) for layer in crops]


def _crop(layer: Any, crop: Callable[..., Any], images: Any, *args: Any, **kwargs: Any) -> Any:
    import keras
    import tensorflow as tf

    rows, columns = (-3, -2) if layer.data_format == "channels_last" else (-2, -1)
    size, static = (layer.height, layer.width), list(images.shape)
    if None not in (static[rows], static[columns]):
        return crop(images, *args, **kwargs)
    images = tf.cast(images, layer.compute_dtype)
    shape = tf.shape(images)
    cropped = tf.cond(
        (shape[rows] >= layer.height) & (shape[columns] >= layer.width),
        lambda: crop(images, *args, **kwargs),
        lambda: keras.preprocessing.image.smart_resize(images, size, data_format=layer.data_format),
    )
    static[rows], static[columns] = size
    return tf.ensure_shape(cropped, static)


def _converted_calls(layers: Iterable[Any]) -> list[tuple[Any, str, Callable[..., Any]]]:
    """Returns the call that AutoGraph has converted, for each layer outside Keras with known source code."""
    import tensorflow as tf

    converted: dict[Any, Callable[..., Any] | None] = {}
    for call in {type(layer).call for layer in layers}:
        is_own = call.__module__.partition(".")[0] != "keras"
        try:
            converted[call] = tf.autograph.to_graph(call) if is_own else None
        except Exception:  # whatever AutoGraph raises where it cannot read the code
            converted[call] = None
    return [
        (layer, "call", functools.partial(_call, own, layer))
        for layer in layers
        if (own := converted[type(layer).call]) is not None
    ]


def _call(converted: Callable[..., Any], layer: Any, usual: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return converted(layer, *args, **kwargs)


def needed_nodes(nodes: Any, results: Iterable[str]) -> set[str]:
    """Returns the names of the nodes that the results depend on through data; a tensor is named "node:..." ."""
    inputs = {node.name: [name for name in node.input if not name.startswith("^")] for node in nodes}
    needed: set[str] = set()
    waiting = list(results)
    while waiting:
        name = waiting.pop().partition(":")[0]
        if name in inputs and name not in needed:
            needed.add(name)
            waiting += inputs[name]
    return needed


def operators_before(tensors: Iterable[Any], ends: Collection[str] = ()) -> Iterator[Any]:
    """Yields the operators that compute tensors of a `tf.Graph`. The walk ends at operators of the types in `ends`."""
    seen, waiting = set(), [tensor.op for tensor in tensors]
    while waiting:
        operator = waiting.pop()
        if operator.name not in seen:
            seen.add(operator.name)
            yield operator
            if operator.type not in ends:
                waiting += [tensor.op for tensor in operator.inputs]
