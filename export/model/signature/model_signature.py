"""`model_signature`: infers the inputs and outputs of a model."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.signature.caller_arguments import by_name, checked_examples, checked_ranges, rename_inputs
from keras_pe.export.model.signature.declared_inputs import (
    Inputs,
    declared_inputs,
    output_names,
    remarks_on_arguments,
)
from keras_pe.export.model.signature.fixed_sizes import FixedSize, FixedSizes, Origin, fixed_as_given, fixed_between
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.signature.size_errors import beyond_table, broken_rule, ways_out
from keras_pe.export.model.signature.subclassed_signature import recorded_shapes, recorded_signatures
from keras_pe.export.model.sizes.dimensions import Kind, checked_sizes
from keras_pe.export.model.sizes.found_sizes import FoundSizes, find_sizes
from keras_pe.export.model.watch.known_values import KnownValues, find_vocabularies
from keras_pe.export.model.watch.nested_arguments import free_shape, leaves, sanitize, sized_shape, unique, with_leaves
from keras_pe.export.results import Array
from keras_pe.protocols import Model

_AS_NUMBERS = "Python asks for a number in a tensor there: compute with keras.ops, or set it before the export."


def model_signature(
    model: Model,
    input_signature: Any = None,
    *,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[Mapping[str, Array]] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> Signature:
    """Returns the signature of a Keras model.

    Functional and Sequential models need not have been called. A subclassed model declares neither dtypes nor dynamic
    dimensions. They follow from `model.input_spec`, from an example, or from the recorded shapes of the first argument
    and the layers that this argument reaches.

    Args:
        model: A built `keras.Model`. The function infers the valid and the equal dimensions from the model's graph, and
            calls the model on zeros of such sizes. The state of the model does not change.
        input_signature: The structure of the model's input. Each leaf is a `keras.InputSpec`, a `TensorInfo` of this
            package, a `tf.TensorSpec` or a `keras.KerasTensor`. A list or tuple contains the positional arguments of a
            subclassed model's call, as in `keras.Model.export`. A dynamic dimension is `None`, or a name in a
            `TensorInfo`; dimensions of one name are equal. An `InputSpec` without a dtype has the model's dtype. `None`
            in place of a spec omits an optional input. A `Signature` is returned unchanged.
        sizes: The sizes that a dynamic dimension takes, by its name, such as `{"height": (64, 224)}`. By default the
            function searches for them.
        inputs: Examples of the inputs. Each has an array for every input, by the model's or the artifact's name.
        ranges: The valid range of an input, by name: the least value, and the end, which is not valid itself.

    Raises:
        ValueError: If the signature is unknown or does not fit, or the model cannot be called with it.
        TypeError: If `model` is not a Keras model, or another argument has a wrong type.
    """
    return find_signature(model, input_signature, sizes=sizes, inputs=inputs, ranges=ranges)


def find_signature(
    model: Model,
    input_signature: Any = None,
    *,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[Mapping[str, Array]] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    fixed: FixedSizes | None = None,
) -> Signature:
    """Returns the signature of a model, with fixed sizes.

    Args:
        model, input_signature, sizes, inputs, ranges: See `model_signature`.
        fixed: The fixed sizes, with the shapes of the inputs.

    Raises:
        ValueError, TypeError: See `model_signature`.
    """
    import keras

    if not isinstance(model, keras.Model):
        raise ArgTypeError("model", f"must be a keras.Model. Received: {type(model).__name__}.")
    asked = _Asked(by_name("sizes", sizes), inputs, by_name("ranges", ranges))
    if not model.built:
        raise ArgValueError(
            "model", f"must be built: {model.name!r} has no weights yet. Call it once, or load its weights."
        )
    if isinstance(input_signature, Signature):
        if (asked.sizes if fixed is None else fixed.without_fixed(asked.sizes)) or inputs or ranges:
            raise ValueError("`sizes`, `inputs` and `ranges` must be passed to the call that made the `Signature`.")
        return (
            input_signature if fixed is None else replace(input_signature.fix_sizes(fixed.by_name), fixed_sizes=fixed)
        )
    own = declared_inputs(model)
    if input_signature is not None:
        return _signature(own, asked, input_signature, fixed)
    if own.is_known:
        given = {name for each in inputs for name in each}
        absent = [name for name in own.optional if not {name, sanitize(name)} & given] if inputs else []
        return _signature(own, asked, own.without(absent), fixed, may_fix=fixed is None)
    refusal = None
    for candidate, sizes_of_call in recorded_signatures(model, inputs):
        remarks = remarks_on_arguments(model, len(candidate))
        try:
            found = _signature(own, asked, candidate, fixed, may_fix=fixed is None and refusal is None)
        except UnknownSizesError as error:
            refusal = refusal or (error, " ".join([str(error), *remarks]))
            continue
        if sizes_of_call and fixed is None:
            found = replace(found, fixed_sizes=FixedSizes(tuple(sizes_of_call)).with_inputs(found.inputs))
        return replace(found, remarks=(*remarks, *found.remarks))
    if refusal is not None:
        first, text = refusal
        raise first.with_text(text) from first.__cause__
    return _signature(own, asked, None, fixed)


@dataclass(frozen=True)
class _Asked:
    """The arguments `sizes`, `inputs` and `ranges` of `model_signature`."""

    sizes: Mapping[str, Sequence[int]]
    inputs: Sequence[Mapping[str, Array]]
    ranges: Mapping[str, tuple[float, float]]


def _signature(
    own: Inputs, asked: _Asked, input_signature: Any, fixed: FixedSizes | None, *, may_fix: bool = False
) -> Signature:
    """Returns the signature of a model whose inputs are declared by the model or by an input signature.

    With `may_fix`, the signature may fix a dimension with one size from the caller, or a declared dimension that takes
    only one size.
    """
    model = own.model
    given = checked_sizes(asked.sizes if fixed is None else fixed.without_fixed(asked.sizes))
    flat, names = own.flatten(input_signature)
    plain, dtypes = flat.names, flat.dtypes
    if fixed is not None:
        flat.shapes = [fixed.shape_of(name, shape) for name, shape in zip(plain, flat.shapes, strict=True)]
        fixed = fixed if fixed.fits(dict(zip(plain, flat.shapes, strict=True))) else None
    shapes = flat.shapes
    known, remarks = find_vocabularies(flat)
    portable = dict(zip(names, plain, strict=True))
    fair = checked_ranges(rename_inputs(asked.ranges, portable), plain)
    values = KnownValues(known, fair, checked_examples([rename_inputs(each, portable) for each in asked.inputs], flat))
    try:
        found = find_sizes(flat, values, given)
    except UnknownSizesError as error:
        at_given = fixed_as_given(plain, shapes, given) if may_fix else None
        if at_given is not None:
            with contextlib.suppress(UnknownSizesError):
                return _signature(own, asked, input_signature, at_given)
        text = beyond_table(error, given, model.name) or (
            f"{broken_rule(asked.inputs, input_signature, model.name)} the shapes "
            f"{', '.join(f'{name} {shape}' for name, shape in zip(names, shapes, strict=True))}. {error}. "
            f"{_AS_NUMBERS if error.asks_for_a_value else ways_out(names, shapes, dtypes, recorded_shapes(model))}"
        )
        raise error.with_text(text) from error.__cause__
    if fixed is None and (alone := fixed_between(shapes, found.shapes, Origin.ONLY)):
        fixed = FixedSizes(tuple(alone))
    may_fix_only = may_fix and input_signature is None and fixed is None and not asked.inputs
    if may_fix_only and (only := _only_size(model, found)):
        taken = found.sized_shapes({each.name: each.size for each in only})
        return _signature(own, asked, None, FixedSizes(tuple(only), tuple(zip(plain, taken, strict=True))))
    _check_sizes(model.name, given, found, dtypes)
    named = [TensorInfo(*spec) for spec in zip(plain, found.shapes, dtypes, strict=True)]
    own_names, outputs, results = _outputs(model, found, plain)
    called = [*zip(plain, names, strict=True), *zip([spec.name for spec in outputs], own_names, strict=True)]
    return Signature(
        tuple(named),
        outputs,
        flat.structure,
        results,
        found.sizes,
        found.dimensions,
        {name: old for name, old in called if name != old},
        replace(values, filling=found.filling),
        tuple(remarks),
        fixed and fixed.with_inputs(named),
    )


def _only_size(model: Any, found: FoundSizes) -> list[FixedSize]:
    """Returns the size of the only dimension with a single valid size, if a weight of the model has this size.

    Without such a weight, the model may accept other sizes, which the search did not try.
    """
    ranges = {name: own.sizes for name, own in found.dimensions.items()}
    alone = [name for name, own in ranges.items() if not own.step and not own.given]
    if len(alone) != 1 or found.dimensions[alone[0]].kind is Kind.BATCH:
        return []
    size = ranges[alone[0]].least
    is_of_weight = any(size in variable.shape for variable in model.variables)
    return [FixedSize(alone[0], size, Origin.ONLY)] if is_of_weight else []


def _check_sizes(model: str, given: Mapping[str, Sequence[int]], found: FoundSizes, dtypes: Sequence[str]) -> None:
    """Raises ValueError if `given` names an unknown dimension, or a dimension takes only one size."""
    dimensions = found.dimensions
    if unknown := given.keys() - dimensions:
        raise ArgValueError(
            "sizes",
            f"must be of the dynamic dimensions {', '.join(dimensions) or '(there are none)'}. "
            f"Received: {', '.join(sorted(unknown))}.",
        )
    ranges = {name: own.sizes for name, own in dimensions.items()}
    fixed = {name: own.least for name, own in ranges.items() if not own.step and not own.given}
    if not fixed:
        return
    raise UnknownSizesError(
        f"{model!r} accepts only {', '.join(f'{n} {s}' for n, s in fixed.items())} of the tried sizes. "
        f"Fix the size: {written_signature(found.shapes, dtypes, fixed)}, or give the sizes that you know: "
        f"sizes={ {name: (size,) for name, size in fixed.items()} }."
    )


def written_signature(shapes: Sequence[tuple[int | str, ...]], dtypes: Sequence[str], fixed: Mapping[str, int]) -> str:
    """Returns the Python code of an `input_signature` that fixes dimensions."""
    static = [free_shape(sized_shape(shape, fixed)) for shape in shapes]
    specs = (f"keras.InputSpec(shape={s}, dtype={d!r})" for s, d in zip(static, dtypes, strict=True))
    return f"input_signature=[{', '.join(specs)}]"


def _outputs(model: Any, found: FoundSizes, inputs: list[str]) -> tuple[list[str], tuple[TensorInfo, ...], Any]:
    """Returns the outputs: the own names, the descriptions, and the structure with the names of the artifact."""
    dtypes = [dtype for _, dtype in leaves(found.results)]
    own = output_names(model, found.results)
    plain = unique(map(sanitize, own), taken=inputs)
    shapes = [
        tuple(dim if isinstance(dim, int) or dim in found.sizes else f"{name}_{dim}" for dim in shape)
        for name, shape in zip(plain, found.outputs, strict=True)
    ]
    tensors = tuple(TensorInfo(*spec) for spec in zip(plain, shapes, dtypes, strict=True))
    return own, tensors, with_leaves(found.results, plain)
