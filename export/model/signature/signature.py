"""What a model takes and returns: names, dtypes, static and dynamic dimensions, and the structures that hold them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.sizes.dimensions import Dimension, describe_dimensions, fitted, spread
from keras_pe.export.model.watch.known_values import KnownValues, Vocabulary
from keras_pe.export.model.watch.nesting import StaticShape, align, map_leaves
from keras_pe.export.results import Array
from keras_pe.shown import Shown

_NOT_TOLD = "The examples of its inputs are too large to be kept in the artifact: give them to a check as `inputs`."


@dataclass(frozen=True, repr=False)
class Signature(Shown):
    """The inputs and outputs of a model under the names that every artifact of it carries.

    Attributes:
        inputs: Flat, in the model's order.
        outputs: Flat, in the model's order.
        arguments: The positional arguments of the model's call, with the names of `inputs` as leaves.
        results: What the model returns, with the names of `outputs` as leaves.
        sizes: Sizes of the inputs' dynamic dimensions that the model was called with.
        dimensions: What each of these dimensions is, and the sizes that it takes.
        renamed: The model's own name of each tensor whose name an artifact cannot carry.
        values: What is known of the values that the model takes.
        remarks: Sentences on what could not be found out.
        fixed_sizes: The sizes that an artifact fixes although the model declares them dynamic; None if there are none.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    arguments: tuple[Any, ...]
    results: Any
    sizes: Mapping[str, int]
    dimensions: Mapping[str, Dimension] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    values: KnownValues = field(default_factory=KnownValues)
    remarks: tuple[str, ...] = ()
    fixed_sizes: FixedSizes | None = None

    def _one_line(self) -> str:
        return f"{self.details()['inputs']} -> {self.details()['outputs']}"

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        rows = {name: "; ".join(map(str, each)) for name, each in (("inputs", self.inputs), ("outputs", self.outputs))}
        fixed = map(str, self.fixed_sizes.sizes if self.fixed_sizes else ())
        sizes = "; ".join([*describe_dimensions(self.dimensions), *fixed])
        return rows | ({"sizes": sizes} if sizes else {})

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """What inputs are looked up in."""
        return self.values.vocabularies

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

    def flattened(self) -> tuple[list[str], list[str]]:
        """Returns the names of the inputs and of the outputs in the order in which Keras' own exporters number them."""
        import keras

        flat = [keras.tree.flatten(structure) for structure in (self.arguments, self.results)]
        return [name for name in flat[0] if name is not None], [name for name in flat[1] if name is not None]

    def example(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Returns arrays by name that the model takes, of the given sizes or else of those that it was called with.

        They are zeros, unless something else is known, see `KnownValues`.
        """
        return self.values.plain(self._specs(sizes or self.sizes))

    def varied(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Returns the same with values of both signs, which not every model takes."""
        return self.values.varied(self._specs(sizes or self.sizes))

    def _specs(self, sizes: Mapping[str, int]) -> dict[str, tuple[StaticShape, str]]:
        def static(shape: tuple[int | str, ...]) -> StaticShape:
            return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)

        return {spec.name: (static(spec.shape), spec.dtype) for spec in self.inputs}

    def fitted(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Returns sizes that the model takes, next to those that are wanted, and as different from each other."""
        return fitted(self.dimensions, {**self.sizes, **wanted})

    def other_sizes(self) -> dict[str, int]:
        """Returns sizes that the model takes, all other than those that it was called with where the ranges allow."""
        found = spread(self.dimensions, batch=2, start=max([29, *(2 * size for size in self.sizes.values())]))
        alike = {
            name: self.dimensions[name].sizes.other(size) for name, size in self.sizes.items() if found[name] == size
        }
        return found | {name: size for name, size in alike.items() if size is not None}

    def call(self, model: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a model of this signature returns in inference, by name, as arrays by name come in.

        Raises:
            ValueError: If the names or the results are not those of the signature.
        """
        return self.unpack(model(*self.pack(arrays), training=False))

    def with_dtype(self, dtype: str) -> "Signature":
        """Returns the signature of the same model in another precision, as `with_dtype` of a model makes it."""

        def cast(specs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
            floats = ("float16", "bfloat16", "float32")
            return tuple(replace(spec, dtype=dtype) if spec.dtype in floats else spec for spec in specs)

        return replace(self, inputs=cast(self.inputs), outputs=cast(self.outputs))

    def fixed(self, sizes: Mapping[str, int]) -> "Signature":
        """Returns the signature of the same model with sizes in place of some dimensions."""

        def cut(specs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
            shapes = (tuple(sizes.get(d, d) if isinstance(d, str) else d for d in spec.shape) for spec in specs)
            return tuple(replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True))

        left = {name: size for name, size in self.sizes.items() if name not in sizes}
        dimensions = {name: own for name, own in self.dimensions.items() if name not in sizes}
        return replace(self, inputs=cut(self.inputs), outputs=cut(self.outputs), sizes=left, dimensions=dimensions)

    def notes(self) -> list[str]:
        """Returns the sentences that an artifact of the model has as notes.

        They are on names that it cannot carry, values that it does not refuse, sizes that it fixes, and on what could
        not be found out.
        """
        renamed = [f"{old!r} of the model is called {name!r} in the artifact." for name, old in self.renamed.items()]
        closed = [name for name, vocabulary in self.vocabularies.items() if vocabulary.is_closed]
        return (
            renamed
            + [
                f"{name!r} takes the entries of its vocabulary alone: Keras refuses others, the artifact need not."
                for name in closed
            ]
            + [_NOT_TOLD] * (len(self.values.told.examples) < len(self.values.examples))
            + [str(each) for each in (self.fixed_sizes,) if each is not None]
            + list(self.remarks)
        )

    def unpack(self, structure: Any) -> dict[str, Any]:
        """Returns what the model returned by name, in the order of `outputs`.

        Raises:
            ValueError: If the structure is not the one the model returns.
        """
        return dict(align(self.results, structure))


def input_specs(signature: Signature) -> list[Any]:
    """Returns a `tf.TensorSpec` for each input, by its name."""
    import tensorflow as tf

    shapes = [[None if isinstance(dim, str) else dim for dim in spec.shape] for spec in signature.inputs]
    return [tf.TensorSpec(shape, s.dtype, s.name) for shape, s in zip(shapes, signature.inputs, strict=True)]


def confirmed_outputs(
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    runs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]],
) -> tuple[TensorInfo, ...]:
    """Returns the outputs, with a dimension of its own where a size came back that is not the declared one.

    Args:
        inputs: What is declared of the inputs.
        outputs: What is declared of the outputs.
        runs: The inputs of each run, and the outputs that came back.
    """
    outputs = tuple(outputs)
    for given, returned in runs:
        sizes = {
            dim: size
            for spec in inputs
            if spec.name in given
            for dim, size in zip(spec.shape, given[spec.name].shape, strict=False)
            if isinstance(dim, str)
        }
        outputs = tuple(
            replace(spec, shape=tuple(_confirmed(spec, axis, size, sizes) for axis, size in enumerate(shape)))
            if spec.name in returned and len(shape := returned[spec.name].shape) == len(spec.shape)
            else spec
            for spec in outputs
        )
    return outputs


def _confirmed(spec: TensorInfo, axis: int, size: int, sizes: dict[str, int]) -> int | str:
    declared = spec.shape[axis]
    known = sizes.get(declared) if isinstance(declared, str) else declared
    return declared if known is None or known == size else f"{spec.name}_axis_{axis}"
