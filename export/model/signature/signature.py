"""The signature of a model: names, dtypes, shapes and structures of its inputs and outputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.display import Shown
from keras_pe.export.artifacts.artifact import TensorInfo, dynamic_sizes
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.sizes.dimensions import (
    Dimension,
    SizeRange,
    add_parts,
    checked_sizes,
    describe_dimensions,
    spread,
)
from keras_pe.export.model.watch.known_values import KnownValues, Vocabulary
from keras_pe.export.model.watch.nested_arguments import StaticShape, align, free_shape, map_leaves, sized_shape
from keras_pe.export.results import Array

_NOT_TOLD = "The examples of its inputs are too large to be kept in the artifact: give them to a check as `inputs`."


@dataclass(frozen=True, repr=False)
class Signature(Shown):
    """The inputs and outputs of a model, with the names that its artifacts use.

    Attributes:
        inputs: The inputs, flat and in the model's order.
        outputs: The outputs, flat and in the model's order.
        arguments: The positional arguments of the model's call, with the names of `inputs` as leaves.
        results: The structure that the model returns, with the names of `outputs` as leaves.
        sizes: Sizes of the dynamic dimensions at which the model was called.
        dimensions: The kind and the valid sizes of each dynamic dimension, by name.
        renamed: The model's own name of each tensor that has another name in artifacts.
        values: The known constraints on the values of the inputs.
        remarks: Sentences on properties that could not be inferred.
        fixed_sizes: The sizes that an artifact fixes although the model declares them dynamic, or None.
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
        """Returns the rows of the table in a notebook, by name."""
        rows = {name: "; ".join(map(str, each)) for name, each in (("inputs", self.inputs), ("outputs", self.outputs))}
        fixed = map(str, self.fixed_sizes.sizes if self.fixed_sizes else ())
        sizes = "; ".join([*describe_dimensions(self.dimensions), *fixed])
        return rows | ({"sizes": sizes} if sizes else {})

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """The vocabulary of each input that a layer looks up, by name."""
        return self.values.vocabularies

    def pack(self, arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the positional arguments of the model's call: `model(*signature.pack(arrays))`.

        Raises:
            ValueError: If a name is missing, or no input has a name.
        """
        names = [spec.name for spec in self.inputs]
        if set(names) != set(arrays):
            raise ArgValueError(
                "arrays", f"must have the names {', '.join(names)}. Received: {', '.join(arrays) or 'none'}."
            )
        packed: tuple[Any, ...] = map_leaves(self.arguments, lambda name: arrays[name])
        return packed

    def flat_names(self) -> tuple[list[str], list[str]]:
        """Returns the names of the inputs and of the outputs, in the order of Keras' own exporters."""
        import keras

        flat = [keras.tree.flatten(structure) for structure in (self.arguments, self.results)]
        return [name for name in flat[0] if name is not None], [name for name in flat[1] if name is not None]

    def example(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Returns valid input arrays by name, of the given sizes, or by default of `sizes` of the signature.

        The arrays contain zeros unless other values are known to be valid, see `KnownValues`.
        """
        return self.values.plain_tensors(self._specs(sizes or self.sizes))

    def varied_example(self) -> dict[str, Any]:
        """Returns input arrays with values of both signs, see `example`. Some models refuse such values."""
        return self.values.varied_tensors(self._specs(self.sizes))

    def _specs(self, sizes: Mapping[str, int]) -> dict[str, tuple[StaticShape, str]]:
        return {spec.name: (sized_shape(spec.shape, sizes), spec.dtype) for spec in self.inputs}

    def other_sizes(self) -> dict[str, int]:
        """Returns valid sizes that all differ from `sizes` of the signature, if the ranges allow."""
        found = spread(self.dimensions, batch=2, start=max([29, *(2 * size for size in self.sizes.values())]))
        alike = {
            name: self.dimensions[name].sizes.other(size) for name, size in self.sizes.items() if found[name] == size
        }
        return add_parts(self.dimensions, found | {name: size for name, size in alike.items() if size is not None})

    def step_sizes(self) -> dict[str, int] | None:
        """Returns the sizes of a call with one token after others; None without a cache."""
        token = next((each.parts[-1] for each in self.dimensions.values() if each.parts), None)
        return None if token is None else add_parts(self.dimensions, {**self.sizes, token: 1})

    def call(self, model: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Calls a model in inference mode with arrays by name, and returns its outputs by name.

        Raises:
            ValueError: If the names or the structure of the outputs differ from the signature.
        """
        return self.unpack(model(*self.pack(arrays), training=False))

    def with_dtype(self, dtype: str) -> "Signature":
        """Returns the signature of the model's rebuild in another precision, see `rebuild.with_dtype`."""

        def cast(specs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
            floats = ("float16", "bfloat16", "float32")
            return tuple(replace(spec, dtype=dtype) if spec.dtype in floats else spec for spec in specs)

        return replace(self, inputs=cast(self.inputs), outputs=cast(self.outputs))

    def fix_sizes(self, sizes: Mapping[str, int]) -> "Signature":
        """Returns the signature with sizes in place of some dimensions."""

        def cut(specs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
            return tuple(replace(spec, shape=sized_shape(spec.shape, sizes)) for spec in specs)

        left = {name: size for name, size in self.sizes.items() if name not in sizes}
        dimensions = {name: own for name, own in self.dimensions.items() if name not in sizes}
        return replace(self, inputs=cut(self.inputs), outputs=cut(self.outputs), sizes=left, dimensions=dimensions)

    def with_sizes(self, sizes: Mapping[str, Sequence[int]]) -> "Signature":
        """Returns the signature with the caller's sizes of some dimensions.

        Raises:
            ValueError: If a dimension is unknown, or a size is not a whole number from 1.
        """
        known = checked_sizes(sizes)
        if unknown := set(known) - set(self.dimensions):
            rule = f"must be of the dimensions {', '.join(self.dimensions)}"
            raise ArgValueError("sizes", f"{rule}. Received: {', '.join(sorted(unknown))}.")
        ranges = {name: SizeRange(min(own), 0, given=own) for name, own in known.items()}
        dimensions = {
            name: replace(own, sizes=ranges[name]) if name in ranges else own for name, own in self.dimensions.items()
        }
        chosen = {name: own.least for name, own in ranges.items()}
        return replace(self, sizes=add_parts(dimensions, {**self.sizes, **chosen}), dimensions=dimensions)

    def notes(self) -> list[str]:
        """Returns the sentences that an artifact records as notes.

        They report renamed tensors, invalid values that the artifact accepts, fixed sizes, and properties that could
        not be inferred.
        """
        renamed = [f"{old!r} of the model is called {name!r} in the artifact." for name, old in self.renamed.items()]
        closed = [name for name, vocabulary in self.vocabularies.items() if vocabulary.is_closed]
        return (
            renamed
            + [
                f"{name!r} takes the entries of its vocabulary alone: Keras refuses others, the artifact need not."
                for name in closed
            ]
            + [_NOT_TOLD] * (len(self.values.published.examples) < len(self.values.examples))
            + [str(each) for each in (self.fixed_sizes,) if each is not None]
            + list(self.remarks)
        )

    def unpack(self, structure: Any) -> dict[str, Any]:
        """Returns the outputs of the model by name, in the order of `outputs`.

        Raises:
            ValueError: If the structure differs from `results`.
        """
        return dict(align(self.results, structure))


def input_specs(signature: Signature) -> list[Any]:
    """Returns a `tf.TensorSpec` for each input, with the name of the input."""
    import tensorflow as tf

    return [tf.TensorSpec(free_shape(spec.shape), spec.dtype, spec.name) for spec in signature.inputs]


def confirmed_outputs(
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    runs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]],
) -> tuple[TensorInfo, ...]:
    """Returns the declared outputs, with a new dynamic dimension in place of each size that a run contradicts.

    Args:
        inputs: The declared inputs.
        outputs: The declared outputs.
        runs: The inputs and the outputs of each run.
    """
    outputs = tuple(outputs)
    for given, returned in runs:
        sizes = dynamic_sizes(inputs, given)
        outputs = tuple(
            replace(spec, shape=tuple(_confirm_size(spec, axis, size, sizes) for axis, size in enumerate(shape)))
            if spec.name in returned and len(shape := returned[spec.name].shape) == len(spec.shape)
            else spec
            for spec in outputs
        )
    return outputs


def _confirm_size(spec: TensorInfo, axis: int, size: int, sizes: dict[str, int]) -> int | str:
    declared = spec.shape[axis]
    known = sizes.get(declared) if isinstance(declared, str) else declared
    return declared if known is None or known == size else f"{spec.name}_axis_{axis}"
