"""What a model takes and returns: names, dtypes, static and dynamic dimensions, and the structures that hold them."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.artifact import TensorInfo
from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.messages import first_line
from keras_pe.export.model import dimensions
from keras_pe.export.model.names import path_name, sanitize, unique
from keras_pe.export.model.nesting import LeafPath, align, leaves, map_leaves


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of a model under the names that every artifact of it carries.

    Attributes:
        inputs: Flat, in the model's order.
        outputs: Flat, in the model's order.
        arguments: The positional arguments of the model's call, with the names of `inputs` as leaves.
        results: What the model returns, with the names of `outputs` as leaves.
        sizes: Sizes of the inputs' dynamic dimensions that the model is known to take.
        renamed: The model's own name of each tensor whose name an artifact cannot carry.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    arguments: tuple[Any, ...]
    results: Any
    sizes: Mapping[str, int]
    renamed: Mapping[str, str] = field(default_factory=dict)

    def pack(self, arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the positional arguments of the model's call: `model(*signature.pack(arrays))`.

        Raises:
            ValueError: If a name is missing or is none of the inputs.
        """
        names = [spec.name for spec in self.inputs]
        if set(names) != set(arrays):
            raise ValueError(
                f"`arrays` must have the names {', '.join(names)}. Received: {', '.join(arrays) or 'none'}."
            )
        packed: tuple[Any, ...] = map_leaves(self.arguments, lambda name: arrays[name])
        return packed

    def example(self) -> dict[str, Any]:
        """Returns arrays of zeros that the model is known to take, by name."""
        return {
            spec.name: _zeros(tuple(self.sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape), spec.dtype)
            for spec in self.inputs
        }

    def call(self, model: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a model of this signature returns in inference, by name, as arrays by name come in.

        Raises:
            ValueError: If the names or the results are not those of the signature.
        """
        return self.unpack(model(*self.pack(arrays), training=False))

    def unpack(self, structure: Any) -> dict[str, Any]:
        """Returns what the model returned by name, in the order of `outputs`.

        Raises:
            ValueError: If the structure is not the one the model returns.
        """
        return dict(align(self.results, structure))


def model_signature(model: Any, input_signature: Any = None) -> Signature:
    """Returns the signature of a Keras model.

    Functional and Sequential models need not have been called. A model that was built by its own call tells neither the
    dtypes nor the dynamic dimensions, so a subclassed model must have them in `model.input_spec`, or they are given.

    Args:
        model: A built `keras.Model`. It is called on small arrays of zeros, its state untouched, to find out which
            dynamic dimensions are the same.
        input_signature: The structure of the model's input with a `keras.InputSpec`, a `TensorInfo` of this package, a
            `tf.TensorSpec` or a `keras.KerasTensor` at each leaf; as in `keras.Model.export`, a list or tuple holds the
            positional arguments of a subclassed model's call. `None` is a dynamic dimension; this package's
            `TensorInfo` may name it instead, and equal names are then taken to be equal sizes.

    Raises:
        ValueError: If the signature is not known, does not fit, or if the model cannot be called with it.
        TypeError: If `model` is not a Keras model.
    """
    import keras

    if not isinstance(model, keras.Model):
        raise TypeError(f"`model` must be a keras.Model. Received: {type(model).__name__}.")
    if not model.built:
        raise ValueError(
            f"`model` must be built: {model.name!r} has no weights yet. Call it once, or load its weights."
        )
    arguments, names = _arguments(model, input_signature)
    specs = [spec for _, spec in leaves(arguments)]
    plain = unique(map(sanitize, names))
    shapes = [_shape(spec, name) for spec, name in zip(specs, names, strict=True)]
    dtypes = [_dtype(spec, name) for spec, name in zip(specs, names, strict=True)]
    remaining = iter(plain)
    structure = map_leaves(arguments, lambda _: next(remaining))

    def call(static: list[tuple[int, ...]]) -> Any:
        zeros = {name: _zeros(shape, dtype) for name, shape, dtype in zip(plain, static, dtypes, strict=True)}
        with keras.StatelessScope():
            return model(*map_leaves(structure, zeros.__getitem__))

    def fits(static: list[tuple[int, ...]]) -> bool:
        try:
            if keras.backend.backend() == "tensorflow":  # traced, because eager kernels log each refusal to the console
                import tensorflow as tf

                tf.function(lambda: call(static), autograph=False).get_concrete_function()
            else:
                call(static)
        except Exception:  # whatever the layers raise, these sizes do not go together
            return False
        return True

    try:
        named = dimensions.name_inputs(shapes, call, fits)
        results, result_names, outputs, sizes = _outputs(model, plain, named, call)
    except UnknownSizesError as error:
        rule = "`model` must take zeros" if input_signature is None else "`input_signature` must fit the model"
        raise ValueError(
            f"{rule}: {model.name!r} cannot be called on zeros of the shapes "
            f"{', '.join(f'{name} {shape}' for name, shape in zip(names, shapes, strict=True))}. "
            f"{first_line(error)}."
        ) from error.__cause__
    inputs = tuple(TensorInfo(*spec) for spec in zip(plain, named, dtypes, strict=True))
    own = [*zip(plain, names, strict=True), *zip([spec.name for spec in outputs], result_names, strict=True)]
    return Signature(inputs, outputs, structure, results, sizes, {name: old for name, old in own if name != old})


def _arguments(model: Any, input_signature: Any) -> tuple[tuple[Any, ...], list[str]]:
    """Returns the positional arguments, a spec at each leaf, and the model's own name of each."""
    declared, names = _declared(model)
    if input_signature is None:
        if declared is None:
            raise ValueError(
                f"`input_signature` must be given for the subclassed model {model.name!r}, which does not tell its "
                "inputs' dtypes and dynamic dimensions. For example: "
                "input_signature=[keras.InputSpec(shape=(None, None), dtype='int32')]."
            )
        return (declared,), names
    given = [spec for _, spec in leaves(input_signature)]
    if declared is None:
        is_positional = isinstance(input_signature, list | tuple)
        arguments = tuple(input_signature) if is_positional else (input_signature,)
        called = _parameter_names(model, len(arguments))
        names = [path_name(path[1:], _positional_name(called, path)) for path, _ in leaves(arguments)]
    elif len(given) == len(names):
        by_key = isinstance(input_signature, Mapping) and isinstance(declared, Mapping)
        ordered = iter([spec for _, spec in align(declared, input_signature)] if by_key else given)
        arguments = (map_leaves(declared, lambda _: next(ordered)),)
    else:
        raise ValueError(
            f"`input_signature` must have one entry for each input of {model.name!r}: {', '.join(names)}. "
            f"Received: {len(given)} entries."
        )
    specs = [spec for _, spec in leaves(arguments)]
    # A Keras tensor that was not named by the user is called keras_tensor_17: its input layer's name says more.
    own = [None if type(spec).__name__ == "KerasTensor" else getattr(spec, "name", None) for spec in specs]
    return arguments, [name or default for name, default in zip(own, names, strict=True)]


def _declared(model: Any) -> tuple[Any, list[str]]:
    """Returns the input structure the model was made with and its names, None for a subclassed model without one."""
    import keras

    if isinstance(model, keras.Sequential):
        return model.inputs[0], [_layer_names(model).get(id(model.inputs[0]), "inputs")]
    if isinstance(model, keras.Model) and hasattr(model, "output_names"):
        layers = _layer_names(model)
        return model.input, [path_name(path, layers.get(id(x), x.name)) for path, x in leaves(model.input)]
    spec = model.input_spec
    if spec is not None and all(s.shape is not None and s.dtype is not None for _, s in leaves(spec)):
        return spec, [path_name(path, _parameter_names(model, 1)[0]) for path, _ in leaves(spec)]
    return None, []


def _layer_names(model: Any) -> dict[int, str]:
    import keras

    functional = model._functional if isinstance(model, keras.Sequential) else model  # Sequential hides its InputLayer
    inputs = [layer for layer in functional.layers if isinstance(layer, keras.layers.InputLayer)]
    return {id(layer.output): layer.name for layer in inputs}


def _parameter_names(model: Any, count: int) -> list[str]:
    names = [name for name in inspect.signature(model.call).parameters if name not in ("args", "kwargs", "training")]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


def _positional_name(called: list[str], path: LeafPath) -> str:
    return "_".join([called[int(path[0])], *map(str, path[1:])])


def _outputs(
    model: Any, inputs: list[str], named: Any, call: Any
) -> tuple[Any, list[str], tuple[TensorInfo, ...], dict[str, int]]:
    """Returns the structure of the results, the model's own names of them, their specs, and sizes the model takes."""
    import keras

    results: Any = None

    def measure(sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
        nonlocal results
        results = call(dimensions.static_shapes(named, sizes))
        return [tuple(int(dim) for dim in x.shape) for _, x in leaves(results)]

    known = [dim for shape in named for dim in shape]
    probe, sizes = dimensions.name_outputs(known, measure)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for _, x in leaves(results)]
    own = _output_names(model, results)
    plain = unique(map(sanitize, own), taken=inputs)
    shapes = [
        tuple(dim if isinstance(dim, int) or dim in known else f"{name}_{dim}" for dim in shape)
        for name, shape in zip(plain, probe, strict=True)
    ]
    remaining = iter(plain)
    structure = map_leaves(results, lambda _: next(remaining))
    specs = tuple(TensorInfo(*spec) for spec in zip(plain, shapes, dtypes, strict=True))
    return structure, own, specs, sizes


def _output_names(model: Any, results: Any) -> list[str]:
    import keras

    found = leaves(results)
    if isinstance(model, keras.Sequential):
        own = [model.layers[-1].name]
    elif hasattr(model, "output_names"):
        by_tensor = dict(zip(map(id, model.outputs), model.output_names, strict=True))
        own = [by_tensor[id(x)] for _, x in leaves(model.output)]
    else:
        own = [f"output_{i}" for i in range(len(found))] if len(found) > 1 else ["output"]
    if len(own) != len(found):  # a subclass of Functional with a call of its own
        own = [f"output_{i}" for i in range(len(found))]
    return [path_name(path, name) for (path, _), name in zip(found, own, strict=True)]


def _shape(spec: Any, name: str) -> tuple[int | str | None, ...]:
    if getattr(spec, "sparse", False) or getattr(spec, "ragged", False):
        raise ValueError(f"Input {name!r} must be dense. Received: a sparse or ragged input.")
    if spec.shape is None:
        raise ValueError(f"Input {name!r} must have a shape in `input_signature`. Received: shape=None.")
    return tuple(dim if dim is None or isinstance(dim, str) else int(dim) for dim in spec.shape)


def _dtype(spec: Any, name: str) -> str:
    import keras

    if spec.dtype is None:
        raise ValueError(f"Input {name!r} must have a dtype in `input_signature`. Received: dtype=None.")
    return str(keras.backend.standardize_dtype(spec.dtype))


def _zeros(shape: tuple[int, ...], dtype: str) -> Any:
    import keras

    return np.full(shape, "") if dtype == "string" else keras.ops.zeros(shape, dtype)
