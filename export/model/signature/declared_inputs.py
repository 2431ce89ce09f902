"""The names, dtypes and structure of inputs and outputs that a model or an input signature declares."""

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.model.watch.keras_internals import built_shapes, functional_of
from keras_pe.export.model.watch.nested_arguments import (
    FlatModel,
    Shape,
    UniqueNames,
    align,
    leaves,
    path_name,
    sanitize,
    with_leaves,
)

_NO_INPUTS = ("training", "mask", "args", "kwargs")


@dataclass(frozen=True)
class Inputs:
    """The inputs that a model declares.

    Attributes:
        model: The Keras model.
        structure: The model's first argument with a spec at each leaf; None if the model does not declare its inputs.
        names: The model's own name of each leaf.
        optional: The names of the optional inputs, which `keras.Input(optional=True)` makes.
    """

    model: Any
    structure: Any
    names: Sequence[str]
    optional: Collection[str] = ()

    @property
    def is_known(self) -> bool:
        """Whether the model declares its inputs itself."""
        return self.structure is not None

    def without(self, absent: Collection[str]) -> Any | None:
        """Returns the input signature of a call without some optional inputs; None if the model has no such input.

        Args:
            absent: The model's or the artifact's names of the inputs to omit.
        """
        left_out = [name for name in self.optional if name in absent or sanitize(name) in absent]
        return self._structure_without(left_out) if left_out else None

    def _structure_without(self, left_out: Collection[str]) -> Any:
        pairs = zip(self.names, leaves(self.structure), strict=True)
        return with_leaves(self.structure, [None if name in left_out else spec for name, (_, spec) in pairs])

    def flatten(self, input_signature: Any) -> tuple[FlatModel, list[str]]:
        """Returns the model with a flat list of inputs, and the model's own name of each input.

        Args:
            input_signature: See `model_signature`.

        Raises:
            ValueError: If the signature is unknown, or its number of entries differs from the number of inputs. Also
                if a spec has no shape or no dtype, or is sparse or ragged.
            TypeError: If a leaf is not a spec.
        """
        arguments, names = self._arguments(input_signature)
        portable = name_inputs(names)
        pairs = zip(names, leaves(arguments), strict=True)
        described = [(_spec_shape(spec, name), _spec_dtype(spec, name)) for name, (_, spec) in pairs]
        inputs = dict(zip(portable, described, strict=True))
        return FlatModel(self.model, with_leaves(arguments, portable), inputs), names

    def _arguments(self, input_signature: Any) -> tuple[tuple[Any, ...], list[str]]:
        """Returns the positional arguments with a spec at each leaf, and the model's own name of each leaf."""
        import keras

        if input_signature is None:
            if not self.is_known:
                raise ValueError(_not_known(self.model))
            return (self.structure,), [*self.names]
        declared = self._without_absent(input_signature)
        given = [spec for _, spec in leaves(input_signature)]
        for spec in given:
            if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
                raise ArgTypeError(
                    "input_signature",
                    "must have a keras.InputSpec(shape=..., dtype=...), or the like of it, at each "
                    f"leaf. Received: {spec!r:.80}",
                )
        names = [*declared.names]
        if not declared.is_known:
            is_positional = isinstance(input_signature, list | tuple)
            arguments = tuple(input_signature) if is_positional else (input_signature,)
            called = _parameter_names(self.model, len(arguments))
            own_paths = [(called[int(path[0])], path[1:]) for path, _ in leaves(arguments)]
            names = [path_name(path, "_".join(map(str, (name, *path)))) for name, path in own_paths]
        elif len(given) == len(names):
            own = declared.structure
            by_key = isinstance(input_signature, Mapping) and isinstance(own, Mapping)
            pairs = align(own, input_signature) if by_key else zip((x for _, x in leaves(own)), given, strict=True)
            arguments = (with_leaves(own, [_with_dtype(spec, one.dtype) for one, spec in pairs]),)
        else:
            raise ArgValueError(
                "input_signature",
                f"must have one entry for each input of {self.model.name!r}: {', '.join(names)}. "
                f"Received: {len(given)} entries.",
            )
        specs = [spec for _, spec in leaves(arguments)]
        # Ignore the names of Keras tensors, such as keras_tensor_17: the name of the input layer is more useful.
        own_names = [None if isinstance(spec, keras.KerasTensor) else getattr(spec, "name", None) for spec in specs]
        return arguments, [name or default for name, default in zip(own_names, names, strict=True)]

    def _without_absent(self, input_signature: Any) -> "Inputs":
        """Returns the inputs without those for which the input signature has None.

        Raises:
            ValueError: If the signature has None for an input that is not optional.
        """
        given = _with_nones(input_signature) if self.is_known else []
        if len(given) != len(self.names) or None not in given:
            return self
        if isinstance(input_signature, Mapping) and isinstance(self.structure, Mapping):
            given = _with_nones({key: input_signature.get(key) for key in self.structure})
        absent = [name for name, spec in zip(self.names, given, strict=True) if spec is None]
        if needed := [name for name in absent if name not in self.optional]:
            raise ArgValueError(
                "input_signature", f"must have None for optional inputs only. Received: None for {', '.join(needed)}."
            )
        names = [name for name in self.names if name not in absent]
        return Inputs(self.model, self._structure_without(absent), names)


def declared_inputs(model: Any) -> Inputs:
    """Returns the inputs that a model declares."""
    import keras

    structure, names = _read_structure(model)
    layers = getattr(functional_of(model), "layers", ())
    optional = {id(layer.output) for layer in layers if isinstance(layer, keras.layers.InputLayer) and layer.optional}
    specs = [] if structure is None else leaves(structure)
    named = zip(names, (spec for _, spec in specs), strict=bool(specs))
    return Inputs(model, structure, names, [name for name, spec in named if id(spec) in optional])


def _not_known(model: Any) -> str:
    """Returns the reason why the inputs of a model are unknown, and the arguments that describe them."""
    wanted, shape = required_arguments(model), built_shapes(model)
    is_one = isinstance(shape, tuple) and all(dim is None or isinstance(dim, int) for dim in shape)
    met = f" In the recorded call, {wanted[0]} had the shape {shape}." if wanted and is_one else ""
    return (
        f"`input_signature` must be given for the subclassed model {model.name!r}, which does not declare the shapes "
        "and dtypes of its inputs. It is a list with a keras.InputSpec(shape=..., dtype=...) for each of "
        f"{', '.join(wanted)}.{met} Or give an example of the inputs: "
        f"inputs={{{', '.join(f'{name!r}: ...' for name in wanted)}}}."
    )


def _with_nones(structure: Any) -> list[Any]:
    if isinstance(structure, Mapping | list | tuple):
        parts = structure.values() if isinstance(structure, Mapping) else structure
        return [leaf for part in parts for leaf in _with_nones(part)]
    return [structure]


def name_inputs(names: Iterable[str]) -> list[str]:
    """Returns the names of inputs in an artifact. TensorFlow ignores case: `x` and `X` become `x` and `X_1`."""
    free = UniqueNames()
    pairs = [(name, free.give(name.lower())) for name in map(sanitize, names)]
    return [name + given[len(name) :] for name, given in pairs]


def input_names(model: Any, input_signature: Any) -> list[str]:
    """Returns the artifact's names of a model's inputs; an empty list if neither model nor signature declares them."""
    inputs = declared_inputs(model)
    is_known = getattr(model, "built", False) and (input_signature is not None or inputs.is_known)
    return inputs.flatten(input_signature)[0].names if is_known else []


def _read_structure(model: Any) -> tuple[Any, list[str]]:
    """Returns the input structure of a model with its names; None and an empty list if the model has no structure."""
    import keras

    if isinstance(model, keras.Sequential) and functional_of(model) is model:
        return None, []  # Keras could not infer the outputs of the layers, so the model has no graph
    if isinstance(model, keras.Sequential):
        return model.inputs[0], [_layer_names(model).get(id(model.inputs[0]), "inputs")]
    if isinstance(model, keras.Model) and hasattr(model, "output_names"):
        layers = _layer_names(model)
        return model.input, [path_name(path, layers.get(id(x), x.name)) for path, x in leaves(model.input)]
    spec = model.input_spec
    if isinstance(spec, list | tuple) and len(spec) == 1:  # a list of one spec describes one tensor
        (spec,) = spec
    if spec is not None and all(s.shape is not None and s.dtype is not None for _, s in leaves(spec)):
        return spec, [path_name(path, _parameter_names(model, 1)[0]) for path, _ in leaves(spec)]
    return None, []


def _with_dtype(spec: Any, dtype: Any) -> Any:
    """Returns a spec, with the model's own dtype if the spec has none."""
    import keras

    if spec.dtype is not None or not isinstance(spec, keras.InputSpec):
        return spec
    return keras.InputSpec(shape=spec.shape, dtype=keras.backend.standardize_dtype(dtype))


def _layer_names(model: Any) -> dict[int, str]:
    import keras

    inputs = [layer for layer in functional_of(model).layers if isinstance(layer, keras.layers.InputLayer)]
    return {id(layer.output): layer.name for layer in inputs}


def _parameter_names(model: Any, count: int) -> list[str]:
    names = [name for name in inspect.signature(model.call).parameters if name not in ("args", "kwargs", "training")]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


def output_names(model: Any, results: Any) -> list[str]:
    """Returns the model's own names of its outputs, flat."""
    import keras

    found = leaves(results)
    if isinstance(model, keras.Sequential):
        own = [model.layers[-1].name]
    elif hasattr(model, "output_names"):
        by_tensor = dict(zip(map(id, model.outputs), model.output_names, strict=True))
        own = [by_tensor[id(x)] for _, x in leaves(model.output)]
    else:
        own = [f"output_{i}" for i in range(len(found))] if len(found) > 1 else ["output"]
    if len(own) != len(found):  # a subclass of Functional may override `call`
        own = [f"output_{i}" for i in range(len(found))]
    return [path_name(path, name) for (path, _), name in zip(found, own, strict=True)]


def _spec_shape(spec: Any, name: str) -> Shape:
    if getattr(spec, "sparse", False) or getattr(spec, "ragged", False):
        raise ValueError(f"Input {name!r} must be dense. Received: a sparse or ragged input.")
    if spec.shape is None:
        raise ValueError(f"Input {name!r} must have a shape in `input_signature`. Received: shape=None.")
    return tuple(dim if dim is None or isinstance(dim, str) else int(dim) for dim in spec.shape)


def _spec_dtype(spec: Any, name: str) -> str:
    import keras

    if spec.dtype is None:
        raise ValueError(f"Input {name!r} must have a dtype in `input_signature`. Received: dtype=None.")
    return str(keras.backend.standardize_dtype(spec.dtype))


def required_arguments(model: Any) -> list[str]:
    """Returns the names of the required arguments of the model's call."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.call).parameters.values()
    return [each.name for each in parameters if each.kind in kinds and each.default is each.empty]


def remarks_on_arguments(model: Any, count: int) -> list[str]:
    """Returns a sentence on further arguments of the model's call, which are not inputs; empty without any.

    Args:
        model: The Keras model.
        count: The number of arguments that are inputs.
    """
    names = [name for name in inspect.signature(model.call).parameters if name not in _NO_INPUTS][count:]
    rest = ", ".join(map(repr, names))
    return [
        f"Its call also takes {rest}, which is not an input. Give `input_signature` to make it an input."
        for _ in names[:1]
    ]
