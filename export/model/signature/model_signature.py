"""`model_signature`: finds out what a model takes and returns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.signature.declared import (
    declared_arguments,
    is_declared,
    optional_inputs,
    output_names,
    recorded_signatures,
    remarks_on_arguments,
    signature_without,
    spec_dtype,
    spec_shape,
)
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import Kind, checked_sizes, unnamed_lengths
from keras_pe.export.model.sizes.found_sizes import FoundSizes, find_sizes
from keras_pe.export.model.watch.known_values import KnownValues, find_vocabularies
from keras_pe.export.model.watch.nesting import FlatModel, Shape, leaves, sanitize, unique, with_leaves
from keras_pe.export.results import Array
from keras_pe.protocols import Model

_AS_NUMBERS = "Python asks for a number in a tensor there: compute with keras.ops, or set it before the export."

Value = TypeVar("Value")


def model_signature(
    model: Model,
    input_signature: Any = None,
    *,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[Mapping[str, Array]] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Signature:
    """Returns the signature of a Keras model.

    Functional and Sequential models need not have been called. A model that was built by its own call tells neither the
    dtypes nor the dynamic dimensions. They are taken from `model.input_spec`, or from the shapes of its first argument
    when it was called or built, which Keras notes, and the layers that it reaches; or from an example.

    Args:
        model: A built `keras.Model`. Its graph is asked which sizes it takes and which dimensions must agree, and it is
            called on arrays of zeros of such sizes, its state left alone.
        input_signature: The structure of the model's input with a `keras.InputSpec`, a `TensorInfo` of this package, a
            `tf.TensorSpec` or a `keras.KerasTensor` at each leaf; as in `keras.Model.export`, a list or tuple holds the
            positional arguments of a subclassed model's call. `None` is a dynamic dimension; this package's
            `TensorInfo` may name it instead, and equal names are then taken to be equal sizes. An `InputSpec` without a
            dtype has the model's. For an optional input, `None` stands for a call without it. A `Signature` is returned
            as it is.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, each an array for every input by name: the model's own, or the one
            that an artifact has in its place.
        ranges: The fair values of an input, by its name as in `inputs`: the least, and the first above that is not
            fair.

    Raises:
        ValueError: If the signature is not known, does not fit, or if the model cannot be called with it.
        TypeError: If `model` is not a Keras model, or another argument of a wrong type.
    """
    import keras

    if not isinstance(model, keras.Model):
        raise TypeError(f"`model` must be a keras.Model. Received: {type(model).__name__}.")
    sizes, ranges = by_name("sizes", sizes), by_name("ranges", ranges)
    if not model.built:
        raise ValueError(
            f"`model` must be built: {model.name!r} has no weights yet. Call it once, or load its weights."
        )
    if isinstance(input_signature, Signature):
        if sizes or inputs or ranges:
            raise ValueError("`sizes`, `inputs` and `ranges` must be given where the `Signature` is made.")
        return input_signature
    if input_signature is None and not is_declared(model):
        recorded = _recorded(model, sizes, inputs, ranges)
        if recorded is not None:
            return recorded
    given = checked_sizes(sizes)
    if input_signature is None and inputs:
        absent = {
            name for name in optional_inputs(model) if not any({name, sanitize(name)} & {*each} for each in inputs)
        }
        input_signature = signature_without(model, absent)
    arguments, names = declared_arguments(model, input_signature)
    specs = [spec for _, spec in leaves(arguments)]
    plain = unique(map(sanitize, names))
    shapes = [spec_shape(spec, name) for spec, name in zip(specs, names, strict=True)]
    dtypes = [spec_dtype(spec, name) for spec, name in zip(specs, names, strict=True)]
    structure = with_leaves(arguments, plain)
    flat = FlatModel(model, structure, dict(zip(plain, zip(shapes, dtypes, strict=True), strict=True)))
    vocabularies, remarks = find_vocabularies(flat)
    known = {name: each for name, each in zip(plain, vocabularies, strict=True) if each}
    portable = dict(zip(names, plain, strict=True))
    fair = checked_ranges(renamed(ranges, portable), plain)
    values = KnownValues(known, fair, checked_examples([renamed(each, portable) for each in inputs], flat))
    try:
        found = find_sizes(flat, values, given)
    except UnknownSizesError as error:
        if inputs:
            rule, what = "`inputs` must fit the model", "the arrays that were given for"
        else:
            is_known = input_signature is None
            rule = "`model` must take plain values" if is_known else "`input_signature` must fit the model"
            what = "zeros of"
        raise UnknownSizesError(
            f"{rule}: {model.name!r} cannot be called on {what} the shapes "
            f"{', '.join(f'{name} {shape}' for name, shape in zip(names, shapes, strict=True))}. {error}. "
            f"{_AS_NUMBERS if error.asks_for_a_value else _as_sizes(names, shapes, dtypes)}"
        ) from error.__cause__
    _check_sizes(model.name, given, found, dtypes)
    named = [TensorInfo(*spec) for spec in zip(plain, found.shapes, dtypes, strict=True)]
    own, outputs, results = _outputs(model, found, plain)
    called = [*zip(plain, names, strict=True), *zip([spec.name for spec in outputs], own, strict=True)]
    return Signature(
        tuple(named),
        outputs,
        structure,
        results,
        found.sizes,
        found.dimensions,
        {name: old for name, old in called if name != old},
        replace(values, filling=found.filling),
        tuple(remarks),
    )


def _recorded(
    model: Any,
    sizes: Mapping[str, Sequence[int]] | None,
    inputs: Sequence[Mapping[str, Array]],
    ranges: Mapping[str, tuple[float, float]] | None,
) -> Signature | None:
    """Returns the freest signature that fits what is recorded of a subclassed model; None where nothing is.

    Raises:
        UnknownSizesError: If none fits; the freest one's.
    """
    refusal = None
    for candidate in recorded_signatures(model, inputs):
        remarks = remarks_on_arguments(model, len(candidate))
        try:
            found = model_signature(model, candidate, sizes=sizes, inputs=inputs, ranges=ranges)
            return replace(found, remarks=(*remarks, *found.remarks))
        except UnknownSizesError as error:
            refusal = refusal or (" ".join([str(error), *remarks]), error.__cause__)
    if refusal is not None:
        text, cause = refusal
        raise UnknownSizesError(text) from cause
    return None


def _as_sizes(own: Sequence[str], shapes: Sequence[Shape], dtypes: Sequence[str]) -> str:
    """Returns how values and sizes are given that were not found, in two sentences."""
    arrays = (f"{name!r}: <{dtype}, {len(shape)} axes>" for name, shape, dtype in zip(own, shapes, dtypes, strict=True))
    examples = f"give an example, or several: inputs={{{', '.join(arrays)}}}"
    named = [dim for shape in shapes for dim in shape if isinstance(dim, str)]
    lengths = [dim for dim in named if Kind.of_name(dim, shapes) is not Kind.BATCH]
    names = dict.fromkeys([*lengths, *unnamed_lengths(shapes)])
    fixed = "fixed in `input_signature`"
    given = f"give them: sizes={dict.fromkeys(names, (64, 128))}, or {fixed}" if names else f"give them {fixed}"
    return f"If it takes certain values only, {examples}. If it takes certain sizes only, {given}."


def _check_sizes(model: str, given: Mapping[str, Sequence[int]], found: FoundSizes, dtypes: Sequence[str]) -> None:
    """Raises ValueError if a dimension is not dynamic at all, or none of the model."""
    dimensions = found.dimensions
    if unknown := given.keys() - dimensions:
        raise ValueError(
            f"`sizes` must be of the dynamic dimensions {', '.join(dimensions) or '(there are none)'}. "
            f"Received: {', '.join(sorted(unknown))}."
        )
    ranges = {name: own.sizes for name, own in dimensions.items()}
    fixed = {name: own.least for name, own in ranges.items() if not own.step and not own.given}
    if not fixed:
        return
    raise UnknownSizesError(
        f"{model!r} takes no other size that was asked for than {', '.join(f'{n} {s}' for n, s in fixed.items())}. "
        f"Fix it: {written_signature(found.shapes, dtypes, fixed)}, or give the sizes that you know: "
        f"sizes={ {name: (size,) for name, size in fixed.items()} }."
    )


def written_signature(
    shapes: Sequence[tuple[int | str, ...]], dtypes: Sequence[str], fixed: Mapping[str, int | None]
) -> str:
    """Returns the argument of an export that fixes dimensions, as it is written in Python."""
    static = [tuple(fixed.get(dim) if isinstance(dim, str) else dim for dim in shape) for shape in shapes]
    specs = (f"keras.InputSpec(shape={s}, dtype={d!r})" for s, d in zip(static, dtypes, strict=True))
    return f"input_signature=[{', '.join(specs)}]"


def _outputs(model: Any, found: FoundSizes, inputs: list[str]) -> tuple[list[str], tuple[TensorInfo, ...], Any]:
    """Returns the model's own names of its outputs, what they are, and the structure that it returns them in."""
    import keras

    dtypes = [keras.backend.standardize_dtype(x.dtype) for _, x in leaves(found.results)]
    own = output_names(model, found.results)
    plain = unique(map(sanitize, own), taken=inputs)
    shapes = [
        tuple(dim if isinstance(dim, int) or dim in found.sizes else f"{name}_{dim}" for dim in shape)
        for name, shape in zip(plain, found.outputs, strict=True)
    ]
    tensors = tuple(TensorInfo(*spec) for spec in zip(plain, shapes, dtypes, strict=True))
    return own, tensors, with_leaves(found.results, plain)


def renamed(given: Mapping[str, Value], portable: Mapping[str, str]) -> dict[str, Value]:
    """Returns what was given by names of inputs, the model's own or those of artifacts, by those of artifacts."""
    return {name if name in portable.values() else portable.get(name, name): value for name, value in given.items()}


def by_name(argument: str, values: Any) -> Mapping[str, Any]:
    """Returns what was given by name; nothing where None was.

    Raises:
        TypeError: If it is no mapping from texts.
    """
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(f"`{argument}` must be a mapping from names. Received: {argument}={values!r:.80}")
    return values


def checked_ranges(ranges: Mapping[str, tuple[float, float]], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns the ranges.

    Raises:
        ValueError: If one is of no input, is empty, or is so wide that nothing can be drawn from it.
    """
    if unknown := ranges.keys() - set(names):
        raise ValueError(f"`ranges` must be of inputs: {', '.join(names)}. Received: {', '.join(sorted(unknown))}.")
    for name, ends in ranges.items():
        try:
            low, high = ends
            float(high) - float(low)
        except (TypeError, ValueError):
            raise TypeError(f"`ranges` must be pairs of numbers. Received: {name!r} with {ends!r:.80}") from None
        if not low < high:
            raise ValueError(f"`ranges` must hold a value. Received: {name!r} from {low!r} to less than {high!r}.")
        if not np.isfinite(float(high) - float(low)):
            raise ValueError(f"`ranges` must have finite ends. Received: {name!r} from {low!r} to {high!r}.")
    return dict(ranges)


def checked_examples(examples: Sequence[Mapping[str, Array]], model: FlatModel) -> tuple[Mapping[str, Array], ...]:
    """Returns the examples.

    Raises:
        ValueError: If one has not an array for each input, of its dimensions.
    """
    for example in examples:
        if set(example) != set(model.names):
            raise ValueError(
                f"`inputs` must have an array for each of {', '.join(sorted(model.names))}. "
                f"Received: {', '.join(sorted(example))}."
            )
        for name, shape in zip(model.names, model.shapes, strict=True):
            found = np.shape(example[name])
            fits = len(found) == len(shape) and all(
                not isinstance(dim, int) or dim == size for dim, size in zip(shape, found, strict=True)
            )
            if not fits:
                raise ValueError(
                    f"`inputs` must be of the shapes of the model: {name!r} is {shape}. Received: {found}."
                )
    return tuple(examples)
